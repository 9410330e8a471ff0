"""Sizing: how many cores of a role a burst of new clients needs, from the CPU time that one of them takes of it.

Cores = clients x CPU time of one / seconds. It is checked on the bursts that were measured. They last longer than their
CPU time, because the last client's request begins only when its handshake is done, and then waits for the service as
any other: a burst is predicted as the control's on as many cores, plus clients x the CPU time that the protection adds
/ cores. (The larger of the two would be right if handshakes and waiting overlapped to the end.)
"""

from __future__ import annotations

from costof.analysis.result import BurstCheck, CoresFor, Sizing
from costof.analysis.run_record import Run
from costof.statistics.effects import ROUNDS_OF_AN_INTERVAL, difference, estimate
from costof.statistics.estimate import Estimate
from costof.study.arms import PlannedArm
from costof.study.schema import Sizing as Asked

EXAMPLES = [(clients, seconds) for clients in (1_000, 10_000) for seconds in (1.0, 10.0)]
ByRound = dict[int, float]


def sizing_of(run: Run) -> list[Sizing]:
    """A sizing for each protected arm of the first context whose clients come to the role."""
    asked = run.plan.study.sizing
    if asked is None:
        return []
    first = run.plan.controls[0].context
    arms = [arm for arm in run.plan.protected if arm.context == first and _comes(asked, arm)]
    return [found for arm in arms if (found := _sizing(run, asked, arm)) is not None]


def _comes(asked: Asked, arm: PlannedArm) -> bool:
    return all(arm.levels.get(name) in levels for name, levels in asked.when.items())


def _sizing(run: Run, asked: Asked, arm: PlannedArm) -> Sizing | None:
    used, plain = cpu_ms(run, asked, arm.name), cpu_ms(run, asked, arm.baseline or "")
    if len(used) < ROUNDS_OF_AN_INTERVAL:
        return None
    cpu, common = estimate(list(used.values())), sorted(used.keys() & plain.keys())
    if cpu.low <= 0:
        return None  # The counter saw too little to say how many clients a core takes.
    enough = len(common) >= ROUNDS_OF_AN_INTERVAL
    return Sizing(
        role=asked.role,
        arm=arm.name,
        label=arm.label,
        cpu_ms=cpu,
        added_cpu_ms=difference([plain[n] for n in common], [used[n] for n in common]) if enough else None,
        clients_per_core_second=_inverse(cpu),
        examples=[CoresFor(clients=n, seconds=s, cores=_times(cpu, n / s / 1e3)) for n, s in EXAMPLES],
        checks=[check for other in _other_cores(run, asked, arm) if (check := _check(run, asked, arm, other))],
    )


def cpu_ms(run: Run, asked: Asked, arm: str) -> ByRound:
    """CPU milliseconds of the role for one client of each round's burst."""
    return {
        piece.round: piece.server_cpu_seconds[asked.role] * 1e3 / piece.answer.operations
        for piece in run.of(asked.workload, arm)
        if piece.answer.operations and asked.role in piece.server_cpu_seconds
    }


def _inverse(cpu: Estimate) -> Estimate:
    """Clients a second on one core."""
    return Estimate(value=1e3 / cpu.value, low=1e3 / cpu.high, high=1e3 / cpu.low, rounds=cpu.rounds)


def _times(cpu: Estimate, factor: float) -> Estimate:
    return Estimate(value=cpu.value * factor, low=cpu.low * factor, high=cpu.high * factor, rounds=cpu.rounds)


def _other_cores(run: Run, asked: Asked, arm: PlannedArm) -> list[PlannedArm]:
    """The arm itself, and the same on other cores."""
    levels = {**arm.levels, asked.cores_factor: ""}
    return [each for each in run.plan.protected if {**each.levels, asked.cores_factor: ""} == levels]


def _check(run: Run, asked: Asked, arm: PlannedArm, burst: PlannedArm) -> BurstCheck | None:
    cores = _cores(burst.levels.get(asked.cores_factor, ""))
    used, plain = cpu_ms(run, asked, arm.name), cpu_ms(run, asked, arm.baseline or "")
    elapsed = {name: _seconds(run, asked, name) for name in (burst.name, burst.baseline or "")}
    control = elapsed[burst.baseline or ""]
    rounds = sorted(used.keys() & plain.keys() & elapsed[burst.name].keys() & control.keys())
    if cores is None or len(rounds) < 2:
        return None
    clients = run.plan.workers(asked.workload, burst)
    predicted = [control[n] + clients * (used[n] - plain[n]) / 1e3 / cores for n in rounds]
    return BurstCheck(
        arm=burst.name,
        clients=clients,
        cores=cores,
        predicted_seconds=estimate(predicted),
        measured_seconds=estimate([elapsed[burst.name][n] for n in rounds]),
    )


def _cores(level: str) -> float | None:
    """None on a target, whose cores nobody told."""
    try:
        return float(level)
    except ValueError:
        return None


def _seconds(run: Run, asked: Asked, arm: str) -> ByRound:
    """How long each round's burst took."""
    rounds = run.samples.rounds(asked.elapsed, arm)
    return {number: run.samples.at(asked.elapsed, arm, number) / 1e3 for number in rounds}
