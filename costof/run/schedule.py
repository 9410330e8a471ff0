"""Rounds: in which order arms take turns, and when enough has been measured."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from costof.ledger.samples import Samples, Turn
from costof.run.orders import ordered
from costof.statistics.intervals import ROUNDS_OF_AN_INTERVAL, half_width, ratio
from costof.statistics.verdicts import ERROR_RATE
from costof.study.plan import Plan

T = TypeVar("T")
STEADY_ROUNDS = 3
#: Shares of the budget after which a run is looked at, to end it where every headline verdict stands.
LOOKS = (0.3, 0.5)
#: The share of the error rate that is spent by then is this power of the share of the budget: little on early looks,
#: which only large effects need, and most on the last (Lan & DeMets 1989; Kim & DeMets 1987, with a power of 3).
SPENDING_POWER = 3


def turns_of_round(plan: Plan, number: int, workloads: dict[str, list[str]]) -> list[Turn]:
    """One slice of every arm of each workload, in an order that depends on the plan's seed and the round alone.

    `workloads` maps a workload to the arms that can run it. The arms of one workload and context follow each other, so
    that the pairs of a difference are as close in time as they can be, in the orders of a Williams design: what an arm
    leaves behind, such as warm caches, meets all others equally often. Workloads and contexts are shuffled each round.
    Where a factor is slow to change, all this holds within one level of it, and the levels take their turns.
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
            arms = ordered(levels[level][workload, context], number, f"{plan.seed}/{level}/{workload}/{context}")
            turns += [Turn(workload, arm) for arm in arms]
    return turns


def _shuffled(chance: random.Random, items: Iterable[T]) -> list[T]:
    shuffled = list(items)
    chance.shuffle(shuffled)
    return shuffled


class Looks:
    """Looks at a run before its budget is spent, each with a share of the error rate that no other look has.

    To look often and to end when a verdict stands would find a cost that is none in far more runs than 5 of 100. With
    the rate divided among the looks it is at most that, whatever is tested and whatever depends on what (Bonferroni).
    Printed intervals stay those of 95 %: since looks have an eighth of the rate, they hold the truth in 94 % at least.
    """

    def __init__(self, plan: Plan, spent: float = 0.0) -> None:
        self._plan = plan
        self._left = list(LOOKS) if plan.ends_when_resolved else []
        self._spent = spent
        self._ended_at: float | None = None

    @property
    def error_rate(self) -> float:
        """At which the run's verdicts are reached: the last look's where it ended the run, or all that is left."""
        return self._ended_at or ERROR_RATE - self._spent

    def end(self, rate: float) -> None:
        """The run ends at the look of this error rate."""
        self._ended_at = rate

    def due(self, rounds_done: int, elapsed_seconds: float) -> float | None:
        """The error rate of the look that is due now; None where none is. It counts as spent from here on."""
        budget = self._plan.budget_seconds
        if budget is None or rounds_done < self._plan.fewest_rounds:
            return None
        passed = [share for share in self._left if elapsed_seconds >= share * budget]
        if not passed:
            return None
        self._left = self._left[len(passed) :]
        rate = ERROR_RATE * passed[-1] ** SPENDING_POWER - self._spent
        if rate <= 0:
            return None
        self._spent += rate
        return rate


def precision(plan: Plan, samples: Samples) -> float | None:
    """The widest half-interval among the headline ratios, which the stop rule compares with what was asked. None of
    one start among several: its rounds do not tell what starts differ by."""
    if plan.starts > 1:
        return None
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
