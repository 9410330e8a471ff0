"""Predicted for a distance: the cost for clients that are farther away from the servers than the measuring machine.

Only runs on a target (the user's own servers) with `--distance` have this section, because costof cannot delay the
user's network.

Predicted time = measured time + round trips counted on the wire x (requested distance - round-trip time during the
run). The prediction is valid only if requests do not queue: if a client sends one request after the other, or if the
servers carry the load.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.messages.answers import mean_count
from costof.model import Finite, Model
from costof.report.blocks import Block, Paragraph, Table
from costof.report.key_figures import KeyFigure, interval_verdict, uneven_lines
from costof.report.sections import Section, sentences
from costof.results.changes import Change
from costof.results.index import Index
from costof.results.load import round_trip_to_target_ms
from costof.results.models import Arm, Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import Mean, estimate, ratio
from costof.statistics.uneven import UnevenRounds, disagrees, ratio_of_means, uneven_rounds
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, WORKLOAD, Arrivals

#: The units of the metrics that can be predicted, and how many of each unit a millisecond has.
UNITS = {"ms": 1.0, "us": 1000.0}
HEAD = ["", "without", "with", "difference", "relative", "round trips"]
METHOD = (
    "Predicted time = measured time + round trips counted on the wire × ({distance} − {here}). The "
    "round-trip time of this run was {here}."
)


class PredictedEffect(Model):
    """The predicted time of an operation at a distance, with an arm and with its control."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite = Field(description="The distance.")
    control_value: Estimate
    value: Estimate
    difference: Estimate
    ratio: Estimate | None = Field(
        description="Value divided by control value; None if it is unknown, or if it does not fit the difference."
    )
    uneven: UnevenRounds | None = Field(
        default=None, description="The rounds that dominate the mean difference; None if none do."
    )
    control_round_trips: Finite = Field(description="Round trips of an operation, counted.")
    round_trips: Finite


class OpenConnections(Model):
    """The predicted mean number of connections that are open at once, with an arm and at a distance."""

    arm: str
    round_trip_ms: Finite
    connections: Finite


class Predicted(Model):
    distances_ms: list[Finite]
    here_ms: Finite = Field(
        description="Round-trip time to the target in this run: the shortest TCP handshake of a control."
    )
    most_connections: int | None = Field(
        description="Maximum number of connections that the clients of a load could hold at once in this run."
    )
    effects: list[PredictedEffect]
    open_connections: list[OpenConnections]


class PredictedSection(Section[None, Predicted]):
    name, title, order = "predicted", "Predicted for your distance", 6
    data = Predicted

    def compute(self, run: Run, core: Core, spec: None) -> Predicted | None:
        distances, load = run.plan.predicted_ms, run.plan.load
        if not distances:
            return None
        here = round_trip_to_target_ms(run)
        changes = [
            (name, change) for name in _predictable(run) for change in run.changes[name] if not change.arm.replicate
        ]
        effects = [_effect(run, name, change, distance, here) for distance in distances for name, change in changes]
        if not effects:
            return None
        open_connections = []
        if isinstance(load, Arrivals):
            # Little's law: mean number of open connections = connections per second × duration of a connection.
            times = {CONNECTION: 1, FIRST_QUERY: 1, QUERY: max(0, load.queries_per_connection - 1)}
            lifetimes: dict[tuple[str, float], float] = {}
            for each in effects:
                key = (each.arm, each.round_trip_ms)
                lifetimes[key] = lifetimes.get(key, 0.0) + times.get(each.metric, 0) * each.value.value
            loads = {arm.name: run.plan.load_of(arm) or load for arm in run.plan.arms}
            open_connections = [
                OpenConnections(
                    arm=arm, round_trip_ms=distance, connections=(loads[arm].per_second or 0.0) * lifetime_ms / 1000
                )
                for (arm, distance), lifetime_ms in lifetimes.items()
            ]
        return Predicted(
            distances_ms=distances,
            here_ms=here,
            most_connections=run.plan.study.workloads[WORKLOAD].workers if isinstance(load, Arrivals) else None,
            effects=effects,
            open_connections=open_connections,
        )

    def answer(self, index: Index, data: Predicted) -> list[Sentence]:
        arms = [arm.name for context in index.contexts for arm in context.shown_arms]
        texts = [_sentence(index, data, distance, arm) for distance in data.distances_ms for arm in arms]
        return sentences("answer", [text for text in texts if text])

    def key_figures(self, index: Index, data: Predicted) -> list[KeyFigure]:
        distance = data.distances_ms[0]
        effects = {(each.arm, each.metric): each for each in data.effects if each.round_trip_ms == distance}
        return [
            _key_figure(index, arm, effects[arm.name, metric.name], data.here_ms)
            for arm in index.answered
            for metric in index.headline_metrics
            if (arm.name, metric.name) in effects
        ]

    def blocks(self, index: Index, data: Predicted) -> Iterator[Block]:
        arms = {arm.name: arm for arm in index.arms}
        here = fmt.milliseconds(data.here_ms)
        for distance in data.distances_ms:
            away = fmt.milliseconds(distance)
            for arm in index.arms:
                effects = [each for each in data.effects if (each.round_trip_ms, each.arm) == (distance, arm.name)]
                if effects:
                    title = f"{arm.label}{arm.at}, predicted for a round trip of {away}"
                    yield Table.of(HEAD, [_row(index, each) for each in effects], title=title)
            figures = [
                _key_figure(index, arms[each.arm], each, data.here_ms)
                for each in data.effects
                if each.round_trip_ms == distance and each.arm in arms and index.metrics[each.metric].headline
            ]
            if lines := uneven_lines(figures, index.unit):
                yield Paragraph(" ".join(lines))
            yield Paragraph(METHOD.format(distance=away, here=here), "note")


def _predictable(run: Run) -> list[str]:
    """Return the metrics that can be predicted: times that the engine measured (view 'wire').

    The engine must have counted the round trips of the operations. The operations must not queue, so the workload has a
    single worker, or the run has a load (--load).
    """
    study = run.plan.study
    return [
        name
        for name, metric in study.metrics.items()
        if metric.unit in UNITS
        and (workload := study.workloads[metric.workload]).view == "wire"
        and (workload.workers == 1 or run.plan.load is not None)
        and any(
            record.answer.phases[metric.phase].round_trips is not None
            for record in run.counted
            if record.workload == metric.workload and metric.phase in record.answer.phases
        )
    ]


def _effect(run: Run, name: str, change: Change, distance: float, here: float) -> PredictedEffect:
    metric = run.plan.study.metrics[name]
    farther = (distance - here) * UNITS[metric.unit]
    control_trips, trips = (_round_trips(run, name, arm) for arm in (change.arm.control_arm or "", change.arm.name))
    control = [each + control_trips * farther for each in change.control]
    values = [each + trips * farther for each in change.values]
    more = (trips - control_trips) * farther
    shifted = Mean(change.difference.value + more, change.difference.error, change.difference.freedom)
    difference, relative = shifted.estimate(change.rounds), ratio(control, values)
    numbers = run.samples.unit_numbers(name, change.arm.control_arm or "", change.arm.name)
    return PredictedEffect(
        arm=change.arm.name,
        metric=name,
        unit=metric.unit,
        round_trip_ms=distance,
        control_value=estimate(control),
        value=estimate(values),
        difference=difference,
        ratio=ratio_of_means(control, values) if disagrees(difference, relative, control, values) else relative,
        uneven=uneven_rounds(numbers, difference, relative, control, values),
        control_round_trips=control_trips,
        round_trips=trips,
    )


def _round_trips(run: Run, name: str, arm: str) -> float:
    """Return the mean round trips of an operation; 0 if the arm lacks it, as plaintext lacks a TLS handshake."""
    metric = run.plan.study.metrics[name]
    answers = (record.answer for record in run.counted_slices(metric.workload, arm))
    return mean_count([phase for each in answers if (phase := each.phases.get(metric.phase))], "round_trips") or 0.0


def _key_figure(index: Index, arm: Arm, each: PredictedEffect, here_ms: float) -> KeyFigure:
    words = f"{fmt.with_article(index.metrics[each.metric].label)} {fmt.away(each.round_trip_ms)} away"
    return KeyFigure(
        name=each.metric,
        arm=arm.protection,
        arm_label=arm.label,
        label=words,
        note=f"computed from a run {fmt.away(here_ms)} away",
        words=words,
        unit=each.unit,
        metrics=[each.metric],
        arms=arm.with_control,
        without=each.control_value.value,
        value=each.value.value,
        difference=each.difference,
        ratio=each.ratio,
        uneven=each.uneven,
        control_label=index.control_label,
        verdict=interval_verdict(each.difference),
        predicted=True,
    )


def _sentence(index: Index, data: Predicted, distance: float, arm: str) -> str | None:
    """Return the sentence about an arm at a distance; None if it has no headline effects.

    For example: 'TLS adds 5.1 ms (95 % interval 5.0 to 5.2) to a new connection, 2 ms away (predicted …).'
    """
    effects = [each for each in data.effects if (each.round_trip_ms, each.arm) == (distance, arm)]
    clauses = [_clause(index, each) for each in effects if index.metrics[each.metric].headline]
    if not clauses:
        return None
    matching = (each for each in data.open_connections if (each.round_trip_ms, each.arm) == (distance, arm))
    opened = next(matching, None)
    away, here = (fmt.away(each) for each in (distance, data.here_ms))
    basis = f"predicted from times measured {here} away and round trips counted on the wire"
    text = f"{fmt.capital(index.label(arm))} {fmt.listed(clauses)}, {away} away ({basis})."
    if opened is not None and data.most_connections is not None and opened.connections > data.most_connections:
        text += (
            f" At this load, clients hold about {fmt.number(opened.connections, 0)} connections at once. This run "
            f"measured at most {data.most_connections}."
        )
    return text


def _clause(index: Index, each: PredictedEffect) -> str:
    """Return a clause about an effect: 'adds 5.1 ms (95 % interval 5.0 to 5.2, +66 %) to a new connection'."""
    what = fmt.with_article(index.metrics[each.metric].label)
    is_saving = each.difference.high < 0
    size = each.difference.through(lambda value: -value) if is_saving else each.difference
    amount = fmt.with_interval(size, each.unit, each.ratio)
    if size.low <= 0 <= size.high:
        return f"has an unresolved effect on {what}: {amount}"
    return f"shortens {what} by {amount}" if is_saving else f"adds {amount} to {what}"


def _row(index: Index, each: PredictedEffect) -> list[str | Text]:
    metric = index.metrics[each.metric]
    before, after = (fmt.number(value.value) for value in (each.control_value, each.value))
    trips = f"{fmt.count(each.control_round_trips)} and {fmt.count(each.round_trips)}"
    relative = fmt.relative(each.ratio) if each.ratio is not None else fmt.NONE
    more = fmt.absolute(each.difference, signed=True)
    return [fmt.titled(metric.label, each.unit), before, after, more, relative, trips]


SECTION = PredictedSection()
