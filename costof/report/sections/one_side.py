"""Without a control: figures of arms whose control could not be measured, such as TLS if the server refuses plaintext.

Such figures cannot show the cost of the protection. They show which share of a connection's time TLS takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.messages.answers import mean_count
from costof.model import Finite, Model
from costof.report.blocks import Block, Paragraph, Table
from costof.report.key_figures import PHASES
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.ledger import SliceRecord
from costof.results.models import Arm, Core, Sentence
from costof.results.run import Run, cpu_seconds_per_operation
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, estimate
from costof.statistics.tails import operations_needed

TLS = ("tls_request", "tls")
NOTE = "There are no figures of {control}, so the cost of {arms} is unknown. Round trips and bytes are counts."


class PhaseAlone(Model):
    """One phase of a new connection of an arm without a measured control: its time, round trips and bytes."""

    phase: str
    mean_ms: Estimate
    round_trips: Finite | None = Field(description="Counted round trips for each connection.")
    bytes_sent: Finite | None
    bytes_received: Finite | None


class ConnectionAlone(Model):
    """A new connection of one arm, measured on the wire: its times, round trips and bytes."""

    arm: str
    workload: str
    connections: int
    whole_ms: Estimate = Field(description="All phases, including the first query if there is one.")
    tls_ms: Estimate = Field(
        description="The phases of TLS: the request for TLS, if the protocol has one, and the handshake."
    )
    tls_share: Finite = Field(description="tls_ms divided by whole_ms, 0 to 1.")
    phases: list[PhaseAlone]
    client_cpu_ms: Finite | None = Field(description="CPU time of the client (the engine) for each connection.")


class OneSide(Model):
    """The arms without a measured control, and the measurements of their connections."""

    arms: list[str] = Field(description="Arms that have figures, but whose control has none.")
    connections: list[ConnectionAlone]


class OneSideSection(Section[None, OneSide]):
    name, title, order = "one_side", "Without a control", 19
    data = OneSide

    def compute(self, run: Run, core: Core, spec: None) -> OneSide | None:
        failed = {arm.name for arm in core.arms if arm.control and arm.error}
        measured = {value.arm for value in core.values}
        arms = [
            arm.name for arm in core.arms if arm.control_arm in failed and not arm.replicate and arm.name in measured
        ]
        if not arms:
            return None
        workloads = [name for name, each in run.plan.study.workloads.items() if each.view == "wire"]
        connections = [_connection(run, workload, arm) for arm in arms for workload in workloads]
        return OneSide(arms=arms, connections=[each for each in connections if each is not None])

    def answer(self, index: Index, data: OneSide) -> list[Sentence]:
        nothing_to_compare = (
            f"The cost of {_labels(index, data)} is unknown, because {index.control_label} could not be measured."
        )
        return sentences("answer", [nothing_to_compare, *(_sentence(index, each) for each in data.connections)])

    def blocks(self, index: Index, data: OneSide) -> Iterator[Block]:
        for name in data.arms:
            arm = index.arm(name)
            assert arm is not None
            if rows := [*_metrics(index, arm)]:
                yield Table.of(["", "mean", "p50", "p99"], rows, title=f"{arm.label}{arm.at}, without a comparison")
            for each in data.connections:
                if each.arm == name:
                    head = ["phase", "ms", "share", "round trips", "bytes sent / received"]
                    yield Table.of(head, _phases(each), title=f"A new connection with {arm.label}{arm.at}")
        yield Paragraph(NOTE.format(control=index.control_label, arms=_labels(index, data)), "note")


def _connection(run: Run, workload: str, arm: str) -> ConnectionAlone | None:
    """Return the measurements of a new connection; None if the workload does not use TLS or has too few rounds."""
    records = run.counted_slices(workload, arm)
    names = [name for name in PHASES if any(name in record.answer.phases for record in records)]
    if not set(TLS) & set(names):
        return None
    by_phase: dict[str, dict[int, float]] = {name: {} for name in names}
    for record in records:
        for name in names:
            phase = record.answer.phases.get(name)
            if phase is not None and phase.count:
                by_phase[name][record.round] = phase.sum_ns / phase.count / 1e6
    rounds = [number for number in by_phase["tls"] if all(number in each for each in by_phase.values())]
    if len(rounds) < ROUNDS_FOR_INTERVAL:
        return None

    def mean(phases: Sequence[str]) -> Estimate:
        return estimate(
            run.samples.units.means({each: sum(by_phase[name][each] for name in phases) for each in rounds})
        )

    whole, tls = mean(names), mean([name for name in names if name in TLS])
    cpu = cpu_seconds_per_operation(records).get("client")
    return ConnectionAlone(
        arm=arm,
        workload=workload,
        connections=sum(phase.count for record in records if (phase := record.answer.phases.get("tls"))),
        whole_ms=whole,
        tls_ms=tls,
        tls_share=tls.value / whole.value,
        phases=[_phase(records, name, mean([name])) for name in names],
        client_cpu_ms=None if cpu is None else cpu * 1000,
    )


def _phase(records: Sequence[SliceRecord], name: str, mean: Estimate) -> PhaseAlone:
    phases = [phase for record in records if (phase := record.answer.phases.get(name))]
    return PhaseAlone(
        phase=name,
        mean_ms=mean,
        round_trips=mean_count(phases, "round_trips"),
        bytes_sent=mean_count(phases, "bytes_sent"),
        bytes_received=mean_count(phases, "bytes_received"),
    )


def _labels(index: Index, data: OneSide) -> str:
    return fmt.listed([index.label_at(name) for name in data.arms])


def _sentence(index: Index, each: ConnectionAlone) -> str:
    """Return sentences about a connection: its time, the part that TLS takes, and the client's CPU time.

    For example: 'A new connection with TLS takes 3.1 ms (…). TLS takes 1.2 ms (…) of a new connection (39 %), …'.
    """
    tls = [phase for phase in each.phases if phase.phase in TLS]
    whole, part = (fmt.with_interval(mean, "ms") for mean in (each.whole_ms, each.tls_ms))
    share = fmt.share(round(each.tls_share, 2))
    label = index.label_at(each.arm)
    text = f"A new connection with {label} takes {whole}. TLS takes {part} of a new connection ({share})"
    if trips := _total(tls, "round_trips"):
        text += f", {fmt.round_trips(trips)}"
    sent, received = _total(tls, "bytes_sent"), _total(tls, "bytes_received")
    if sent and received:
        text += f", {fmt.count(sent)} bytes sent and {fmt.count(received)} bytes received"
    if each.client_cpu_ms is not None:
        text += f". The client uses {fmt.number(each.client_cpu_ms)} ms of CPU time for each new connection"
    return f"{text}."


def _total(phases: Sequence[PhaseAlone], attribute: str) -> float | None:
    counted = [getattr(phase, attribute) for phase in phases]
    return None if None in counted else sum(counted)


def _metrics(index: Index, arm: Arm) -> Iterator[list[str | Text]]:
    for metric in index.core.metrics:
        value = index.value(metric.name, arm.name)
        if value is None:
            continue
        tails = [
            fmt.number(value.percentiles[name]) if value.operations >= operations_needed(float(name[1:])) else fmt.NONE
            for name in ("p50", "p99")
        ]
        yield [fmt.titled(metric.label, metric.unit), fmt.absolute(value.mean), *tails]


def _phases(each: ConnectionAlone) -> Iterator[list[str | Text]]:
    for phase in each.phases:
        trips = fmt.NONE if phase.round_trips is None else fmt.count(phase.round_trips)
        transferred = fmt.sent_and_received(phase.bytes_sent, phase.bytes_received)
        share = fmt.share(round(phase.mean_ms.value / each.whole_ms.value, 2))
        yield [PHASES[phase.phase], fmt.absolute(phase.mean_ms), share, trips, transferred]


SECTION = OneSideSection()
