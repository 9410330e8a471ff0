"""The schedule of a run: the order of its slices (measured windows), and its stop rule."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from costof.results.metrics import Samples, SliceKey
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL, half_width, ratio
from costof.statistics.verdicts import ERROR_RATE
from costof.study.arms import PlannedArm
from costof.study.plan import Plan

#: Number of random orders that are drawn for a round. The most balanced one is used.
DRAWS = 8


class BalancedOrders:
    """A generator of the order in which each round measures its items, such as protections, balanced for after-effects.

    The previous item may affect a measurement, for example by filling a cache. Over many rounds, each item therefore
    follows every item, including itself, equally often, up to a difference of one or two. The after-effects then cancel
    in differences between items. An item follows itself where a round ends and the next one begins: each round begins
    with the last item of the round before.

    Such designs are called strongly balanced for carry-over (Quenouille 1953, "The design and analysis of experiment";
    Lucas 1957, "Extra-period Latin-square change-over designs"). Fixed designs exist only for some numbers of items and
    rounds. This class instead draws several orders for each round, and uses the one that keeps the counts of pairs most
    even (minimization: Pocock & Simon 1975).
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._followed: Counter[tuple[str, str]] = Counter()

    def next(self, items: Sequence[str], previous: str | None) -> list[str]:
        """Return the order in which to measure `items` in the next round.

        The function also counts the pairs of successive items in this order, so that later orders can balance them.
        `previous` is the item that was measured last. It may be missing from `items`.
        """
        rows = [self._draw(items, previous) for _ in range(DRAWS)]
        row = min(rows, key=lambda row: sum(self._followed[pair] for pair in pairwise(row)))
        self._followed.update(pairwise(row))
        # Count the pair of the first item with itself, because the round before usually ended with this item. Count it
        # even if the first item was instead drawn at random, so that all items are drawn equally often.
        self._followed[row[0], row[0]] += 1
        return row

    def _draw(self, items: Sequence[str], previous: str | None) -> list[str]:
        first = (
            previous if previous is not None and previous in items else self._rarest(items, lambda item: (item, item))
        )
        remaining = [item for item in items if item != first]
        if not remaining:
            return [first]
        # The next round will begin with this round's last item, which then follows itself. Choose the item that has
        # followed itself least often.
        last = self._rarest(remaining, lambda item: (item, item))
        remaining.remove(last)
        row = [first]
        while remaining:
            row.append(self._rarest(remaining, lambda item: (row[-1], item)))
            remaining.remove(row[-1])
        return [*row, last]

    def _rarest(self, items: Sequence[str], pair: Callable[[str], tuple[str, str]]) -> str:
        fewest = min(self._followed[pair(item)] for item in items)
        return self._chance.choice([item for item in items if self._followed[pair(item)] == fewest])


T = TypeVar("T")
#: The run ends early if this many rounds in a row have reached the required precision.
STEADY_ROUNDS = 3
#: Shares of the budget after which a run has an interim analysis (a look). The run ends at a look if all effects on
#: headline metrics (those that answer the study's question) have a verdict.
LOOKS = (0.3, 0.5)
#: When the share x of the budget is spent, analyses may have used x**SPENDING_POWER of the error rate (the permitted
#: rate of wrong verdicts). Early analyses find only large effects, so they get little of the error rate, and the last
#: analysis gets most of it (Lan & DeMets 1989; Kim & DeMets 1987, with a power of 3).
SPENDING_POWER = 3


class Schedule:
    """The order of a run's slices (measured windows) in each round. The plan's seed determines the order.

    The arms (compared configurations) of one workload in one context, such as one distance, form a group. They are
    measured one after another, so that the slices to compare are close in time. Each group begins with the protection
    with which the group before it ended.

    The order of the groups is random for each four rounds: the second and the fourth round reverse it. With two
    protections, this makes each of them the first one of each group in two of the four rounds. In addition, the third
    round begins with the other protection than the first. Otherwise each round with an even number of groups would
    begin and end with the same protection, and only this protection would have slices that follow a slice of the same
    group and protection: only its caches would be warm.

    Some factors are slow: changing their level takes seconds. All groups with the same levels of slow factors therefore
    stay together.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._orders: dict[str, BalancedOrders] = {}
        self._last: str | None = None

    def round(self, number: int, workloads: dict[str, list[str]]) -> list[SliceKey]:
        """Return the slices (measured windows) of a round in their order, one for each arm of each workload.

        `workloads` maps each workload to the names of the arms that can run it.

        The control and its replicate (its identical copy) count as one protection and follow each other. The control is
        thus measured after itself as often as other arms are measured after themselves. In every pair of rounds, the
        control comes before its replicate in one round and after it in the other. Chance decides in which of the two
        rounds it comes first.
        """
        chance = random.Random(f"{self._plan.seed}/{number // 4}")
        slow = [name for name, factor in self._plan.study.factors.items() if factor.slow]
        levels: dict[tuple[str | None, ...], dict[tuple[str, str], list[PlannedArm]]] = {}
        for workload, arms in workloads.items():
            for arm in map(self._plan.arm, arms):
                groups = levels.setdefault(tuple(arm.levels.get(each) for each in slow), {})
                groups.setdefault((workload, arm.context), []).append(arm)
        groups_in_order = [
            (level, group) for level in _shuffled(chance, levels) for group in _shuffled(chance, levels[level])
        ]
        if number % 2:
            groups_in_order.reverse()
        protections = list(dict.fromkeys(arm.protection for arm in self._plan.arms if not arm.replicate))
        if number % 4 == 2 and len(groups_in_order) > 1 and len(protections) == 2 and self._last in protections:
            self._last = protections[1 - protections.index(self._last)]
        slices = []
        for level, (workload, context) in groups_in_order:
            group = f"{self._plan.seed}/{level}/{workload}/{context}"
            slices += self._slices(workload, levels[level][workload, context], group, number)
        return slices

    def _slices(self, workload: str, arms: list[PlannedArm], group: str, number: int) -> list[SliceKey]:
        copies = [arm for arm in arms if arm.control or arm.replicate]
        by_protection = {arm.protection: [arm] for arm in arms if arm not in copies}
        if copies:
            by_protection[copies[0].protection] = _alternating(copies, group, number)
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


def _alternating(copies: list[PlannedArm], group: str, number: int) -> list[PlannedArm]:
    """Return the control and its identical copy in the order of this round.

    Two successive rounds form a pair: the first has a random order, and the second has the reverse order.
    """
    swapped = random.Random(f"{group}/{number // 2}").random() < 0.5
    return copies[::-1] if swapped == (number % 2 == 0) else copies


def _shuffled(chance: random.Random, items: Iterable[T]) -> list[T]:
    shuffled = list(items)
    chance.shuffle(shuffled)
    return shuffled


class Looks:
    """Interim analyses (looks), at which a run may end before its budget is spent, and the error rate of each look.

    The error rate is the permitted share of runs with a wrong verdict: 5 % for all analyses of a run together. If each
    look used the full 5 %, far more than 5 % of runs would report a false cost. The looks and the final analysis
    therefore divide the 5 % among them. This works even if their tests depend on each other (Bonferroni).

    The confidence level of printed intervals is not adjusted for the looks. Printed 95 % intervals contain the truth in
    at least 94 % of runs, because the looks use only an eighth of the error rate.
    """

    def __init__(self, plan: Plan, spent: float = 0.0) -> None:
        self._plan = plan
        self._remaining = list(LOOKS) if plan.ends_when_resolved else []
        self._spent = spent
        self._ended_at: float | None = None

    @property
    def error_rate(self) -> float:
        """The error rate (permitted rate of wrong verdicts) of the final verdicts.

        If an interim analysis (look) ended the run, this is the error rate of that look. Otherwise it is the part of
        the permitted error rate that the looks have not spent.
        """
        return self._ended_at or ERROR_RATE - self._spent

    def end(self, rate: float) -> None:
        """Record that the run ends at an interim analysis (look) with this error rate."""
        self._ended_at = rate

    def due(self, rounds_done: int, elapsed_seconds: float) -> float | None:
        """Return the error rate of the interim analysis (look) that must take place now; None if there is none.

        The returned error rate counts as spent.
        """
        budget = self._plan.start_budget_seconds
        if budget is None or rounds_done < self._plan.fewest_rounds:
            return None
        passed = [share for share in self._remaining if elapsed_seconds >= share * budget]
        if not passed:
            return None
        self._remaining = self._remaining[len(passed) :]
        rate = ERROR_RATE * passed[-1] ** SPENDING_POWER - self._spent
        if rate <= 0:
            return None
        self._spent += rate
        return rate


def precision(plan: Plan, samples: Samples) -> float | None:
    """Return the half-width of the run's widest confidence interval, such as 0.02 for ±2 %; None if it is unknown.

    Only effects on headline metrics count (those that answer the study's question). The stop rule compares the result
    with the precision that the plan requires. The result is always None for a run with several starts of the servers:
    the rounds within one start do not show how much the starts differ.
    """
    if plan.starts > 1:
        return None
    widths = []
    for name, metric in plan.study.metrics.items():
        if not metric.headline:
            continue
        for arm in plan.arms:
            if arm.control_arm is None:
                continue
            control, values = samples.pairs(name, arm.control_arm, arm.name)
            if len(values) < 3:
                continue
            interval = ratio(control, values)
            if interval is not None:
                widths.append(half_width(interval))
    return max(widths) if widths else None


def enough(
    plan: Plan, rounds_done: int, elapsed_seconds: float, reached: Sequence[float | None], longest_round: float
) -> bool:
    """Return whether the run must end after `rounds_done` rounds.

    The run ends in three cases:

    - It has the maximum number of rounds.
    - Another round would exceed the budget, and the run has two rounds, or the minimum number if the user gave one.
    - Each of the last `STEADY_ROUNDS` rounds had the plan's precision, and the run has the minimum number of rounds.

    A plan with a fixed number of rounds has neither budget nor precision.

    `reached` is the precision after each round so far. One precise round is not enough, because the precision varies by
    chance from round to round. In simulated runs that ended at the first precise round, the 95 % confidence intervals
    contained the truth in only 92 % of runs. With `STEADY_ROUNDS`, they contained it in 93 to 94 %.
    """
    if rounds_done >= plan.most_rounds:
        return True
    budget, target = plan.start_budget_seconds, plan.precision
    least = max(ROUNDS_FOR_INTERVAL, plan.rounds_beyond_budget)
    if budget is not None and rounds_done >= least and elapsed_seconds + longest_round > budget:
        return True
    if target is None:
        return False
    latest = reached[-STEADY_ROUNDS:]
    steady = len(latest) == STEADY_ROUNDS and all(width is not None and width <= target for width in latest)
    return rounds_done >= plan.fewest_rounds and steady
