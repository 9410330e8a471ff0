"""Rounds: in which order arms take turns, and when enough has been measured."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from costof.ledger.samples import Samples, Turn
from costof.statistics.effects import ROUNDS_OF_AN_INTERVAL, half_width, ratio
from costof.study.plan import Plan

T = TypeVar("T")
STEADY_ROUNDS = 3


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
