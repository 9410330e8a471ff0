"""The goals of a campaign, and whether its rows meet them."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from truth.design import BENCHMARKER, CARRY_OVER, DOUBLED, MAIN, NOTHING, SLOW_TAIL
from truth.figures import Proportion, cases, identical, judged_different, peer_judged_different, replicates, tail_errors
from truth.rows import Rows


@dataclass(frozen=True)
class Goal:
    """A goal for a proportion: it lies between `low` and `high`, and its interval between `lowest` and `highest`."""

    low: float
    high: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        if self.low == 0:
            return f"at most {self.high:.0%}, interval below {self.highest:.0%}"
        if self.high == 1:
            return f"at least {self.low:.0%}, interval above {self.lowest:.0%}"
        return f"{self.low:.0%} to {self.high:.0%}, interval within {self.lowest:.0%} to {self.highest:.0%}"

    def is_met_by(self, proportion: Proportion) -> str:
        """Return 'yes' or 'no', and whether there are too few runs to say so."""
        least, most = proportion.interval
        if self.low <= proportion.value <= self.high:
            return "yes" if self.lowest <= least and most <= self.highest else "too few runs"
        return "no" if most < self.low or least > self.high else "no, but too few runs to be sure"


#: The share of 95 % intervals that contain the truth.
COVERAGE = Goal(0.93, 0.97, 0.92, 0.98)
#: The share of runs whose reported intervals contain the truth after every round, so whenever Ctrl-C ends them.
COVERAGE_AT_ANY_END = Goal(0.95, 1.0, 0.93, 1.0)
#: The share of false verdicts.
FALSE = Goal(0.0, 0.05, 0.0, 0.07)
#: The share of runs that notice a cost.
NOTICED = Goal(0.9, 1.0, 0.85, 1.0)
#: The maximum relative error of a percentile.
TAIL_TOLERANCE = 0.02

HEAD = ["figure", "goal", "result", "half-width", "goal met"]


def goals(rows: Rows) -> list[list[str]]:
    """Return a line for each goal, with the columns `HEAD`. Goals whose runs are missing are left out."""
    by_cost = {case.cost: case for case in cases(rows.effects, together=True)}
    main, nothing = [by_cost[cost.key] for cost in MAIN], by_cost[NOTHING.key]
    lines = [
        _line(f"95 % intervals that contain the truth: {case.truth}", COVERAGE, case.covered, case.half_width)
        for case in main
    ]
    lines += [
        _line(f"the same intervals of ratios: {case.truth}", COVERAGE, case.ratios_covered, case.ratio_half_width)
        for case in main
    ]
    lines += [_line('identical arms with the verdict "costs" or "saves"', FALSE, nothing.judged_different)]
    copies = replicates(rows.effects)
    held, half_width = Proportion.among(row.holds for row in copies), median(row.half_width for row in copies)
    lines += [_line("95 % intervals of replicates, whose true cost is 0, that contain it", COVERAGE, held, half_width)]
    same_but_carried = by_cost[CARRY_OVER[0].key]
    lines += [_line(f'{same_but_carried.truth}: "costs" or "saves"', FALSE, same_but_carried.judged_different)]
    for case in (by_cost[cost.key] for cost in DOUBLED):
        lines += [_line(f'{case.truth}: "costs" or reported as intermittent', NOTICED, case.noticed)]
    for case in main:
        figure = f"intervals that Ctrl-C reports contain the truth after every round: {case.truth}"
        lines += [_line(figure, COVERAGE_AT_ANY_END, case.always_held)]
    if same := identical(rows.pairs):
        half_width = median(row.half_width for row in same)
        figure = 'identical commands with the verdict "costs" or "saves"'
        lines += [_line(figure, FALSE, judged_different(same), half_width)]
        peer = peer_judged_different(same)
        lines += [[f"the same pairs with {BENCHMARKER}: one faster by more than its ±", "", str(peer), "", ""]]
    if off := tail_errors(rows.tails, 99.0, SLOW_TAIL.share):
        result = f"{median(off):+.1%}, at most {max(off, key=abs):+.1%}, of {len(off)} slices"
        met = "yes" if max(map(abs, off)) <= TAIL_TOLERANCE else "no"
        goal = f"within {TAIL_TOLERANCE:.0%}"
        lines += [["p99 against a packet capture, with one slow query in ten", goal, result, "", met]]
    return lines


def _line(figure: str, goal: Goal, proportion: Proportion, half_width: float | None = None) -> list[str]:
    half = "" if half_width is None else f"±{half_width:.1%}"
    return [figure, str(goal), str(proportion), half, goal.is_met_by(proportion)]
