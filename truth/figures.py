"""What the rows of a campaign say: proportions with exact intervals, and whether they reach what is asked of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from costof.statistics.estimate import Verdict
from truth.design import EARLIER
from truth.rows import EffectRow, PeerRow, Row, TailRow

#: What is asked.
COVERAGE = (0.93, 0.97)
MOST_FALSE = 0.05
LEAST_FOUND = 0.9
MOST_OF_EARLIER = 0.5
TAIL_TOLERANCE = 0.02
PLACES = {False: "alone", True: "beside a neighbour"}
PAYERS = {
    "all": "on every query",
    "some": "on average, by one query in ten",
    "spells": "on average, by a tenth of the time",
}
#: Of the runs, that say "costs" where a cost counts as found.
FOUND = 0.8
#: Of the control: what an estimate may be off by before it misleads; the margin of the campaign's study.
TOLERANCE = 0.01


@dataclass(frozen=True)
class Proportion:
    """A number of successes among trials."""

    count: int
    of: int

    @classmethod
    def among(cls, found: Iterable[bool]) -> Proportion:
        every = list(found)
        return cls(sum(every), len(every))

    @property
    def value(self) -> float:
        return self.count / self.of

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval, exact (Clopper & Pearson 1934)."""
        from scipy.stats import binomtest

        found = binomtest(self.count, self.of).proportion_ci(0.95, method="exact")
        return float(found.low), float(found.high)

    def reaches(self, low: float, high: float) -> str:
        """Return whether it lies between these, and whether so many trials can tell."""
        least, most = self.interval
        if most < low or least > high:
            return "no"
        if low <= least and most <= high:
            return "yes"
        return "yes, but too few runs to be sure" if low <= self.value <= high else "no, but too few runs to be sure"

    @property
    def counted(self) -> str:
        return f"{self.count} of {self.of}"

    def __str__(self) -> str:
        if not self.of:
            return ""
        low, high = self.interval
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}] of {self.of}"


@dataclass(frozen=True)
class Case:
    """The runs of one truth, with or without the neighbour."""

    payers: str
    added_share: float
    disturbed: bool
    rows: Sequence[EffectRow]

    @property
    def truth(self) -> str:
        """In words, such as '2 % on average, by one query in ten'."""
        if not self.added_share:
            return "nothing"
        return f"{100 * self.added_share:g} % {PAYERS[self.payers]}"

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
    def said_to_cost(self) -> Proportion:
        return Proportion.among(row.verdict == Verdict.COSTS for row in self.rows)

    @property
    def said_to_be_none(self) -> Proportion:
        """Within the margin, on both sides or as a cost."""
        return Proportion.among(row.verdict in (Verdict.NO_DIFFERENCE, Verdict.NO_COST) for row in self.rows)

    @property
    def said_to_differ(self) -> Proportion:
        return Proportion.among(row.verdict in (Verdict.COSTS, Verdict.SAVES) for row in self.rows)

    @property
    def noticed(self) -> Proportion:
        """Said to cost, or to come and go."""
        return Proportion.among(row.verdict == Verdict.COSTS or row.intermittent for row in self.rows)

    @property
    def noticed_at_all(self) -> Proportion:
        """Said to cost, to come and go, or to have another tail than the control."""
        asked = [row for row in self.rows if row.tail_told is not None]
        return Proportion.among(
            row.verdict == Verdict.COSTS or row.intermittent or bool(row.tail_told) for row in asked
        )

    @property
    def half_width(self) -> float:
        """The median interval's, as a share of the control."""
        return median((row.high - row.low) / 2 / row.control for row in self.rows)

    @property
    def error(self) -> float:
        """The median estimate less its truth, as a share of the control."""
        return median((row.estimate - row.truth) / row.control for row in self.rows)


def cases(effects: Iterable[EffectRow]) -> list[Case]:
    """Of arms that may pay, in the order of their truths."""
    groups: dict[tuple[str, float, bool], list[EffectRow]] = {}
    for row in effects:
        if row.trial_kind == "effect" and not row.is_twin:
            groups.setdefault((row.payers, row.added_share, row.disturbed), []).append(row)
    return [Case(*key, rows) for key, rows in sorted(groups.items())]


@dataclass(frozen=True)
class Speed:
    """How soon costs are told in runs that divide their time in one way; a row for each arm that pays.

    Times are seconds, endless where there was no verdict.
    """

    tool: str
    rows: Sequence[EffectRow]

    @property
    def way(self) -> str:
        return EARLIER if self.tool == EARLIER else "today"

    @property
    def query_ms(self) -> float:
        return median(row.control for row in self.rows)

    @property
    def round_seconds(self) -> float:
        return median(row.seconds / (row.rounds + row.discarded) for row in self.rows)

    @property
    def today(self) -> list[float]:
        return [_or_endless(row.seconds_to_verdict) for row in self.rows]

    @property
    def earlier(self) -> list[float]:
        return [_or_endless(row.seconds_earlier) for row in self.rows]


def _or_endless(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds


def speeds(effects: Iterable[EffectRow]) -> list[Speed]:
    """Today's way to divide the time first."""
    groups: dict[str, list[EffectRow]] = {}
    for row in effects:
        if row.trial_kind == "verdict" and not row.is_twin:
            groups.setdefault(row.tool, []).append(row)
    return [Speed(tool, groups[tool]) for tool in sorted(groups, key=lambda tool: tool == EARLIER)]


def least_found(of_truths: Iterable[Case], disturbed: bool) -> float | None:
    """Return the smallest constant cost from which on `FOUND` of the runs say that it costs; None without one."""
    found = None
    for case in sorted(of_truths, key=lambda case: case.added_share, reverse=True):
        if (case.payers, case.disturbed) == ("all", disturbed):
            if case.said_to_cost.value < FOUND:
                return found
            found = case.added_share
    return found


def errors(rows: Iterable[PeerRow | EffectRow]) -> list[float]:
    """What estimates are off by, as shares of the control."""
    return [abs(_estimate(row) - row.truth) / row.control for row in rows]


def _estimate(row: PeerRow | EffectRow) -> float:
    return row.estimate if isinstance(row, EffectRow) else row.value - row.control


def tail_errors(tails: Iterable[TailRow], percentile: float, added_share: float) -> list[float]:
    """What the engine's percentile differs from the capture's by, as a share of it."""
    kept = (row for row in tails if (row.percentile, row.added_share) == (percentile, added_share))
    return [row.engine / row.captured - 1 for row in kept]


def busy(rows: Iterable[Row]) -> Proportion:
    """Trials that began on a machine with more to do than it has cores."""
    return Proportion.among(row.load > row.cores for row in rows)
