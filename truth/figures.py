"""The figures of a campaign: proportions with exact intervals, and whether they meet their goals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from costof.statistics.estimate import Verdict
from truth.design import EARLIER
from truth.rows import EffectRow, PeerRow, Row, TailRow

#: The minimum and the maximum share of intervals that should contain the truth.
COVERAGE = (0.93, 0.97)
#: The maximum share of false verdicts.
MOST_FALSE = 0.05
#: The minimum share of runs that should notice a cost.
LEAST_FOUND = 0.9
#: The maximum time to a verdict, relative to the time that the earlier version (commit `EARLIER`) needs.
MOST_OF_EARLIER = 0.5
#: The maximum relative error of a percentile.
TAIL_TOLERANCE = 0.02
PLACES = {False: "alone", True: "with a CPU-burning neighbour"}
PAYERS = {
    "all": "on every query",
    "some": "on average, paid by one query in ten",
    "spells": "on average, paid in a tenth of the time",
}
#: The campaign says that runs find a cost of some size if at least this share of them has the verdict "costs".
FOUND = 0.8
#: The maximum acceptable error of an estimate, as a share of the control's time. It is also the margin in truth.toml.
TOLERANCE = 0.01


def in_words(payers: str, share: float, carry_over: bool) -> str:
    """Return a true cost as text, such as '2 % on average, paid by one query in ten'."""
    cost = f"{100 * share:g} % {PAYERS[payers]}" if share else "nothing"
    return f"{cost}, with carry-over" if carry_over else cost


@dataclass(frozen=True)
class Proportion:
    """A proportion: the number of successes (`count`) among a number of trials (`total`)."""

    count: int
    total: int

    @classmethod
    def among(cls, outcomes: Iterable[bool]) -> Proportion:
        every = list(outcomes)
        return cls(sum(every), len(every))

    @property
    def value(self) -> float:
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Return the exact 95 % interval (Clopper & Pearson 1934)."""
        from scipy.stats import binomtest

        exact = binomtest(self.count, self.total).proportion_ci(0.95, method="exact")
        return float(exact.low), float(exact.high)

    def reaches(self, low: float, high: float) -> str:
        """Return 'yes' if the proportion is from `low` to `high`, else 'no'. Add a note if the interval allows both."""
        least, most = self.interval
        if most < low or least > high:
            return "no"
        if low <= least and most <= high:
            return "yes"
        return "yes, but too few runs to be sure" if low <= self.value <= high else "no, but too few runs to be sure"

    @property
    def counted(self) -> str:
        return f"{self.count} of {self.total}"

    def __str__(self) -> str:
        if not self.total:
            return ""
        low, high = self.interval
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}] of {self.total}"


@dataclass(frozen=True)
class Case:
    """All runs with one true cost, either all with or all without the disturbing process of truth/neighbour.py."""

    payers: str
    added_share: float
    carry_over: bool
    disturbed: bool
    rows: Sequence[EffectRow]

    @property
    def cost(self) -> tuple[str, float, bool]:
        return self.payers, self.added_share, self.carry_over

    @property
    def truth(self) -> str:
        return in_words(*self.cost)

    @property
    def place(self) -> str:
        return PLACES[self.disturbed]

    @property
    def covered(self) -> Proportion:
        return Proportion.among(row.holds for row in self.rows)

    @property
    def ratios_covered(self) -> Proportion:
        return Proportion.among(row.ratio_holds for row in self.rows)

    @property
    def covered_in_the_long_run(self) -> Proportion:
        return Proportion.among(row.low <= row.long_run <= row.high for row in self.rows)

    @property
    def judged_costs(self) -> Proportion:
        return Proportion.among(row.verdict == Verdict.COSTS for row in self.rows)

    @property
    def judged_no_cost(self) -> Proportion:
        """Return the share of runs with a verdict that the arm adds no cost above the margin."""
        return Proportion.among(row.verdict in (Verdict.NO_DIFFERENCE, Verdict.NO_COST) for row in self.rows)

    @property
    def judged_different(self) -> Proportion:
        return Proportion.among(row.verdict in (Verdict.COSTS, Verdict.SAVES) for row in self.rows)

    @property
    def noticed(self) -> Proportion:
        """Return the share of runs whose verdict is 'costs', or which report an intermittent cost."""
        return Proportion.among(row.verdict == Verdict.COSTS or row.intermittent for row in self.rows)

    @property
    def noticed_at_all(self) -> Proportion:
        """Return the share of runs that report the cost in any form.

        Besides the runs that `noticed` counts, these are runs which report that the slowest queries became slower by
        more than the mean. Runs whose slowest queries were not analysed are left out.
        """
        analysed = [row for row in self.rows if row.tail_told is not None]
        return Proportion.among(
            row.verdict == Verdict.COSTS or row.intermittent or bool(row.tail_told) for row in analysed
        )

    @property
    def carry_over_reported(self) -> Proportion:
        """Return the share of runs which report carry-over: that a slice depends on the arm measured before it."""
        return Proportion.among(bool(row.order_told) for row in self.rows)

    @property
    def half_width(self) -> float:
        """Return the median half-width of the intervals, as a share of the control's time."""
        return median((row.high - row.low) / 2 / row.control for row in self.rows)

    @property
    def error(self) -> float:
        """Return the median of estimate minus truth, as a share of the control's time."""
        return median((row.estimate - row.truth) / row.control for row in self.rows)


def cases(effects: Iterable[EffectRow]) -> list[Case]:
    """Return a sorted list of cases, each with the effects of all protected arms that have the same true cost.

    Effects measured with the disturbing process, and effects measured without it, are in separate cases.
    """
    groups: dict[tuple[bool, str, float, bool], list[EffectRow]] = {}
    for row in effects:
        if row.trial_kind == "effect" and not row.is_replicate:
            groups.setdefault((row.carry_over, row.payers, row.added_share, row.disturbed), []).append(row)
    return [
        Case(payers, share, carry_over, disturbed, rows)
        for (carry_over, payers, share, disturbed), rows in sorted(groups.items())
    ]


def replicates(effects: Iterable[EffectRow]) -> list[EffectRow]:
    """Return the effects of the controls' identical copies (replicates). Their true cost is 0.

    Leave out runs with carry-over (a delay after each change of the arm). In them the identical copy differs from its
    control, because it never follows another arm.
    """
    return [row for row in effects if row.trial_kind == "effect" and row.is_replicate and not row.carry_over]


@dataclass(frozen=True)
class Speed:
    """The times after which the current analysis and an earlier analysis of the same runs had a verdict.

    `rows` has the arms with a cost. `current` and `earlier` have the seconds for each of them; infinite means that this
    analysis had no verdict. `tool` is the version of costof that chose the sizes of the runs' slices.
    """

    tool: str
    rows: Sequence[EffectRow]

    @property
    def version(self) -> str:
        return f"`{EARLIER}`" if self.tool == EARLIER else "the current version"

    @property
    def query_ms(self) -> float:
        return median(row.control for row in self.rows)

    @property
    def round_seconds(self) -> float:
        return median(row.seconds / (row.rounds + row.discarded) for row in self.rows)

    @property
    def current(self) -> list[float]:
        return [_or_infinite(row.seconds_to_verdict) for row in self.rows]

    @property
    def earlier(self) -> list[float]:
        return [_or_infinite(row.seconds_earlier) for row in self.rows]


def _or_infinite(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def speeds(effects: Iterable[EffectRow]) -> list[Speed]:
    """Return the times to a verdict: first for runs with the current slice sizes, then for the earlier sizes."""
    groups: dict[str, list[EffectRow]] = {}
    for row in effects:
        if row.trial_kind == "verdict" and not row.is_replicate:
            groups.setdefault(row.tool, []).append(row)
    return [Speed(tool, groups[tool]) for tool in sorted(groups, key=lambda tool: tool == EARLIER)]


def least_found(by_truth: Iterable[Case], disturbed: bool) -> float | None:
    """Return the smallest cost that runs find reliably, as a share of the service time; None if there is none.

    Only costs on every query are considered. Runs find a cost reliably if at least the share `FOUND` of them has the
    verdict "costs", and this also holds for all larger costs.
    """
    least = None
    for case in sorted(by_truth, key=lambda case: case.added_share, reverse=True):
        if (case.payers, case.carry_over, case.disturbed) == ("all", False, disturbed):
            if case.judged_costs.value < FOUND:
                return least
            least = case.added_share
    return least


def errors(rows: Iterable[PeerRow | EffectRow]) -> list[float]:
    """Return the absolute error of each row's estimate, as a share of the control's time."""
    return [abs(_estimate(row) - row.truth) / row.control for row in rows]


def _estimate(row: PeerRow | EffectRow) -> float:
    return row.estimate if isinstance(row, EffectRow) else row.value - row.control


def tail_errors(tails: Iterable[TailRow], percentile: float, added_share: float) -> list[float]:
    """Return the relative error of the engine's percentile, against the packet capture, in each matching row."""
    kept = (row for row in tails if (row.percentile, row.added_share) == (percentile, added_share))
    return [row.engine / row.captured - 1 for row in kept]


def busy(rows: Iterable[Row]) -> Proportion:
    """Return the share of trials at whose start the machine's load average exceeded the number of cores."""
    return Proportion.among(row.load > row.cores for row in rows)
