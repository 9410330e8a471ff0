"""The memory of a connection on each arm, from the steps in which a run opened idle connections."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from costof.model import Finite, Model
from costof.results.ledger import MemoryRecord
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS, difference, estimate
from costof.study.arms import PlannedArm

#: How many first steps (each opens connections) are left out: in a lab, and on the user's own servers (a target).
#: With its first connections, a server allocates memory that it needs only once. On a target, the first connections
#: also reuse memory that earlier connections of the run have left.
LEAD_IN, LEAD_IN_OF_TARGET = 1, 5
#: Numbers of connections at which the total growth is reported. If no step ended at exactly this number, the last step
#: with fewer connections is reported.
LANDMARKS = (10, 100, 1_000, 10_000)


class Growth(Model):
    """The bytes by which the servers' memory grew with the first `connections` connections of an arm."""

    connections: int
    bytes: Finite


class ArmMemory(Model):
    """The memory of an arm's connections. `missing` is why further connections could not be measured."""

    arm: str
    connections: int = Field(description="Number of idle connections at the end.")
    growth: list[Growth]
    bytes_by_role: dict[str, Finite] = Field(description="Bytes of a connection by role, without the first steps.")
    bytes: Estimate | None = Field(description="Bytes of a connection in all roles together, over the steps.")
    added: Estimate | None = Field(description="Difference from the control, paired by step; None for a control.")
    missing: str | None


class ConnectionMemory(Model):
    """The memory of a connection, by arm. `methods` says how it was read: PSS, RSS or a command."""

    planned: int = Field(description="Number of idle connections that each arm was to have.")
    methods: list[str]
    steps: int = Field(description="Number of steps in which connections were opened.")
    fresh: bool = Field(description="Whether each arm had servers of its own start, as in a lab.")
    lead_in: int = Field(description="Number of first steps that are left out of the memory of a connection.")
    arms: list[ArmMemory]


def connection_memory(run: Run) -> ConnectionMemory | None:
    """Return the memory of each arm's connections; None if the run did not try to measure it."""
    if not run.memory:
        return None
    lead_in = LEAD_IN if run.plan.target is None else LEAD_IN_OF_TARGET
    measured = {record.arm for record in run.memory}
    return ConnectionMemory(
        planned=run.plan.memory,
        methods=sorted({method for record in run.memory for method in record.methods}),
        steps=len({record.step for record in run.memory if record.missing is None}),
        fresh=run.plan.target is None,
        lead_in=lead_in,
        arms=[_arm(run, arm, lead_in) for arm in run.plan.arms if arm.name in measured],
    )


def added_bytes(run: Run) -> dict[str, Estimate]:
    """Return the bytes that each protection adds to a connection, by the name of the protection."""
    memory = connection_memory(run)
    arms = memory.arms if memory is not None else []
    return {run.plan.arm(each.arm).protection: each.added for each in arms if each.added is not None}


def _arm(run: Run, arm: PlannedArm, lead_in: int) -> ArmMemory:
    own = _steps(run, arm.name)
    later = [step for step in own if step.step >= lead_in]
    counted = _slopes(later)
    control = _slopes([step for step in _steps(run, arm.control_arm) if step.step >= lead_in])
    common = [step for step in counted if step in control]
    opened = sum(step.opened for step in later)
    roles = dict.fromkeys(role for step in later for role in step.grown)
    missing = next((each.missing for each in run.memory if each.arm == arm.name and each.missing), None)
    if missing is None and len(counted) < FEWEST_ROUNDS:
        missing = f"an interval needs {FEWEST_ROUNDS} steps after the first ones, and there are {len(counted)}"
    return ArmMemory(
        arm=arm.name,
        connections=max((step.connections for step in own), default=0),
        growth=_growth(own),
        bytes_by_role={role: sum(step.grown.get(role, 0) for step in later) / opened for role in roles},
        bytes=estimate([*counted.values()]) if len(counted) >= FEWEST_ROUNDS else None,
        added=difference([control[step] for step in common], [counted[step] for step in common])
        if len(common) >= FEWEST_ROUNDS
        else None,
        missing=missing,
    )


def _steps(run: Run, arm: str | None) -> list[MemoryRecord]:
    return [record for record in run.memory if record.arm == arm and record.missing is None]


def _slopes(steps: Sequence[MemoryRecord]) -> dict[int, float]:
    """Return the bytes per connection by which memory grew in each step, by the number of the step."""
    return {step.step: sum(step.grown.values()) / step.opened for step in steps}


def _growth(steps: Sequence[MemoryRecord]) -> list[Growth]:
    """Return the total growth at each landmark, such as 100 connections, and after the last step.

    The growth at a landmark is the growth up to the last step with at most this many connections.
    """
    total, by_connections = 0, {}
    for step in steps:
        total += sum(step.grown.values())
        by_connections[step.connections] = total
    shown = dict.fromkeys(
        max(known)
        for most in (*LANDMARKS, max(by_connections, default=0))
        if (known := [each for each in by_connections if each <= most])
    )
    return [Growth(connections=each, bytes=by_connections[each]) for each in shown]
