"""Hosts: what each load machine had of the run, and whether one of them is another than the others."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median

from pydantic import Field

from costof import format as fmt
from costof.errors import WarningText
from costof.messages.answers import HostPart, SliceAnswer, merged_figures
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.changes import every_change, judge_changes
from costof.results.index import Index, verdict_words
from costof.results.ledger import SliceRecord
from costof.results.models import Core, Sentence
from costof.results.run import Run, server_readings
from costof.results.samples import Samples, add_samples
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import CONFIDENCE, ROUNDS_FOR_INTERVAL, trimmed_mean
from costof.study.commands import COMMAND
from costof.study.schema import Metric

OF_ITS_ENGINE, OF_ITS_COMMANDS = "its engine", "its commands"
HEAD = ["host", "cores", "operations", "errors", "CPU in use", OF_ITS_ENGINE, "steal", "latest start", "clock known to"]
TITLE = "Slower than the others"
METHOD = (
    "All hosts ask as one population: one plan, one window a slice, one figure a slice. A host is compared with the "
    "others of the same slices: the mean of its operations over theirs, trimmed over rounds, at 95 % for all hosts "
    "together (Bonferroni)."
)
OF_COMMANDS = (
    "Of what programs print, rates are added over the hosts; all else, percentiles among it, is the mean of what the "
    "hosts' programs said, since these do not say what their percentiles are percentiles of; of peak memory it is the "
    "greatest."
)
#: Of a host's CPU time: from here on it waits for itself.
BUSY = 0.8
#: A port that was used rests for so long (TIME_WAIT).
PORT_RESTS_SECONDS = 60.0


class HostRow(Model):
    """Shares are of the host's CPU time in its slices, on average."""

    host: str
    cores: int
    operations: int
    errors: int
    busy: Finite
    engine: Finite = Field(description="Of the CPUs that the engine was given.")
    steal: Finite
    latest_ms: Finite = Field(description="The latest opening of a window after the instant that was agreed upon.")
    clock_error_ms: Finite = Field(description="What its clock was known to within, in the median slice.")
    connections_a_minute: int = Field(description="The most that it opened in any minute.")
    ports: int = Field(description="For connections to one address; 0 where that is not known.")


class Slower(Model):
    metric: str
    host: str
    ratio: Estimate = Field(description="Its mean over that of the others; where more is better, theirs over its own.")


class Decides(Model):
    """A verdict that would be another without this host."""

    metric: str
    arm: str
    host: str


class Hosts(Model):
    rows: list[HostRow]
    slower: list[Slower]
    deciding: list[Decides]
    commands: bool = Field(default=False, description="Whether they ran commands of the user's own.")


class HostsSection(Section[None, Hosts]):
    name, title, order = "hosts", "Load machines", 125
    data = Hosts

    def compute(self, run: Run, core: Core, spec: None) -> Hosts | None:
        names = list(dict.fromkeys(part.host for piece in run.counted for part in piece.hosts))
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
            what = f"'{metric.label}' of {index.label_at(each.arm)}"
            verdict = verdict_words(effect, metric) if effect else ""
            texts.append(WarningText.HOST_DECIDES.text(host=each.host, what=what, verdict=verdict))
        return sentences("warning", texts)

    def blocks(self, index: Index, data: Hosts) -> Iterator[Block]:
        head = [OF_ITS_COMMANDS if data.commands and each == OF_ITS_ENGINE else each for each in HEAD]
        yield Table.of(head, map(_cells, data.rows), texts=(0,), media=FILES)
        if data.slower:
            found = [[index.metric_label(each.metric), each.host, _effect(each.ratio)] for each in data.slower]
            yield Table.of(["metric", "host", "slower by"], found, title=TITLE, texts=(0, 1))
        yield Paragraph(f"{METHOD} {OF_COMMANDS}" if data.commands else METHOD, "note", media=FILES)


def _row(run: Run, name: str, facts: Mapping[str, int]) -> HostRow:
    pieces = [(piece, part) for piece in run.counted for part in piece.hosts if part.host == name and part.participated]
    parts = [part for _, part in pieces]
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
    window: deque[tuple[float, int]] = deque()
    opened = most = 0
    for piece in slices:
        count = sum(part.phases["tcp"].count for part in piece.hosts if part.host == name and "tcp" in part.phases)
        at = piece.answer.started_unix_ns / 1e9
        window.append((at, count))
        opened += count
        while window[0][0] < at - PORT_RESTS_SECONDS:
            opened -= window.popleft()[1]
        most = max(most, opened)
    return most


def _slower(run: Run, names: Sequence[str]) -> list[Slower]:
    metrics = {
        name: metric
        for name, metric in run.plan.study.metrics.items()
        if metric.headline and (not metric.is_of_whole_slice or metric.command_figure)
    }
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(names) * len(metrics))
    found = []
    for name, metric in metrics.items():
        # A phase's mean is a time, whatever its metric makes of it.
        more_is_better = metric.command_figure and metric.better == "higher"
        for host in names:
            by_round: dict[int, list[float]] = {}
            for piece in run.counted:
                own, others = _told(piece.hosts, metric, host) if piece.workload == metric.workload else (0.0, 0.0)
                if own > 0 and others > 0:
                    slower = others / own if more_is_better else own / others
                    by_round.setdefault(piece.round, []).append(math.log(slower))
            logs = [fmean(each) for each in by_round.values()]
            if len(logs) < ROUNDS_FOR_INTERVAL:
                continue
            ratio = trimmed_mean(logs).estimate(len(logs), confidence).through(math.exp)
            if ratio.low > 1 and ratio.value >= 1 + metric.margin:
                found.append(Slower(metric=name, host=host, ratio=ratio))
    return found


def _told(parts: Sequence[HostPart], metric: Metric, host: str) -> tuple[float, float]:
    """Return the host's mean and that of all others; 0 where there is none."""
    if name := metric.command_figure:
        figures = {part.host: part.figures[name] for part in parts if name in part.figures}
        own = figures.pop(host, 0.0)
        return own, fmean(figures.values()) if figures else 0.0
    told = {part.host: part.phases[metric.phase] for part in parts if metric.phase in part.phases}
    alone = told.pop(host, None)
    count, total = sum(each.count for each in told.values()), sum(each.sum_ns for each in told.values())
    return (alone.sum_ns / alone.count if alone and alone.count else 0.0), (total / count if count else 0.0)


def _deciding(run: Run, names: Sequence[str]) -> list[Decides]:
    """Return the headline verdicts that one host by itself decides."""
    if len(names) < 2:
        return []
    reached = _verdicts(run, run.samples)
    found = []
    for host in names:
        without = _verdicts(run, _samples_without(run, host))
        found += [
            Decides(metric=metric, arm=arm, host=host)
            for (metric, arm), verdict in reached.items()
            if verdict is not Verdict.UNRESOLVED and without.get((metric, arm), verdict) is not verdict
        ]
    return found


def _verdicts(run: Run, samples: Samples) -> dict[tuple[str, str], Verdict]:
    changes = judge_changes(run.plan, every_change(run.plan, samples), run.error_rate)
    return {(each.metric, each.change.arm.name): each.verdict for each in changes if each.contrast.headline}


def _samples_without(run: Run, host: str) -> Samples:
    samples = Samples(run.samples.units)
    for piece in run.counted:
        part = next((part for part in piece.hosts if part.host == host), None)
        answer = piece.answer if part is None else _answer_without(piece, part)
        if answer.operations:
            add_samples(run.plan, samples, piece.round, piece.key, answer, server_readings(piece))
    return samples


def _answer_without(piece: SliceRecord, part: HostPart) -> SliceAnswer:
    """Return the answer of the other hosts, as far as means and rates go."""
    answer = piece.answer
    figures = merged_figures([each.figures for each in piece.hosts if each is not part], answer.rates)
    phases = {}
    for name, phase in answer.phases.items():
        own = part.phases.get(name)
        count, total = (phase.count - own.count, phase.sum_ns - own.sum_ns) if own else (phase.count, phase.sum_ns)
        if count:
            phases[name] = phase.model_copy(update={"count": count, "sum_ns": total})
    operations = answer.operations - part.operations
    return answer.model_copy(update={"operations": operations, "phases": phases, "figures": figures})


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
