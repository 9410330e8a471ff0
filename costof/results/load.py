"""Loads: what arms could carry, and the way to a target."""

from __future__ import annotations

from collections.abc import Sequence

from costof.lab.host import LINK_ROLE
from costof.results.ledger import SliceRecord
from costof.results.models import Carried
from costof.results.run import Run
from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD, Arrivals, Pool
from costof.urls import is_loopback

TCP = "tcp"


def way_to_target_ms(run: Run) -> float:
    """Return its round trip: the shortest TCP handshake of a control, which waited for nothing else.

    It is 0 where no handshake was timed by itself.
    """
    controls = {arm.name for arm in run.plan.controls}
    found = [
        piece.answer.phases[TCP].min_ns / 1e6
        for piece in run.counted
        if piece.answer.arm in controls and TCP in piece.answer.phases
    ]
    return min(found, default=0.0)


#: The count of operations that were to begin, as an instrument counts its schedule.
SCHEDULED = "pace.scheduled"
CLIENT = "client"


def carried_loads(run: Run) -> list[Carried]:
    load = run.plan.load
    if not isinstance(load, Arrivals | Pool):
        return []
    return [found for arm in run.plan.arms if (found := _carried(run, load, arm)) is not None]


def _carried(run: Run, load: Arrivals | Pool, arm: PlannedArm) -> Carried | None:
    pieces = run.of(WORKLOAD, arm.name)
    if not pieces:
        return None
    seconds = (run.sizes or run.plan.slices)[WORKLOAD].seconds * len(pieces)
    # Random instants: the same for all arms, and no two slices have as many.
    scheduled = [count for piece in pieces if (count := piece.answer.count(SCHEDULED)) is not None]
    offered = sum(scheduled) / seconds if len(scheduled) == len(pieces) else load.per_second
    operations = sum(piece.answer.operations for piece in pieces)
    read = [piece for piece in pieces if _of_servers(piece) is not None]
    used, served = sum(_of_servers(piece) or 0.0 for piece in read), sum(piece.answer.operations for piece in read)
    needed = used / served * offered if served and offered else None
    return Carried(
        arm=arm.name,
        offered=offered,
        served=operations / seconds,
        server_cores_needed=needed,
        machine_busy=_busy(run, pieces),
    )


def servers_are_here(run: Run) -> bool:
    """Return whether the servers run on the machine that measures, and so share its CPUs with the client."""
    if run.plan.target is None or run.plan.hosts is not None:
        return run.plan.hosts is None
    reached = [arm.server for record in run.ready for arm in record.ready.arms if arm.server is not None]
    return all(is_loopback(address) for members in reached for address in members.split(","))


def _busy(run: Run, pieces: Sequence[SliceRecord]) -> float | None:
    """Return the share of this machine's CPU time that was in use: client, servers that are here, and others."""
    if run.plan.hosts is not None:
        return None
    here = servers_are_here(run)
    used = sum(
        piece.foreign_cpu_seconds
        + sum(piece.answer.cpu_ns.values()) / 1e9
        + (sum(piece.server_cpu_seconds.values()) if here else 0.0)
        for piece in pieces
    )
    available = sum(piece.observed_seconds for piece in pieces) * run.cores
    return min(1.0, used / available) if available else None


def _of_servers(piece: SliceRecord) -> float | None:
    used = [used for role, used in piece.server_cpu_seconds.items() if role not in (CLIENT, LINK_ROLE)]
    return sum(used) if used else None


def drop_overloaded(run: Run) -> None:
    """Leave out the times of arms that could not carry the load: they grow for as long as a run lasts."""
    times = [
        name
        for name, each in run.plan.study.metrics.items()
        if each.workload == WORKLOAD and not each.is_of_whole_slice
    ]
    for arm in [each.arm for each in carried_loads(run) if not each.complete]:
        for name in times:
            run.drop(name, arm)
