"""Rounds: in which order arms take turns, and when enough has been measured."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from costof.effects import ROUNDS_OF_AN_INTERVAL, half_width, ratio
from costof.instrument import Phase, SliceAnswer
from costof.plan import Plan
from costof.study import Metric

T = TypeVar("T")
STEADY_ROUNDS = 3
NS_PER_UNIT = {"ms": 1e6, "us": 1e3}


class Turn(NamedTuple):
    workload: str
    arm: str


def turns_of_round(plan: Plan, number: int, workloads: dict[str, list[str]]) -> list[Turn]:
    """One slice of every arm of each workload, in an order that depends on the plan's seed and the round alone.

    `workloads` maps a workload to the arms that can run it. The arms of one workload and context follow each
    other, so that the pairs of a difference are as close in time as they can be; both orders are drawn anew each round.
    Where a factor is slow to change, that holds within one level of it, and the levels take their turns.
    """
    chance = random.Random(f"{plan.seed}/{number}")
    slow = [name for name, factor in plan.study.factors.items() if factor.slow]
    levels: dict[tuple[str | None, ...], dict[tuple[str, str], list[str]]] = {}
    for workload, arms in workloads.items():
        for name in arms:
            arm = plan.arm(name)
            groups = levels.setdefault(tuple(arm.levels.get(each) for each in slow), {})
            groups.setdefault((workload, arm.context), []).append(name)
    turns = []
    for level in _shuffled(chance, levels):
        for workload, context in _shuffled(chance, levels[level]):
            arms = _shuffled(chance, levels[level][workload, context])
            turns += [Turn(workload, arm) for arm in arms]
    return turns


def _shuffled(chance: random.Random, items: Iterable[T]) -> list[T]:
    shuffled = list(items)
    chance.shuffle(shuffled)
    return shuffled


@dataclass
class Samples:
    """One number for each metric, arm and round: the mean of a slice, in the metric's unit."""

    _values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)

    def add(self, metric: str, arm: str, round_number: int, value: float) -> None:
        self._values.setdefault((metric, arm), {})[round_number] = value

    def of(self, metric: str, arm: str) -> list[float]:
        """The arm's numbers in the order of the rounds."""
        rounds = self._values.get((metric, arm), {})
        return [rounds[number] for number in sorted(rounds)]

    def rounds(self, metric: str, arm: str) -> list[int]:
        return sorted(self._values.get((metric, arm), {}))

    def at(self, metric: str, arm: str, round_number: int) -> float:
        return self._values[metric, arm][round_number]

    def pairs(self, metric: str, control: str, arm: str) -> tuple[list[float], list[float]]:
        """Both arms' numbers in the rounds that both have.

        A control without the phase counts as 0: it spends nothing on it.
        """
        of_arm = self._values.get((metric, arm), {})
        of_control = self._values.get((metric, control), {})
        if not of_control:
            return [0.0] * len(of_arm), self.of(metric, arm)
        common = sorted(set(of_arm) & set(of_control))
        return [of_control[number] for number in common], [of_arm[number] for number in common]


@dataclass(frozen=True)
class ServersSide:
    """What the servers gave of a slice: figures of their own (`Service.judge`), and CPU seconds by role."""

    figures: dict[str, float]
    cpu_seconds: dict[str, float]


def add_samples(
    plan: Plan, samples: Samples, number: int, turn: Turn, answer: SliceAnswer, servers: ServersSide
) -> None:
    """The slice's means and figures, by metric, in the metric's unit."""
    for name, metric in plan.study.metrics.items():
        if metric.workload != turn.workload:
            continue
        if metric.of_slice:
            figure = of_slice(metric, answer, servers)
            if figure is not None:
                samples.add(name, turn.arm, number, figure)
        elif (phase := answer.phases.get(metric.phase)) is not None:
            workers = plan.workers(turn.workload, plan.arm(turn.arm))
            samples.add(name, turn.arm, number, in_unit(metric, phase.sum_ns / phase.count, workers))


def of_slice(metric: Metric, answer: SliceAnswer, servers: ServersSide) -> float | None:
    """A metric of the slice as a whole, such as operations over elapsed time; None where the slice does not tell it."""
    kind, _, name = metric.phase.partition(".")
    if kind == "server":
        return servers.figures.get(name)
    if not answer.operations:
        return None
    seconds = answer.elapsed_ns / 1e9
    match kind:
        case "cpu":
            nanoseconds = servers.cpu_seconds[name] * 1e9 if name in servers.cpu_seconds else answer.cpu_ns.get(name)
            return None if nanoseconds is None else nanoseconds / answer.operations / NS_PER_UNIT[metric.unit]
        case "bytes":
            return _bytes(answer.phases.get(name))
        case "tpcc":
            return None if answer.tpcc is None else answer.tpcc.count(name) / seconds
    return answer.operations / seconds if metric.unit == "per_second" else answer.elapsed_ns / NS_PER_UNIT[metric.unit]


def _bytes(phase: Phase | None) -> float | None:
    if phase is None or phase.bytes_sent is None or phase.bytes_received is None:
        return None
    return (phase.bytes_sent + phase.bytes_received) / phase.count


def in_unit(metric: Metric, nanoseconds: float, workers: int) -> float:
    """A mean time in the metric's unit; a rate is what one worker, or all of them, get done at that time each."""
    if metric.unit == "per_second":
        return 1e9 / nanoseconds * (workers if metric.all_workers else 1)
    return nanoseconds / NS_PER_UNIT[metric.unit]


def precision(plan: Plan, samples: Samples) -> float | None:
    """The widest half-interval among the headline ratios, which the stop rule compares with what was asked."""
    widths = []
    for name, metric in plan.study.metrics.items():
        if not metric.headline:
            continue
        for arm in plan.arms:
            if arm.baseline is None:
                continue
            control, values = samples.pairs(name, arm.baseline, arm.name)
            if len(values) < 3:
                continue
            found = ratio(control, values)
            if found is not None:
                widths.append(half_width(found))
    return max(widths) if widths else None


def enough(
    plan: Plan, rounds_done: int, elapsed_seconds: float, reached: Sequence[float | None], longest_round: float
) -> bool:
    """The stop rule: the most rounds, the budget (a round that would end after it is not begun, but the second is), or,
    once the fewest rounds are there, the asked precision in each of the last `STEADY_ROUNDS` rounds. A plan of exactly
    so many rounds has neither budget nor precision.

    `reached` is the precision after each round so far. A run that stopped at the first lucky round would be sure of
    itself too often: its 95 % intervals held the truth in 92 % of simulated runs, and in 93 to 94 % with this rule.
    """
    if rounds_done >= plan.most_rounds:
        return True
    budget, asked = plan.budget_seconds, plan.precision
    if budget is not None and rounds_done >= ROUNDS_OF_AN_INTERVAL and elapsed_seconds + longest_round > budget:
        return True
    if asked is None:
        return False
    lately = reached[-STEADY_ROUNDS:]
    steady = len(lately) == STEADY_ROUNDS and all(width is not None and width <= asked for width in lately)
    return rounds_done >= plan.fewest_rounds and steady
