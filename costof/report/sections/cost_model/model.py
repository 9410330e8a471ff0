"""The cost model: the time of an operation at distances, and on disks, that were not measured.

Time of an operation = own time + round trips x round-trip time + flushes x the time of a flush.

- Own time is the time without waits for the network and the disk, such as CPU time. It is estimated from the rounds at
  the nearest distance, where these waits are shortest.
- The measuring client (the engine) counts round trips, and the servers count flushes.
- Round-trip times are the kernel's estimates for TCP connections on the links.
- The time of a flush is measured on the disk of the servers' data.

Intervals include the uncertainties of the means over rounds, of the round-trip times, and of the time of a flush.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from statistics import fmean
from typing import Literal

from pydantic import Field

from costof.lab.flushes import PARTS
from costof.lab.host import LINK_ROLE
from costof.lab.round_trips import BY_TCP
from costof.messages.answers import mean_count
from costof.model import Finite, Model
from costof.programs.flushes import FLUSHES, commits_in_flight
from costof.results.ledger import SliceRecord
from costof.results.load import CLIENT, round_trip_to_target_ms
from costof.results.memory import added_bytes
from costof.results.metrics import in_common
from costof.results.run import Run, cpu_seconds_per_operation
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, Mean, combined, difference, estimate, mean_over_rounds
from costof.study.arms import PlannedArm
from costof.study.load import Arrivals

#: A commit waits for at most two flushes: the one that is under way, and the next one.
MOST_WAITS = 2.0


class Operation(Model):
    """The metric that times a connection or an operation. The cost model is computed from these times."""

    operation: Literal["connection", "operation"]
    metric: str
    predicts: list[str] = Field(description="Metrics of the same phase that are predicted for each distance.")


class OperationCost(Model):
    """The cost model's parameters for one operation of an arm, from its rounds at the nearest distance.

    Time of an operation = own time + round trips x round-trip time + flushes x time of a flush (+ bytes / bandwidth).
    """

    protection: str = Field(description="The arm's name without its context; the same at any distance.")
    label: str
    control: bool
    operation: Literal["connection", "operation"]
    metric: str
    own_ms: Estimate
    round_trips: Finite = Field(description="Round trips over the link for each operation, counted.")
    bytes: Finite = Field(description="Bytes in both directions for each operation, counted.")
    flushes: Finite = Field(default=0.0, description="Flushes of a log that one operation waits for, counted.")
    cpu_ms: dict[str, Finite] = Field(
        description="CPU time for each operation by role, without the processes that simulate the lab's links."
    )


class ExtraCost(Model):
    """The cost that a protection adds to one operation, with its interval. The calculator uses it."""

    protection: str
    label: str
    operation: Literal["connection", "operation"]
    own_ms: Estimate
    round_trips: Finite
    bytes: Finite
    flushes: Finite = 0.0
    cpu_ms: Estimate = Field(description="CPU time of all roles together.")
    roles: list[str] = Field(description="Roles whose CPU time is in cpu_ms; for a target only the client.")
    client_cpu_ms: Estimate | None = Field(
        default=None, description="CPU time of the client alone, in a run with --load; otherwise None."
    )
    servers_cpu_ms: Estimate | None = Field(
        default=None, description="CPU time of all other roles, in a run with --load; None if it is unknown."
    )


class Prediction(Model):
    """A figure that the cost model predicts for an arm's distance, with the measured figure if there is one."""

    arm: str
    metric: str
    unit: str
    round_trip_ms: Finite = Field(description="The configured round-trip time.")
    predicted: Estimate
    measured: Estimate | None = None
    error: Finite | None = Field(default=None, description="Predicted divided by measured, minus 1; 0.01 is 1 %.")
    local: bool = Field(default=False, description="Whether the model's parameters were computed from this arm.")


class RequestedLoad(Model):
    """The load of a run with --load. Such a run measures the CPU time of a connection together with its queries."""

    connections_per_second: Finite
    queries_per_connection: int


class CostModel(Model):
    """The cost model: parameters of each operation, costs that protections add, and tested predictions."""

    load: RequestedLoad | None = None
    way_ms: Finite | None = Field(
        default=None, description="Round-trip time to the target during the run; None for a lab."
    )
    predicted_ms: list[Finite] = Field(
        default=[], description="Round-trip times for which a run on a target predicts (--distance)."
    )
    flush_ms: Estimate | None = Field(
        default=None, description="Time of a flush of the disk with the servers' data; None if it was not measured."
    )
    operations: list[OperationCost]
    extras: list[ExtraCost]
    predictions: list[Prediction]
    memory_bytes: dict[str, Estimate] = Field(
        default={}, description="Bytes that a protection adds to the servers' memory of a connection, if measured."
    )


def cost_model(run: Run, distances: dict[str, float], spec: Sequence[Operation]) -> CostModel:
    nearest = min(run.plan.controls, key=lambda control: distances.get(control.context, 0.0))
    local = [arm for arm in run.plan.arms if arm.context == nearest.context and not arm.replicate]
    operations, extras, predictions = [], [], []
    for operation in spec:
        for arm in local:
            cost = _operation_cost(run, operation, arm)
            if cost is None:
                continue
            operations.append(cost)
            predictions += _predictions(run, operation, cost, arm)
            extra = extra_cost(run, operation, arm)
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
        way_ms=round_trip_to_target_ms(run) if run.plan.target is not None else None,
        predicted_ms=run.plan.predicted_ms,
        flush_ms=flush_time(run).estimate(len(run.flushes)) if run.flushes else None,
        operations=operations,
        extras=extras,
        predictions=predictions,
        memory_bytes=added_bytes(run),
    )


def _operation_cost(run: Run, operation: Operation, arm: PlannedArm) -> OperationCost | None:
    if not run.has_enough_rounds(operation.metric, arm):
        return None
    trips, sent_and_received = _counted(run, operation, arm)
    times = run.samples.means(operation.metric, arm.name)
    flushes = _flushes(run, operation, arm)
    own = combined([(1, mean_over_rounds(times)), (-trips, round_trip(run, arm)), (-flushes, flush_time(run))])
    return OperationCost(
        protection=arm.protection,
        label=arm.label,
        control=arm.control,
        operation=operation.operation,
        metric=operation.metric,
        own_ms=own.estimate(len(times)),
        round_trips=trips,
        bytes=sent_and_received,
        flushes=flushes,
        cpu_ms={role: seconds * 1e3 for role, seconds in _cpu_seconds(_slices(run, operation, arm)).items()},
    )


def round_trip(run: Run, arm: PlannedArm) -> Mean:
    """Return the mean round-trip time of the arm's link in milliseconds, by TCP's own estimates.

    It is the mean over all starts of the servers. If it was not measured, return the configured time, without
    uncertainty. For a target (the user's own servers), return the round-trip time to the target.
    """
    if run.plan.target is not None:
        return Mean(round_trip_to_target_ms(run), 0.0, math.inf)
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


def flush_time(run: Run) -> Mean:
    """Return the mean time of a flush in milliseconds, from the measurements before, between and after the rounds.

    If it was not measured, return 0, without uncertainty: the flushes are then part of the own time.
    """
    if not run.flushes:
        return Mean(0.0, 0.0, math.inf)
    if len(run.flushes) == 1:
        return Mean(run.flushes[0].mean_ms, run.flushes[0].error_ms, PARTS - 1)
    return mean_over_rounds([each.mean_ms for each in run.flushes])


def _flushes(run: Run, operation: Operation, arm: PlannedArm) -> float:
    """Return the number of flushes of the disk that one operation waits for.

    Operations in flight at the same time share flushes: if 4 share one flush, the servers count 1/4 flush for each. But
    each of them waits for the whole flush. The counted number is therefore multiplied by the number of operations in
    flight, up to `MOST_WAITS`.
    """
    workload = run.plan.study.metrics[operation.metric].workload
    records = [
        record
        for record in run.counted_slices(workload, arm.name)
        if FLUSHES in record.server_figures and record.answer.operations
    ]
    if not records:
        return 0.0
    total = sum(record.server_figures[FLUSHES] * record.answer.operations for record in records)
    flushes = total / sum(record.answer.operations for record in records)
    in_flight = fmean(commits_in_flight(record.answer) for record in records)
    return max(flushes, min(flushes * in_flight, MOST_WAITS))


def _slices(run: Run, operation: Operation, arm: PlannedArm) -> list[SliceRecord]:
    """Return the slices that measured the operation's CPU time.

    Return [] for the queries of a run with --load, because their CPU time is a part of the connection's CPU time.
    """
    if run.plan.load is not None and operation.operation == "operation":
        return []
    return run.counted_slices(run.plan.study.metrics[operation.metric].workload, arm.name)


def _counted(run: Run, operation: Operation, arm: PlannedArm) -> tuple[float, float]:
    """Return the mean round trips over the link, and the mean bytes in both directions, of one operation."""
    metric = run.plan.study.metrics[operation.metric]
    # A slice without a successful operation has no phases.
    answers = (record.answer for record in run.counted_slices(metric.workload, arm.name))
    phases = [phase for answer in answers if (phase := answer.phases.get(metric.phase)) is not None]
    trips = mean_count(phases, "round_trips") or 0.0
    transferred = (mean_count(phases, "bytes_sent") or 0.0) + (mean_count(phases, "bytes_received") or 0.0)
    # If the client's end of a tunnel answers the TCP handshake, the handshake does not cross the link. Subtract its
    # round trip.
    near = arm.settings.near_round_trips if operation.operation == "connection" else 0.0
    return trips - near, transferred


def _cpu_seconds(records: Sequence[SliceRecord]) -> dict[str, float]:
    """Return the CPU seconds of one operation by role. The role that simulates the lab's network links is left out."""
    return {role: seconds for role, seconds in cpu_seconds_per_operation(records).items() if role != LINK_ROLE}


def extra_cost(run: Run, operation: Operation, arm: PlannedArm) -> ExtraCost | None:
    """Return the cost that the arm adds to one operation; None if arm and control have no common rounds."""
    if run.pairs(operation.metric, arm) is None or arm.control_arm is None:
        return None
    control = run.plan.arm(arm.control_arm)
    trips, transferred = _counted(run, operation, arm)
    control_trips, control_transferred = _counted(run, operation, control)
    change = next(each for each in run.changes[operation.metric] if each.arm is arm)
    flushes = _flushes(run, operation, arm) - _flushes(run, operation, control)
    own = combined([(1, change.difference), (control_trips - trips, round_trip(run, arm)), (-flushes, flush_time(run))])
    roles = [role for role, seconds in _cpu_seconds(_slices(run, operation, arm)).items() if seconds]
    by_side = [{*roles} & {CLIENT}, {*roles} - {CLIENT}] if run.plan.load is not None else [set(), set()]
    client, servers = (_extra_cpu_ms(run, operation, control, arm, side) if side else None for side in by_side)
    return ExtraCost(
        protection=arm.protection,
        label=arm.label,
        operation=operation.operation,
        own_ms=own.estimate(change.rounds),
        round_trips=trips - control_trips,
        bytes=transferred - control_transferred,
        flushes=flushes,
        cpu_ms=_extra_cpu_ms(run, operation, control, arm),
        roles=roles,
        client_cpu_ms=client,
        servers_cpu_ms=servers,
    )


def _extra_cpu_ms(
    run: Run, operation: Operation, control: PlannedArm, arm: PlannedArm, only: Set[str] | None = None
) -> Estimate:
    """Return the CPU milliseconds that the arm adds to one operation, paired by round.

    The CPU time is the sum over all roles (client, server, …) or, if `only` is given, over the roles in `only`. Rounds
    in which any role lacks a reading are left out. If too few rounds remain, all rounds are kept, but roles that lack a
    reading in any round are left out.
    """
    if run.plan.load is not None and operation.operation == "operation":
        return Estimate(value=0.0, low=0.0, high=0.0, rounds=run.rounds)
    both = [[record for record in _slices(run, operation, each) if record.answer.operations] for each in (control, arm)]
    by_round = [_cpu_ms_by_round(records, _limited(_cpu_seconds(records), only)) for records in both]
    if len(in_common(by_round)[0]) < ROUNDS_FOR_INTERVAL:
        by_round = []
        for records in both:
            roles = [_limited(_cpu_seconds([record]), only) for record in records]
            by_round.append(_cpu_ms_by_round(records, set.intersection(*roles) if roles else set()))
    of_control, of_arm = map(run.samples.units.means, in_common(by_round))
    return difference(of_control, of_arm)


def _limited(roles: Iterable[str], only: Set[str] | None) -> set[str]:
    return {*roles} if only is None else {*roles} & only


def _cpu_ms_by_round(records: Sequence[SliceRecord], roles: Set[str]) -> dict[int, float]:
    each_round = {record.round: _cpu_seconds([record]) for record in records}
    return {
        number: sum(used[role] for role in roles) * 1e3 for number, used in each_round.items() if roles <= used.keys()
    }


def _predictions(run: Run, operation: Operation, cost: OperationCost, local: PlannedArm) -> list[Prediction]:
    study, predictions = run.plan.study, []
    times = run.samples.means(operation.metric, local.name)
    near = round_trip(run, local)
    distance = study.distance_factor or ""
    here = {**local.levels, distance: ""}
    for arm in run.plan.arms:
        # Predict only for arms that differ from `local` in nothing but the distance.
        is_same_protection = arm.protection == cost.protection and not arm.replicate
        if not is_same_protection or {**arm.levels, distance: ""} != here:
            continue
        far = near if arm is local else round_trip(run, arm)
        time_ms = time_at(mean_over_rounds(times), cost.round_trips, near, far).estimate(len(times))
        for name in operation.predicts:
            predicted = time_ms
            if study.metrics[name].unit == "per_second":
                # A rate in `predicts` is always that of a single worker: 1 / time of an operation.
                predicted = time_ms.through(lambda milliseconds: 1e3 / max(milliseconds, 1e-6))
            measured = estimate(run.samples.means(name, arm.name)) if run.has_enough_rounds(name, arm) else None
            predictions.append(
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
    return predictions


def time_at(time: Mean, round_trips: float, near: Mean, far: Mean) -> Mean:
    """Return the ms that an operation takes at the round-trip time `far`, from the `time` that it takes at `near`."""
    return time if far is near else combined([(1, time), (round_trips, far), (-round_trips, near)])
