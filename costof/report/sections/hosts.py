"""Hosts: what each load machine contributed to the run, and warnings about machines that distort the figures."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median

from pydantic import Field

from costof import format as fmt
from costof.errors import WarningText
from costof.messages.answers import HostPart, merged_figures
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.changes import every_change, judge_changes
from costof.results.index import Index, verdict_words
from costof.results.ledger import SliceRecord
from costof.results.metrics import Samples, add_samples
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import CONFIDENCE, ROUNDS_FOR_INTERVAL, trimmed_mean
from costof.study.commands import COMMAND
from costof.study.schema import Metric

ENGINE_CPU, COMMANDS_CPU = "CPU of the engine", "CPU of the commands"
HEAD = ["host", "cores", "operations", "errors", "CPU in use", ENGINE_CPU, "steal", "latest start", "clock error"]
TITLE = "Slow hosts"
METHOD = (
    "All hosts measure each slice together, for the same time, and their operations give one figure. A host is slow if "
    "its mean exceeds that of the other hosts in the same slices by the metric's margin, and the interval of the ratio "
    "is above 1 (trimmed mean over rounds; 95 % for all hosts together, by Bonferroni)."
)
COMMANDS_METHOD = (
    "The rates that the hosts' programs print are added up. Peak memory is the maximum of all hosts. All other printed "
    "figures, including percentiles, are means over the hosts, because the programs do not print distributions."
)
#: A host that uses more than this share of its CPU time may itself limit the load.
BUSY = 0.8
#: Seconds after a connection for which its local port cannot be used again (TIME_WAIT).
PORT_REUSE_SECONDS = 60.0


class HostRow(Model):
    """The contribution of one host. CPU shares (0 to 1) are means over the host's slices."""

    host: str
    cores: int
    operations: int
    errors: int
    busy: Finite
    engine: Finite = Field(description="Share of the CPUs available to the engine (or the commands) that it used.")
    steal: Finite
    latest_ms: Finite = Field(description="Maximum delay of the host's start of a slice after the agreed time.")
    clock_error_ms: Finite = Field(description="Maximum error of the host's clock in the median slice.")
    connections_a_minute: int = Field(description="Maximum number of connections that the host opened in a minute.")
    ports: int = Field(
        description="Number of local ports that the host can use for connections to one address; 0 if unknown."
    )


class SlowHost(Model):
    """A host that is slower than the other hosts in one metric."""

    metric: str
    host: str
    ratio: Estimate = Field(
        description="The host's mean divided by that of the other hosts, or the inverse if higher is better; above 1."
    )


class DecidingHost(Model):
    """A host on which a verdict depends: the verdict would be different without the figures of this host."""

    metric: str
    arm: str
    host: str


class Hosts(Model):
    rows: list[HostRow]
    slower: list[SlowHost]
    deciding: list[DecidingHost]
    commands: bool = Field(default=False, description="Whether the hosts ran the user's commands.")


class HostsSection(Section[None, Hosts]):
    name, title, order = "hosts", "Load machines", 125
    data = Hosts

    def compute(self, run: Run, core: Core, spec: None) -> Hosts | None:
        names = list(dict.fromkeys(part.host for record in run.counted for part in record.hosts))
        if not names or run.environment is None:
            return None
        facts = run.environment.facts["hosts"]
        rows = [_row(run, name, facts.get(name, {})) for name in names]
        commands = run.plan.study.service.kind == COMMAND
        return Hosts(rows=rows, slower=_slower(run, names), deciding=_deciding(run, names), commands=commands)

    def answer(self, index: Index, data: Hosts) -> list[Sentence]:
        texts = [
            WarningText.HOST_SLOW.text(
                host=each.host, effect=_effect(each.ratio), metric=index.metric_label(each.metric)
            )
            for each in data.slower
        ]
        texts += [
            WarningText.HOST_BUSY.text(host=row.host, share=fmt.share(round(max(row.busy, row.engine), 2)))
            for row in data.rows
            if max(row.busy, row.engine) > BUSY
        ]
        texts += [
            WarningText.HOST_PORTS.text(
                host=row.host, connections=f"{row.connections_a_minute:,}", ports=f"{row.ports:,}"
            )
            for row in data.rows
            if row.ports and row.connections_a_minute > row.ports
        ]
        for each in data.deciding:
            effect, metric = index.effect(each.metric, each.arm), index.metrics[each.metric]
            subject = f"'{metric.label}' with {index.label_at(each.arm)}"
            verdict = verdict_words(effect, metric) if effect else ""
            texts.append(WarningText.HOST_DECIDES.text(host=each.host, what=subject, verdict=verdict))
        return sentences("warning", texts)

    def blocks(self, index: Index, data: Hosts) -> Iterator[Block]:
        head = [COMMANDS_CPU if data.commands and each == ENGINE_CPU else each for each in HEAD]
        yield Table.of(head, map(_cells, data.rows), texts=(0,), media=FILES)
        if data.slower:
            rows = [[index.metric_label(each.metric), each.host, _effect(each.ratio)] for each in data.slower]
            yield Table.of(["metric", "host", "slower by"], rows, title=TITLE, texts=(0, 1))
        yield Paragraph(f"{METHOD} {COMMANDS_METHOD}" if data.commands else METHOD, "note", media=FILES)


def _row(run: Run, name: str, facts: Mapping[str, int]) -> HostRow:
    parts = [part for record in run.counted for part in record.hosts if part.host == name and part.participated]
    cpus = int(facts.get("CPUs given", 1))
    engine_shares = [part.engine_cpu_ns / max(1, part.ended_ns - part.late_ns) / max(1, cpus) for part in parts]
    return HostRow(
        host=name,
        cores=int(facts.get("cores", 1)),
        operations=sum(part.operations for part in parts),
        errors=sum(part.errors for part in parts),
        busy=fmean(part.machine_busy for part in parts) if parts else 0.0,
        engine=fmean(engine_shares) if parts else 0.0,
        steal=fmean(part.steal for part in parts) if parts else 0.0,
        latest_ms=max((part.late_ns for part in parts), default=0) / 1e6,
        clock_error_ms=median([part.clock_error_ns for part in parts] or [0]) / 1e6,
        connections_a_minute=_most_a_minute(run.slices, name),
        ports=int(facts.get("ports", 0)),
    )


def _most_a_minute(slices: Sequence[SliceRecord], name: str) -> int:
    """Return the maximum number of connections that a host opened within a minute."""
    window: deque[tuple[float, int]] = deque()
    opened = most = 0
    for record in slices:
        count = sum(part.phases["tcp"].count for part in record.hosts if part.host == name and "tcp" in part.phases)
        at = record.answer.started_unix_ns / 1e9
        window.append((at, count))
        opened += count
        while window[0][0] < at - PORT_REUSE_SECONDS:
            opened -= window.popleft()[1]
        most = max(most, opened)
    return most


def _slower(run: Run, names: Sequence[str]) -> list[SlowHost]:
    metrics = {
        name: metric
        for name, metric in run.plan.study.metrics.items()
        if metric.headline and (not metric.is_of_whole_slice or metric.command_figure)
    }
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(names) * len(metrics))
    hosts = []
    for name, metric in metrics.items():
        # Compare hosts by the mean time of the metric's phase, even if the metric is a rate. So a higher number is
        # worse. Figures that a command reports are exceptions: they are compared directly, and may be rates.
        more_is_better = metric.command_figure and metric.better == "higher"
        for host in names:
            by_round: dict[int, list[float]] = {}
            for record in run.counted:
                mean, rest = _means(record.hosts, metric, host) if record.workload == metric.workload else (0.0, 0.0)
                if mean > 0 and rest > 0:
                    slower = rest / mean if more_is_better else mean / rest
                    by_round.setdefault(record.round, []).append(math.log(slower))
            logs = [fmean(each) for each in by_round.values()]
            if len(logs) < ROUNDS_FOR_INTERVAL:
                continue
            ratio = trimmed_mean(logs).estimate(len(logs), confidence).through(math.exp)
            if ratio.low > 1 and ratio.value >= 1 + metric.margin:
                hosts.append(SlowHost(metric=name, host=host, ratio=ratio))
    return hosts


def _means(parts: Sequence[HostPart], metric: Metric, host: str) -> tuple[float, float]:
    """Return the metric's mean on this host and its mean on all other hosts, each 0 if there are no values."""
    if name := metric.command_figure:
        figures = {part.host: part.figures[name] for part in parts if name in part.figures}
        mean = figures.pop(host, 0.0)
        return mean, fmean(figures.values()) if figures else 0.0
    phases = {part.host: part.phases[metric.phase] for part in parts if metric.phase in part.phases}
    phase = phases.pop(host, None)
    count, total = sum(each.count for each in phases.values()), sum(each.sum_ns for each in phases.values())
    return (phase.sum_ns / phase.count if phase and phase.count else 0.0), (total / count if count else 0.0)


def _deciding(run: Run, names: Sequence[str]) -> list[DecidingHost]:
    """Return the headline verdicts that would be different without one of the hosts, each with that host."""
    if len(names) < 2:
        return []
    verdicts = _verdicts(run, run.samples)
    deciding = []
    for host in names:
        without = _verdicts(run, _samples_without(run, host))
        deciding += [
            DecidingHost(metric=metric, arm=arm, host=host)
            for (metric, arm), verdict in verdicts.items()
            if verdict is not Verdict.UNRESOLVED and without.get((metric, arm), verdict) is not verdict
        ]
    return deciding


def _verdicts(run: Run, samples: Samples) -> dict[tuple[str, str], Verdict]:
    changes = judge_changes(run.plan, every_change(run.plan, samples), run.error_rate)
    return {(each.metric, each.change.arm.name): each.verdict for each in changes if each.contrast.headline}


def _samples_without(run: Run, host: str) -> Samples:
    samples = Samples(run.samples.units)
    for record in run.counted:
        part = next((part for part in record.hosts if part.host == host), None)
        measured = record if part is None else _record_without(record, part)
        if measured.answer.operations:
            add_samples(run.plan, samples, measured)
    return samples


def _record_without(record: SliceRecord, part: HostPart) -> SliceRecord:
    """Return the slice with counts, means and rates that exclude this host. Other figures still include it."""
    answer = record.answer
    figures = merged_figures([each.figures for each in record.hosts if each is not part], answer.rates)
    phases = {}
    for name, phase in answer.phases.items():
        removed = part.phases.get(name)
        count, total = phase.count, phase.sum_ns
        if removed:
            count, total = count - removed.count, total - removed.sum_ns
        if count:
            phases[name] = phase.model_copy(update={"count": count, "sum_ns": total})
    operations = answer.operations - part.operations
    update = {"operations": operations, "phases": phases, "figures": figures}
    return record.model_copy(update={"answer": answer.model_copy(update=update)})


def _effect(ratio: Estimate) -> str:
    return str(fmt.relative(ratio)).removeprefix("+")


def _cells(row: HostRow) -> list[str]:
    return [
        row.host,
        str(row.cores),
        f"{row.operations:,}",
        f"{row.errors:,}",
        *(fmt.percent(share) for share in (row.busy, row.engine, row.steal)),
        *(fmt.milliseconds(each) for each in (row.latest_ms, row.clock_error_ms)),
    ]


SECTION = HostsSection()
