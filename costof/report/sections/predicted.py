"""Predicted for a distance: what a target's clients would pay who are farther away than the machine that measured.

Only of a run on a target that was asked for a distance (`--distance`), which costof cannot lay before a user's own
servers. A time there is the measured time and, for each round trip that was counted on the wire, what the distance is
longer than the way of this run. That holds where requests do not wait for each other: for operations one after the
other, and at a load that is carried.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Finite, Model
from costof.report.blocks import Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.changes import Change
from costof.results.index import Index
from costof.results.load import way_to_target_ms
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import Mean, estimate, ratio
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, WORKLOAD, Arrivals

#: How many of a unit are a millisecond.
UNITS = {"ms": 1.0, "us": 1000.0}
HEAD = ["", "without", "with", "difference", "relative", "round trips"]
HOW = (
    "Predicted, not measured: the measured time and, for each round trip counted on the wire, what {distance} is more "
    "than the {here} of this run's own way."
)


class PredictedEffect(Model):
    """What an operation of an arm takes at a distance, and one of its control."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite = Field(description="The distance.")
    control_value: Estimate
    value: Estimate
    difference: Estimate
    ratio: Estimate | None
    control_round_trips: Finite = Field(description="Of an operation, counted.")
    round_trips: Finite


class Held(Model):
    """Connections that the clients of a load hold at once at a distance, on average."""

    arm: str
    round_trip_ms: Finite
    connections: Finite


class Predicted(Model):
    distances_ms: list[Finite]
    here_ms: Finite = Field(description="The way to the target in this run: the shortest TCP handshake of a control.")
    most_connections: int | None = Field(description="Of a load: that clients held at once, at most.")
    effects: list[PredictedEffect]
    held: list[Held]


class PredictedSection(Section[None, Predicted]):
    name, title, order = "predicted", "Predicted for your distance", 6
    data = Predicted

    def compute(self, run: Run, core: Core, spec: None) -> Predicted | None:
        distances, load = run.plan.predicted_ms, run.plan.load
        if not distances:
            return None
        here = way_to_target_ms(run)
        changes = [
            (name, change) for name in _predictable(run) for change in run.changes[name] if not change.arm.replicate
        ]
        effects = [_effect(run, name, change, distance, here) for distance in distances for name, change in changes]
        if not effects:
            return None
        held = []
        if isinstance(load, Arrivals):
            # Little's law: as many connections are held as come in the lifetime of one.
            times = {CONNECTION: 1, FIRST_QUERY: 1, QUERY: max(0, load.queries_per_connection - 1)}
            lives: dict[tuple[str, float], float] = {}
            for each in effects:
                key = (each.arm, each.round_trip_ms)
                lives[key] = lives.get(key, 0.0) + times.get(each.metric, 0) * each.value.value
            held = [
                Held(arm=arm, round_trip_ms=distance, connections=load.connections_per_second * life_ms / 1000)
                for (arm, distance), life_ms in lives.items()
            ]
        return Predicted(
            distances_ms=distances,
            here_ms=here,
            most_connections=run.plan.study.workloads[WORKLOAD].workers if isinstance(load, Arrivals) else None,
            effects=effects,
            held=held,
        )

    def answer(self, index: Index, data: Predicted) -> list[Sentence]:
        arms = [arm.name for context in index.contexts for arm in context.shown_arms]
        told = [_told(index, data, distance, arm) for distance in data.distances_ms for arm in arms]
        return sentences("answer", [text for text in told if text])

    def blocks(self, index: Index, data: Predicted) -> Iterator[Block]:
        here = fmt.milliseconds(data.here_ms)
        for distance in data.distances_ms:
            away = fmt.milliseconds(distance)
            for arm in index.arms:
                effects = [each for each in data.effects if (each.round_trip_ms, each.arm) == (distance, arm.name)]
                if effects:
                    title = f"{arm.label}{arm.at}, predicted for {away} away"
                    yield Table.of(HEAD, [_row(index, each) for each in effects], title=title)
            yield Paragraph(HOW.format(distance=away, here=here), "note")


def _predictable(run: Run) -> list[str]:
    """Return times on the wire of operations that do not queue for each other, with counted round trips."""
    study = run.plan.study
    return [
        name
        for name, metric in study.metrics.items()
        if metric.unit in UNITS
        and (workload := study.workloads[metric.workload]).view == "wire"
        and (workload.workers == 1 or run.plan.load is not None)
        and any(
            piece.answer.phases[metric.phase].round_trips is not None
            for piece in run.counted
            if piece.workload == metric.workload and metric.phase in piece.answer.phases
        )
    ]


def _effect(run: Run, name: str, change: Change, distance: float, here: float) -> PredictedEffect:
    metric = run.plan.study.metrics[name]
    farther = (distance - here) * UNITS[metric.unit]
    control_trips, trips = (_round_trips(run, name, arm) for arm in (change.arm.baseline or "", change.arm.name))
    control = [each + control_trips * farther for each in change.control]
    values = [each + trips * farther for each in change.values]
    more = (trips - control_trips) * farther
    difference = Mean(change.difference.value + more, change.difference.error, change.difference.freedom)
    return PredictedEffect(
        arm=change.arm.name,
        metric=name,
        unit=metric.unit,
        round_trip_ms=distance,
        control_value=estimate(control),
        value=estimate(values),
        difference=difference.estimate(change.rounds),
        ratio=ratio(control, values),
        control_round_trips=control_trips,
        round_trips=trips,
    )


def _round_trips(run: Run, name: str, arm: str) -> float:
    """Return round trips of an operation; none of a control without the phase."""
    metric = run.plan.study.metrics[name]
    phases = [piece.answer.phases.get(metric.phase) for piece in run.of(metric.workload, arm)]
    counted = [phase for phase in phases if phase is not None]
    return sum(phase.round_trips or 0 for phase in counted) / max(1, sum(phase.count for phase in counted))


def _told(index: Index, data: Predicted, distance: float, arm: str) -> str | None:
    """Return 'Predicted for 2 ms away, from …: TLS adds 5.1 ms (95 % interval 5.0 to 5.2) to a new connection.'"""
    effects = [each for each in data.effects if (each.round_trip_ms, each.arm) == (distance, arm)]
    clauses = [_clause(index, each) for each in effects if index.metrics[each.metric].headline]
    if not clauses:
        return None
    held = next((each for each in data.held if (each.round_trip_ms, each.arm) == (distance, arm)), None)
    away, here = (fmt.milliseconds(each) for each in (distance, data.here_ms))
    basis = f"from times measured {here} away and round trips counted on the wire"
    text = f"Predicted for {away} away, {basis}: {index.label(arm)} {fmt.listed(clauses)}."
    if held is not None and data.most_connections is not None and held.connections > data.most_connections:
        text += (
            f" Clients would hold about {fmt.number(held.connections, 0)} connections at once there, and of more than "
            f"{data.most_connections} this run says nothing."
        )
    return text


def _clause(index: Index, each: PredictedEffect) -> str:
    """Return 'adds 5.1 ms (95 % interval 5.0 to 5.2, +66 %) to a new connection'."""
    what = fmt.with_article(index.metrics[each.metric].label)
    takes_off = each.difference.high < 0
    size = each.difference.through(lambda value: -value) if takes_off else each.difference
    amount = fmt.with_interval(size, each.unit, each.ratio)
    if size.low <= 0 <= size.high:
        return f"has no resolved effect on {what}: {amount}"
    return f"takes {amount} off {what}" if takes_off else f"adds {amount} to {what}"


def _row(index: Index, each: PredictedEffect) -> list[str | Text]:
    metric = index.metrics[each.metric]
    before, after = (fmt.number(value.value) for value in (each.control_value, each.value))
    trips = f"{fmt.count(each.control_round_trips)} and {fmt.count(each.round_trips)}"
    relative = fmt.relative(each.ratio) if each.ratio is not None else fmt.NONE
    more = fmt.absolute(each.difference, signed=True)
    return [fmt.titled(metric.label, each.unit), before, after, more, relative, trips]


SECTION = PredictedSection()
