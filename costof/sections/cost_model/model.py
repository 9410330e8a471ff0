"""The cost model: what an operation takes at a distance that was not measured.

Time of an operation = own time + round trips x round-trip time. Round trips are counted by the engine; own time is
estimated from the rounds at the nearest distance, where the link's share is smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from costof.analysis.run import Run, cpu_seconds
from costof.ledger.ledger import SliceRecord
from costof.model import Finite, Model
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import difference, estimate
from costof.study.arms import PlannedArm


class Operation(Model):
    """The metric, a time, from which the cost model takes an operation's parameters."""

    operation: Literal["connection", "operation"]
    metric: str
    predicts: list[str] = Field(description="Metrics, of the same phase, that it predicts for each distance.")


class OperationCost(Model):
    """What one operation of an arm takes by itself: the cost model's parameters, from the arm's local rounds.

    Time of an operation = own time + round trips x round-trip time (+ bytes / bandwidth).
    """

    protection: str = Field(description="The arm's name without its context: the same protection at any distance.")
    label: str
    control: bool
    operation: Literal["connection", "operation"]
    metric: str
    own_ms: Estimate
    round_trips: Finite = Field(description="Over the link, for each operation; counted.")
    bytes: Finite = Field(description="Both directions, for each operation; counted.")
    cpu_ms: dict[str, Finite] = Field(description="CPU time for each operation, by role.")


class ExtraCost(Model):
    """What a protection adds to one operation, with its uncertainty: what the calculator multiplies."""

    protection: str
    label: str
    operation: Literal["connection", "operation"]
    own_ms: Estimate
    round_trips: Finite
    bytes: Finite
    cpu_ms: Estimate = Field(description="CPU time of all roles together.")


class Prediction(Model):
    """The cost model's answer for a distance, beside what was measured there."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite
    predicted: Estimate
    measured: Estimate | None = None
    error: Finite | None = Field(default=None, description="Predicted over measured, minus 1; 0.01 is 1 %.")
    local: bool = Field(default=False, description="The model's parameters come from this very arm.")


class CostModel(Model):
    """Time and CPU of an operation as a function of the distance, and how well it predicts what was measured."""

    operations: list[OperationCost]
    extras: list[ExtraCost]
    predictions: list[Prediction]


def cost_model(run: Run, distances: dict[str, float], asked: Sequence[Operation]) -> CostModel:
    """The model of a run and its predictions for every distance that was measured."""
    nearest = min((control.context for control in run.plan.controls), key=lambda context: distances.get(context, 0.0))
    local = [arm for arm in run.plan.arms if arm.context == nearest and not arm.twin]
    operations, extras, predictions = [], [], []
    for operation in asked:
        for arm in local:
            cost = _operation_cost(run, operation, arm)
            if cost is None:
                continue
            operations.append(cost)
            predictions += _predictions(run, operation, cost, arm)
            extra = _extra_cost(run, operation, arm)
            if extra is not None:
                extras.append(extra)
    return CostModel(operations=operations, extras=extras, predictions=predictions)


def _operation_cost(run: Run, operation: Operation, arm: PlannedArm) -> OperationCost | None:
    if not run.has(operation.metric, arm):
        return None
    trips, sent_and_received = _counted(run, operation, arm)
    round_trip = run.plan.study.round_trip_ms(arm.levels)
    own = [value - trips * round_trip for value in run.samples.of(operation.metric, arm.name)]
    pieces = run.of(run.plan.study.metrics[operation.metric].workload, arm.name)
    return OperationCost(
        protection=arm.protection,
        label=arm.label,
        control=arm.control,
        operation=operation.operation,
        metric=operation.metric,
        own_ms=estimate(own),
        round_trips=trips,
        bytes=sent_and_received,
        cpu_ms={role: seconds * 1e3 for role, seconds in _cpu_seconds(pieces).items()},
    )


def _counted(run: Run, operation: Operation, arm: PlannedArm) -> tuple[float, float]:
    """Round trips over the link and bytes, for each operation."""
    metric = run.plan.study.metrics[operation.metric]
    # A slice in which nothing succeeded has no phases, and no part in the figures.
    answers = (piece.answer for piece in run.of(metric.workload, arm.name))
    phases = [phase for answer in answers if (phase := answer.phases.get(metric.phase)) is not None]
    count = sum(phase.count for phase in phases)
    trips = sum(phase.round_trips or 0 for phase in phases) / count
    moved = sum((phase.bytes_sent or 0) + (phase.bytes_received or 0) for phase in phases) / count
    return trips - _near_round_trips(operation, arm), moved


def _near_round_trips(operation: Operation, arm: PlannedArm) -> float:
    """Round trips of a connection that end before the link: a tunnel answers the TCP handshake at its near end, and
    carries the opening of its channel together with the server's greeting."""
    return arm.asked.near_round_trips if operation.operation == "connection" else 0.0


def _cpu_seconds(pieces: Sequence[SliceRecord]) -> dict[str, float]:
    """CPU seconds for each operation, by role."""
    operations = max(1, sum(piece.answer.operations for piece in pieces))
    return {role: seconds / operations for role, seconds in cpu_seconds(pieces).items()}


def _extra_cost(run: Run, operation: Operation, arm: PlannedArm) -> ExtraCost | None:
    """What the arm adds to its control at the nearest distance, paired by round."""
    if run.pairs(operation.metric, arm) is None or arm.baseline is None:
        return None
    control = run.plan.arm(arm.baseline)
    trips, moved = _counted(run, operation, arm)
    control_trips, control_moved = _counted(run, operation, control)
    round_trip = run.plan.study.round_trip_ms(arm.levels)
    change = next(each for each in run.changes[operation.metric] if each.arm is arm)
    # The link's share is no estimate, so the interval is that of the difference.
    own = replace(change.difference, value=change.difference.value - (trips - control_trips) * round_trip)
    return ExtraCost(
        protection=arm.protection,
        label=arm.label,
        operation=operation.operation,
        own_ms=own.estimate(change.rounds),
        round_trips=trips - control_trips,
        bytes=moved - control_moved,
        cpu_ms=_extra_cpu_ms(run, operation, control, arm),
    )


def _extra_cpu_ms(run: Run, operation: Operation, control: PlannedArm, arm: PlannedArm) -> Estimate:
    """CPU time of all roles together for each operation, arm minus control, paired by round."""
    workload = run.plan.study.metrics[operation.metric].workload
    by_round = [
        {
            piece.round: sum(_cpu_seconds([piece]).values()) * 1e3
            for piece in run.of(workload, each.name)
            if piece.answer.operations
        }
        for each in (control, arm)
    ]
    common = sorted(set(by_round[0]) & set(by_round[1]))
    return difference([by_round[0][number] for number in common], [by_round[1][number] for number in common])


def _predictions(run: Run, operation: Operation, cost: OperationCost, local: PlannedArm) -> list[Prediction]:
    """The model's answer for each distance and each metric that follows from the operation's time."""
    study, found = run.plan.study, []
    same = [arm for arm in run.plan.arms if arm.protection == cost.protection and not arm.twin]
    for arm in same:
        link = cost.round_trips * study.round_trip_ms(arm.levels)
        for name in operation.predicts:
            per_second = study.metrics[name].unit == "per_second"
            predicted = _moved(cost.own_ms, link, per_second)
            measured = estimate(run.samples.of(name, arm.name)) if run.has(name, arm) else None
            found.append(
                Prediction(
                    arm=arm.name,
                    metric=name,
                    unit=study.metrics[name].unit,
                    round_trip_ms=study.round_trip_ms(arm.levels),
                    predicted=predicted,
                    measured=measured,
                    error=predicted.value / measured.value - 1 if measured else None,
                    local=arm.name == local.name,
                )
            )
    return found


def _moved(own_ms: Estimate, link_ms: float, per_second: bool) -> Estimate:
    """Own time plus the link's share, as a time or as the rate of one worker."""
    return own_ms.through(lambda own: 1e3 / max(own + link_ms, 1e-6) if per_second else own + link_ms)
