"""The load that each arm carried, and the round-trip time to the target."""

from __future__ import annotations

from collections.abc import Sequence

from costof.lab.host import LINK_ROLE
from costof.messages.answers import SCHEDULED
from costof.results.ledger import SliceRecord
from costof.results.models import Carried
from costof.results.run import Run
from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD, Arrivals, Pool
from costof.urls import is_loopback

TCP = "tcp"


def way_to_target_ms(run: Run) -> float:
    """Return the round-trip time to the target in milliseconds; 0 if no TCP handshake was timed.

    The round-trip time is that of the control's shortest TCP handshake, since this handshake includes no other wait.
    """
    controls = {arm.name for arm in run.plan.controls}
    handshakes_ms = [
        record.answer.phases[TCP].min_ns / 1e6
        for record in run.counted
        if record.answer.arm in controls and TCP in record.answer.phases
    ]
    return min(handshakes_ms, default=0.0)


CLIENT = "client"


def carried_loads(run: Run) -> list[Carried]:
    """Return the load that each arm was offered and served; empty if the run has no load or a range of loads."""
    load = run.plan.load
    if not isinstance(load, Arrivals | Pool) or run.plan.sweep is not None:
        return []
    return [found for arm in run.plan.arms if (found := _carried(run, load, arm)) is not None]


def _carried(run: Run, load: Arrivals | Pool, arm: PlannedArm) -> Carried | None:
    records = run.counted_slices(WORKLOAD, arm.name)
    if not records:
        return None
    seconds = (run.sizes or run.plan.slices)[WORKLOAD].seconds * len(records)
    # Arrivals are random, so their number differs from round to round. It is the same for all arms of a round.
    scheduled = [count for record in records if (count := record.answer.count(SCHEDULED)) is not None]
    offered = sum(scheduled) / seconds if len(scheduled) == len(records) else load.per_second
    operations = sum(record.answer.operations for record in records)
    measured = [record for record in records if _server_cpu_seconds(record) is not None]
    used, served = (
        sum(_server_cpu_seconds(record) or 0.0 for record in measured),
        sum(record.answer.operations for record in measured),
    )
    needed = used / served * offered if served and offered else None
    return Carried(
        arm=arm.name,
        offered=offered,
        served=operations / seconds,
        server_cores_needed=needed,
        machine_busy=_busy(run, records),
    )


def servers_are_here(run: Run) -> bool:
    """Return whether the servers run on the measuring machine and so share its CPUs with the client."""
    if run.plan.target is None or run.plan.hosts is not None:
        return run.plan.hosts is None
    reached = [arm.server for record in run.ready for arm in record.ready.arms if arm.server is not None]
    return all(is_loopback(address) for members in reached for address in members.split(","))


def _busy(run: Run, records: Sequence[SliceRecord]) -> float | None:
    """Return the share of this machine's CPU time in use by client, local servers and other programs."""
    if run.plan.hosts is not None:
        return None
    here = servers_are_here(run)
    used = sum(
        record.foreign_cpu_seconds
        + sum(record.answer.cpu_ns.values()) / 1e9
        + (sum(record.server_cpu_seconds.values()) if here else 0.0)
        for record in records
    )
    available = sum(record.observed_seconds for record in records) * run.cores
    return min(1.0, used / available) if available else None


def _server_cpu_seconds(record: SliceRecord) -> float | None:
    used = [used for role, used in record.server_cpu_seconds.items() if role not in (CLIENT, LINK_ROLE)]
    return sum(used) if used else None


def drop_overloaded(run: Run) -> None:
    """Remove the times of arms that could not carry the load: such times only grow with the length of the run."""
    times = [
        name
        for name, each in run.plan.study.metrics.items()
        if each.workload == WORKLOAD and not each.is_of_whole_slice
    ]
    for arm in [each.arm for each in carried_loads(run) if not each.complete]:
        for name in times:
            run.drop(name, arm)
