"""The schedule of a run: the order of slices, and when it is enough."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from costof.results.samples import Samples, SliceKey
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, half_width, ratio
from costof.statistics.verdicts import ERROR_RATE
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: Orders drawn for a round, of which the most balanced is taken.
DRAWS = 8


class BalancedOrders:
    """Orders of the same few items, one a round, in which each item follows every item, itself too, equally often.

    A round has each item once and begins with the item that the round before ended with. All ordered pairs of items,
    of an item with itself too, come equally often, but for a difference of one or two. So what a slice leaves behind (a
    cache, a built tree, a busy server) meets every item alike, and is in no difference between them. Such designs are
    called strongly balanced for carry-over (Quenouille 1953, "The design and analysis of experiment"; Lucas 1957,
    "Extra-period Latin-square change-over designs"). Fixed designs exist for some numbers of items and rounds only.
    Here a round takes the order that keeps the counts most even, by lot among equals (minimization: Pocock & Simon
    1975).
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._followed: Counter[tuple[str, str]] = Counter()

    def next(self, items: Sequence[str], previous: str | None) -> list[str]:
        """Return the order of the next round. `previous`: the item that was measured last, of these or of others."""
        rows = [self._draw(items, previous) for _ in range(DRAWS)]
        row = min(rows, key=lambda row: sum(self._followed[pair] for pair in pairwise(row)))
        self._followed.update(pairwise(row))
        # One that begins by lot counts as if it followed itself: all of them begin equally often.
        self._followed[row[0], row[0]] += 1
        return row

    def _draw(self, items: Sequence[str], previous: str | None) -> list[str]:
        first = (
            previous if previous is not None and previous in items else self._rarest(items, lambda item: (item, item))
        )
        left = [item for item in items if item != first]
        if not left:
            return [first]
        # The last one follows itself in the next round.
        last = self._rarest(left, lambda item: (item, item))
        left.remove(last)
        row = [first]
        while left:
            row.append(self._rarest(left, lambda item: (row[-1], item)))
            left.remove(row[-1])
        return [*row, last]

    def _rarest(self, items: Sequence[str], pair: Callable[[str], tuple[str, str]]) -> str:
        fewest = min(self._followed[pair(item)] for item in items)
        return self._chance.choice([item for item in items if self._followed[pair(item)] == fewest])


T = TypeVar("T")
STEADY_ROUNDS = 3
#: Shares of the budget after which a run is looked at, to end it where every headline verdict stands.
LOOKS = (0.3, 0.5)
#: The share of the error rate that is spent by then is this power of the share of the budget: little on early looks,
#: which only large effects need, and most on the last (Lan & DeMets 1989; Kim & DeMets 1987, with a power of 3).
SPENDING_POWER = 3


class Schedule:
    """The order of a run's slices, round after round, by the plan's seed.

    The arms of one workload and context follow each other, so that the pairs of a difference are close in time.
    Workloads and contexts are shuffled in each round; within one level of a factor that is slow to change, all of them.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._orders: dict[str, BalancedOrders] = {}
        self._last: str | None = None

    def round(self, number: int, workloads: dict[str, list[str]]) -> list[SliceKey]:
        """Return one turn of each arm of each workload; `workloads` maps a workload to the arms that can run it.

        Protections are balanced, whatever their context: a group of arms begins with the protection that the group
        before it ended with (`run/schedule.py`). The control's two copies are one protection. Which of them comes first
        is drawn by lot, once each in two rounds; it stands for the control, and the other, which follows at once, for
        the replicate: so the control is measured as often after itself as any other arm.
        """
        chance = random.Random(f"{self._plan.seed}/{number}")
        slow = [name for name, factor in self._plan.study.factors.items() if factor.slow]
        levels: dict[tuple[str | None, ...], dict[tuple[str, str], list[PlannedArm]]] = {}
        for workload, arms in workloads.items():
            for arm in map(self._plan.arm, arms):
                groups = levels.setdefault(tuple(arm.levels.get(each) for each in slow), {})
                groups.setdefault((workload, arm.context), []).append(arm)
        turns = []
        for level in _shuffled(chance, levels):
            for workload, context in _shuffled(chance, levels[level]):
                group = f"{self._plan.seed}/{level}/{workload}/{context}"
                turns += self._turns(workload, levels[level][workload, context], group, number)
        return turns

    def _turns(self, workload: str, arms: list[PlannedArm], group: str, number: int) -> list[SliceKey]:
        """Return the turns of the arms of one workload and context."""
        copies = [arm for arm in arms if arm.control or arm.replicate]
        by_protection = {arm.protection: [arm] for arm in arms if arm not in copies}
        if copies:
            by_protection[copies[0].protection] = _by_turns(copies, group, number)
        orders = self._orders.setdefault(group, BalancedOrders(random.Random(group)))
        row = orders.next([*by_protection], self._last)
        self._last = row[-1]
        return [
            SliceKey(workload, arm.name, role.name if role is not arm else None)
            for protection in row
            for arm, role in zip(
                by_protection[protection], sorted(by_protection[protection], key=lambda arm: arm.replicate), strict=True
            )
        ]


def _by_turns(copies: list[PlannedArm], group: str, number: int) -> list[PlannedArm]:
    """Return the control's copies in the order of this round, which is the opposite in the next or the last one."""
    swapped = random.Random(f"{group}/{number // 2}").random() < 0.5
    return copies[::-1] if swapped == (number % 2 == 0) else copies


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
        budget = self._plan.start_budget_seconds
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
    budget, asked = plan.start_budget_seconds, plan.precision
    if budget is not None and rounds_done >= ROUNDS_FOR_INTERVAL and elapsed_seconds + longest_round > budget:
        return True
    if asked is None:
        return False
    lately = reached[-STEADY_ROUNDS:]
    steady = len(lately) == STEADY_ROUNDS and all(width is not None and width <= asked for width in lately)
    return rounds_done >= plan.fewest_rounds and steady
