"""The memory of a connection on each arm, from the steps in which a run opened idle connections."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from costof.model import Finite, Model
from costof.results.ledger import MemoryRecord
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS, difference, estimate
from costof.study.plan import Plan

#: The total growth is reported at the last step that has at most so many connections.
LANDMARKS = (10, 100, 1_000, 10_000)


class Growth(Model):
    """By how many bytes the servers' memory grew with an arm's first connections."""

    connections: int
    bytes: Finite


class ArmMemory(Model):
    """The memory of an arm's connections. `missing` is why further connections could not be measured."""

    arm: str
    connections: int = Field(description="Number of idle connections at the end.")
    growth: list[Growth]
    bytes_by_role: dict[str, Finite] = Field(description="Bytes of a connection by role, without the first step.")
    bytes: Estimate | None = Field(description="Bytes of a connection in all roles together, over the steps.")
    added: Estimate | None = Field(description="Difference from the control, paired by step; None for a control.")
    missing: str | None


class ConnectionMemory(Model):
    """The memory of a connection, by arm. `methods` says how it was read: PSS, RSS or a command."""

    planned: int = Field(description="Number of idle connections that each arm was to have.")
    methods: list[str]
    arms: list[ArmMemory]


def connection_memory(run: Run) -> ConnectionMemory | None:
    """Return the memory of each arm's connections; None if the run did not try to measure it."""
    if not run.memory:
        return None
    steps = {arm.name: _steps(run.memory, arm.name) for arm in run.plan.arms}
    arms = [
        _arm(
            run.plan, steps, arm, next((each.missing for each in run.memory if each.arm == arm and each.missing), None)
        )
        for arm in dict.fromkeys(record.arm for record in run.memory)
    ]
    order = {arm.name: number for number, arm in enumerate(run.plan.arms)}
    methods = sorted({method for record in run.memory for method in record.methods})
    return ConnectionMemory(
        planned=run.plan.memory, methods=methods, arms=sorted(arms, key=lambda each: order.get(each.arm, 0))
    )


def added_bytes(run: Run) -> dict[str, Estimate]:
    """Return the bytes that each protection adds to a connection, by the name of the protection."""
    memory = connection_memory(run)
    arms = memory.arms if memory is not None else []
    return {run.plan.arm(each.arm).protection: each.added for each in arms if each.added is not None}


def _steps(records: Sequence[MemoryRecord], arm: str) -> list[MemoryRecord]:
    return [record for record in records if record.arm == arm and record.missing is None]


def slopes(steps: Sequence[MemoryRecord]) -> dict[int, float]:
    """Return the growth for each connection that a step opened, by step.

    The first step is left out: its few connections come together with what a server does only once, and may use memory
    that earlier connections of the run have left.
    """
    return {step.step: sum(step.grown.values()) / step.opened for step in steps if step.step > 0 and step.opened > 0}


def _arm(plan: Plan, steps: dict[str, list[MemoryRecord]], name: str, missing: str | None) -> ArmMemory:
    own, counted = steps.get(name, []), slopes(steps.get(name, []))
    baseline = plan.arm(name).baseline
    control = slopes(steps.get(baseline or "", []))
    common = [step for step in counted if step in control]
    later = [step for step in own if step.step > 0]
    opened = sum(step.opened for step in later)
    roles = dict.fromkeys(role for step in later for role in step.grown)
    return ArmMemory(
        arm=name,
        connections=max((step.connections for step in own), default=0),
        growth=_growth(own),
        bytes_by_role={role: sum(step.grown.get(role, 0) for step in later) / opened for role in roles},
        bytes=estimate([*counted.values()]) if len(counted) >= FEWEST_ROUNDS else None,
        added=difference([control[step] for step in common], [counted[step] for step in common])
        if len(common) >= FEWEST_ROUNDS
        else None,
        missing=missing or _few(counted, own),
    )


def _few(counted: dict[int, float], own: Sequence[MemoryRecord]) -> str | None:
    few = len(own) > 0 and len(counted) < FEWEST_ROUNDS
    return f"an interval needs {FEWEST_ROUNDS} steps, and there are {len(counted)}" if few else None


def _growth(steps: Sequence[MemoryRecord]) -> list[Growth]:
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
