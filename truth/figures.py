"""The figures of a campaign: proportions with exact intervals, and whether they meet their goals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from costof.statistics.estimate import Verdict
from truth.early_ends import EarlyEnd
from truth.rows import EffectRow, PairRow, PeerRow, TailRow

PLACES = {False: "alone", True: "with a CPU-burning neighbour", None: "both"}
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

    @property
    def counted(self) -> str:
        return f"{self.count} of {self.total}"

    def __str__(self) -> str:
        if not self.total:
            return ""
        low, high = self.interval
        return f"{self.value:.1%} [{low:.1%}, {high:.1%}] of {self.total}"


@dataclass(frozen=True)
class EarlyEnds:
    """Ends of runs that somebody chose for their figures.

    `rounds` and `half_width` (as a share of the control's time) are medians. `hold` is the share of intervals that
    contain the truth, and `exclude_zero` of those that exclude 0.
    """

    rounds: float
    half_width: float
    hold: Proportion
    exclude_zero: Proportion

    @classmethod
    def of(cls, ends_and_controls: Iterable[tuple[EarlyEnd | None, float]], widened: bool) -> EarlyEnds:
        both = [(end, control) for end, control in ends_and_controls if end is not None]
        return cls(
            rounds=median(end.rounds for end, _ in both),
            half_width=median(end.reported_half_width(widened) / control for end, control in both),
            hold=Proportion.among(end.holds(widened) for end, _ in both),
            exclude_zero=Proportion.among(end.excludes_zero(widened) for end, _ in both),
        )


@dataclass(frozen=True)
class Case:
    """All runs with one true cost: with the disturbing process of truth/neighbour.py, without it, or (None) both."""

    payers: str
    added_share: float
    carry_over: bool
    disturbed: bool | None
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
    def covered_as_added(self) -> Proportion:
        """Return the share of intervals that contain the delay that was added in the run itself."""
        return Proportion.among(row.low <= row.added <= row.high for row in self.rows)

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

    def ended_when_convincing(self, widened: bool) -> EarlyEnds:
        """Return the runs' ends as soon as they are convincing, with intervals for a planned or (widened) any end."""
        return EarlyEnds.of(((row.replay.when_convincing, row.control) for row in self.rows), widened)

    @property
    def always_held(self) -> Proportion:
        """Return the share of runs in which the interval that Ctrl-C reports contains the truth after every round."""
        return Proportion.among(row.replay.always_holds for row in self.rows if row.replay.always_holds is not None)

    def ended_when_precise(self) -> EarlyEnds:
        """Return the runs' ends as soon as they are precise, with intervals for a planned end."""
        return EarlyEnds.of(((row.replay.when_precise, row.control) for row in self.rows), widened=False)

    @property
    def seconds(self) -> float:
        """Return the median duration of the runs. Those with a verdict may end before their budget."""
        return median(row.seconds for row in self.rows)

    @property
    def half_width(self) -> float:
        """Return the median half-width of the intervals, as a share of the control's time."""
        return median(row.half_width for row in self.rows)

    @property
    def ratio_half_width(self) -> float:
        return median((row.ratio_high - row.ratio_low) / 2 for row in self.rows)

    @property
    def error(self) -> float:
        """Return the median of estimate minus truth, as a share of the control's time."""
        return median((row.estimate - row.truth) / row.control for row in self.rows)


def cases(effects: Iterable[EffectRow], together: bool = False) -> list[Case]:
    """Return a sorted list of cases, each with the effects of all protected arms that have the same true cost.

    Unless `together`, effects measured with the disturbing process and without it are in separate cases.
    """
    groups: dict[tuple[bool, str, float, bool], list[EffectRow]] = {}
    for row in effects:
        if not row.is_replicate:
            place = row.disturbed and not together
            groups.setdefault((row.carry_over, row.payers, row.added_share, place), []).append(row)
    return [
        Case(payers, share, carry_over, None if together else disturbed, rows)
        for (carry_over, payers, share, disturbed), rows in sorted(groups.items())
    ]


def replicates(effects: Iterable[EffectRow]) -> list[EffectRow]:
    """Return the effects of the controls' identical copies (replicates). Their true cost is 0.

    Leave out runs with carry-over (a delay after each change of the arm). In them the identical copy differs from its
    control, because it never follows another arm.
    """
    return [row for row in effects if row.is_replicate and not row.carry_over]


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


@dataclass(frozen=True)
class Commands:
    """All comparisons of two commands that differ by one true cost, all with or all without the disturbing process."""

    cost: tuple[str, float, bool]
    disturbed: bool
    rows: Sequence[PairRow]

    @property
    def error(self) -> float:
        """Return the median error of `costof`, as a share of the first command's time."""
        return median(abs(row.estimate - row.truth) / row.control for row in self.rows)

    @property
    def peer_error(self) -> float:
        """Return the median error of the other tool, as a share of the first command's time."""
        return median(abs(row.peer_estimate - row.peer_truth) / row.peer_control for row in self.rows)

    @property
    def covered(self) -> Proportion:
        return Proportion.among(row.holds for row in self.rows)

    @property
    def judged_costs(self) -> Proportion:
        return Proportion.among(row.verdict == Verdict.COSTS for row in self.rows)

    @property
    def peer_slower(self) -> Proportion:
        """Return the share of comparisons in which the other tool's ratio exceeds 1 by more than the ratio's error."""
        return Proportion.among(row.peer_ratio - 1 > row.peer_error for row in self.rows)


def commands(pairs: Iterable[PairRow]) -> list[Commands]:
    """Return a sorted list that has, for each true cost, all comparisons of two commands that differ by this cost.

    Comparisons with the disturbing process, and comparisons without it, are in separate entries of the list.
    """
    groups: dict[tuple[bool, str, float, bool], list[PairRow]] = {}
    for row in pairs:
        if row.trial_kind == "command":
            groups.setdefault((row.carry_over, row.payers, row.added_share, row.disturbed), []).append(row)
    return [
        Commands((payers, share, carry_over), disturbed, rows)
        for (carry_over, payers, share, disturbed), rows in sorted(groups.items())
    ]


def identical(pairs: Iterable[PairRow]) -> list[PairRow]:
    """Return the comparisons of a command with itself."""
    return [row for row in pairs if row.trial_kind == "pair"]


def judged_different(pairs: Iterable[PairRow]) -> Proportion:
    """Return the share of comparisons of identical commands in which `costof` has the verdict 'costs' or 'saves'."""
    return Proportion.among(row.verdict in (Verdict.COSTS, Verdict.SAVES) for row in pairs)


def peer_judged_different(pairs: Iterable[PairRow]) -> Proportion:
    """Return the share of comparisons of identical commands in which the other tool's ratio ± error excludes 1."""
    return Proportion.among(abs(row.peer_ratio - 1) > row.peer_error for row in pairs)
