"""The cost model: what an operation takes at a distance that was not measured.

Time of an operation = own time + round trips x round-trip time. Round trips are counted by the engine; own time is
estimated from the rounds at the nearest distance, where the link's share is smallest. Round-trip times are those that
TCP measured on the links; their uncertainty is in every interval beside that of the rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from typing import Literal

from pydantic import Field

from costof.lab.host import LINK_ROLE
from costof.lab.round_trips import BY_TCP
from costof.model import Finite, Model
from costof.results.ledger import SliceRecord
from costof.results.load import way_to_target_ms
from costof.results.run import Run, cpu_seconds_per_operation
from costof.results.samples import in_common
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, Mean, combined, difference, estimate, mean_over_rounds
from costof.study.arms import PlannedArm
from costof.study.load import Arrivals


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
    cpu_ms: dict[str, Finite] = Field(description="CPU time for each operation, by role; without the lab's links.")


class ExtraCost(Model):
    """What a protection adds to one operation, with its uncertainty: what the calculator multiplies."""

    protection: str
    label: str
    operation: Literal["connection", "operation"]
    own_ms: Estimate
    round_trips: Finite
    bytes: Finite
    cpu_ms: Estimate = Field(description="CPU time of all roles together.")
    roles: list[str] = Field(description="Whose CPU time is known: of a user's own servers, the client's alone.")


class Prediction(Model):
    """The cost model's answer for a distance, beside what was measured there."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite = Field(description="As it was asked for.")
    predicted: Estimate
    measured: Estimate | None = None
    error: Finite | None = Field(default=None, description="Predicted over measured, minus 1; 0.01 is 1 %.")
    local: bool = Field(default=False, description="The model's parameters come from this very arm.")


class RequestedLoad(Model):
    """The load of the run. A connection's CPU time holds that of all its queries then, which nobody can tell apart."""

    connections_per_second: Finite
    queries_per_connection: int


class CostModel(Model):
    """Time and CPU of an operation as a function of the distance, and how well it predicts what was measured."""

    load: RequestedLoad | None = None
    way_ms: Finite | None = Field(default=None, description="Round trip to a target during the run; None of a lab.")
    operations: list[OperationCost]
    extras: list[ExtraCost]
    predictions: list[Prediction]


def cost_model(run: Run, distances: dict[str, float], asked: Sequence[Operation]) -> CostModel:
    nearest = min(run.plan.controls, key=lambda control: distances.get(control.context, 0.0))
    local = [arm for arm in run.plan.arms if arm.context == nearest.context and not arm.replicate]
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
    load = None
    if isinstance(run.plan.load, Arrivals):
        load = RequestedLoad(
            connections_per_second=run.plan.load.connections_per_second,
            queries_per_connection=run.plan.load.queries_per_connection,
        )
    return CostModel(
        load=load,
        way_ms=way_to_target_ms(run) if run.plan.target is not None else None,
        operations=operations,
        extras=extras,
        predictions=predictions,
    )


def _operation_cost(run: Run, operation: Operation, arm: PlannedArm) -> OperationCost | None:
    if not run.has_enough_rounds(operation.metric, arm):
        return None
    trips, sent_and_received = _counted(run, operation, arm)
    taken = run.samples.means(operation.metric, arm.name)
    own = combined([(1, mean_over_rounds(taken)), (-trips, round_trip(run, arm))])
    return OperationCost(
        protection=arm.protection,
        label=arm.label,
        control=arm.control,
        operation=operation.operation,
        metric=operation.metric,
        own_ms=own.estimate(len(taken)),
        round_trips=trips,
        bytes=sent_and_received,
        cpu_ms={role: seconds * 1e3 for role, seconds in _cpu_seconds(_slices(run, operation, arm)).items()},
    )


def round_trip(run: Run, arm: PlannedArm) -> Mean:
    """Over the arm's link, milliseconds: the mean of what TCP measured on it, in each start of the servers; as it was
    asked for, and taken for exact, where nothing was measured. To a target it is that of the way there."""
    if run.plan.target is not None:
        return Mean(way_to_target_ms(run), 0.0, math.inf)
    distance = arm.levels.get(run.plan.study.distance_factor or "")
    measured = [
        Mean(link.mean_ms, link.error_ms, link.probes - 1)
        for links in run.links_by_start.values()
        for link in links
        if (link.name, link.method) == (distance, BY_TCP) and link.mean_ms is not None and link.error_ms is not None
    ]
    if not measured:
        return Mean(run.plan.study.round_trip_ms(arm.levels), 0.0, math.inf)
    return combined([(1 / len(measured), each) for each in measured])


def _slices(run: Run, operation: Operation, arm: PlannedArm) -> list[SliceRecord]:
    """Return slices with the operation's CPU time. At a load that of a query is in its connection's."""
    if run.plan.load is not None and operation.operation == "operation":
        return []
    return run.counted_slices(run.plan.study.metrics[operation.metric].workload, arm.name)


def _counted(run: Run, operation: Operation, arm: PlannedArm) -> tuple[float, float]:
    """Return round trips over the link and bytes, for each operation."""
    metric = run.plan.study.metrics[operation.metric]
    # A slice in which nothing succeeded has no phases, and no part in the figures.
    answers = (piece.answer for piece in run.counted_slices(metric.workload, arm.name))
    phases = [phase for answer in answers if (phase := answer.phases.get(metric.phase)) is not None]
    count = sum(phase.count for phase in phases)
    trips = sum(phase.round_trips or 0 for phase in phases) / count
    moved = sum((phase.bytes_sent or 0) + (phase.bytes_received or 0) for phase in phases) / count
    # A tunnel answers the TCP handshake at its near end, and carries the opening of its channel together with the
    # server's greeting.
    near = arm.settings.near_round_trips if operation.operation == "connection" else 0.0
    return trips - near, moved


def _cpu_seconds(pieces: Sequence[SliceRecord]) -> dict[str, float]:
    """Return CPU seconds of an operation by role, without what carries the lab's links."""
    return {role: seconds for role, seconds in cpu_seconds_per_operation(pieces).items() if role != LINK_ROLE}


def _extra_cost(run: Run, operation: Operation, arm: PlannedArm) -> ExtraCost | None:
    """Return what the arm adds to its control at the nearest distance, paired by round."""
    if run.pairs(operation.metric, arm) is None or arm.baseline is None:
        return None
    control = run.plan.arm(arm.baseline)
    trips, moved = _counted(run, operation, arm)
    control_trips, control_moved = _counted(run, operation, control)
    change = next(each for each in run.changes[operation.metric] if each.arm is arm)
    own = combined([(1, change.difference), (control_trips - trips, round_trip(run, arm))])
    return ExtraCost(
        protection=arm.protection,
        label=arm.label,
        operation=operation.operation,
        own_ms=own.estimate(change.rounds),
        round_trips=trips - control_trips,
        bytes=moved - control_moved,
        cpu_ms=_extra_cpu_ms(run, operation, control, arm),
        roles=[role for role, seconds in _cpu_seconds(_slices(run, operation, arm)).items() if seconds],
    )


def _extra_cpu_ms(run: Run, operation: Operation, control: PlannedArm, arm: PlannedArm) -> Estimate:
    """Return CPU time of all roles together for each operation, arm minus control, paired by round.

    A round without a reading of some role is left out; where too few are left, a role that some round lacks is.
    """
    if run.plan.load is not None and operation.operation == "operation":
        return Estimate(value=0.0, low=0.0, high=0.0, rounds=run.rounds)
    both = [[piece for piece in _slices(run, operation, each) if piece.answer.operations] for each in (control, arm)]
    by_round = [_cpu_ms_by_round(pieces, {*_cpu_seconds(pieces)}) for pieces in both]
    if len(in_common(by_round)[0]) < ROUNDS_FOR_INTERVAL:
        by_round = []
        for pieces in both:
            roles = [{*_cpu_seconds([piece])} for piece in pieces]
            by_round.append(_cpu_ms_by_round(pieces, set.intersection(*roles) if roles else set()))
    of_control, of_arm = map(run.samples.units.means, in_common(by_round))
    return difference(of_control, of_arm)


def _cpu_ms_by_round(pieces: Sequence[SliceRecord], roles: Set[str]) -> dict[int, float]:
    each_round = {piece.round: _cpu_seconds([piece]) for piece in pieces}
    return {
        number: sum(used[role] for role in roles) * 1e3 for number, used in each_round.items() if roles <= used.keys()
    }


def _predictions(run: Run, operation: Operation, cost: OperationCost, local: PlannedArm) -> list[Prediction]:
    study, found = run.plan.study, []
    taken = run.samples.means(operation.metric, local.name)
    near = round_trip(run, local)
    distance = study.distance_factor or ""
    here = {**local.levels, distance: ""}
    for arm in run.plan.arms:
        # In another context, such as another TLS library, it is another operation: the distance says nothing of that.
        is_alike = arm.protection == cost.protection and not arm.replicate
        if not is_alike or {**arm.levels, distance: ""} != here:
            continue
        far = near if arm is local else round_trip(run, arm)
        time_ms = taken_at(mean_over_rounds(taken), cost.round_trips, near, far).estimate(len(taken))
        for name in operation.predicts:
            predicted = time_ms
            if study.metrics[name].unit == "per_second":
                # Of one worker.
                predicted = time_ms.through(lambda milliseconds: 1e3 / max(milliseconds, 1e-6))
            measured = estimate(run.samples.means(name, arm.name)) if run.has_enough_rounds(name, arm) else None
            found.append(
                Prediction(
                    arm=arm.name,
                    metric=name,
                    unit=study.metrics[name].unit,
                    round_trip_ms=study.round_trip_ms(arm.levels),
                    predicted=predicted,
                    measured=measured,
                    error=predicted.value / measured.value - 1 if measured else None,
                    local=arm is local,
                )
            )
    return found


def taken_at(taken: Mean, round_trips: float, near: Mean, far: Mean) -> Mean:
    """Return the time at the round-trip time `far` of what took `taken` at `near`, all in milliseconds."""
    return taken if far is near else combined([(1, taken), (round_trips, far), (-round_trips, near)])
