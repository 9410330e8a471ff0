"""Figures about runs of the whole command: effects that quick profiles resolve, verdicts on identical commands."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from costof.statistics.estimate import Verdict
from truth.design import STUDIES
from truth.figures import LEAST_FOUND, Proportion
from truth.rows import PairRow, QuickRow

#: An effect is large if its ratio to the control is at least 1.1, or at most 1 / 1.1. Quick profiles should resolve
#: large effects.
LARGE = math.log(1.1)


@dataclass(frozen=True)
class QuickEffect:
    """One effect that answers the question of a study, with its rows from all quick runs of the study."""

    metric: str
    arm: str
    rows: Sequence[QuickRow]

    @property
    def size(self) -> float:
        """Return the absolute value of the median, over all runs, of the logarithm of the effect's ratio."""
        return abs(median(math.log(row.ratio) for row in self.rows))

    @property
    def resolved(self) -> Proportion:
        return Proportion.among(row.verdict != Verdict.UNRESOLVED for row in self.rows)

    @property
    def clearance(self) -> float:
        """Return the effect divided by the half-width of its interval, on the log scale, as the median over all runs.

        If it is above 1, the interval excludes 0.
        """
        return median(
            abs(math.log(row.ratio)) / (math.log(row.ratio_high / row.ratio_low) / 2 or math.inf) for row in self.rows
        )


@dataclass(frozen=True)
class QuickProfile:
    """The results of all runs of one study with `--profile quick`."""

    study: str
    effects: Sequence[QuickEffect]
    seconds: Sequence[float]

    @property
    def large(self) -> list[QuickEffect]:
        return [each for each in self.effects if each.size >= LARGE]

    @property
    def resolved(self) -> Proportion:
        """Return which share of the large effects is resolved in at least the share `LEAST_FOUND` of the runs."""
        return Proportion.among(each.resolved.value >= LEAST_FOUND for each in self.large)


def quick_profiles(rows: Iterable[QuickRow]) -> list[QuickProfile]:
    """Group the rows by study. Return the studies' quick profiles in the order of `STUDIES`."""
    by_study: dict[str, dict[tuple[str, str], list[QuickRow]]] = {study: {} for study in STUDIES}
    for row in rows:
        by_study[row.service].setdefault((row.metric, row.arm), []).append(row)
    return [
        QuickProfile(
            study,
            [QuickEffect(*key, same) for key, same in groups.items()],
            [*{row.trial: row.seconds for same in groups.values() for row in same}.values()],
        )
        for study, groups in by_study.items()
        if groups
    ]


@dataclass(frozen=True)
class Commands:
    """All comparisons of two commands that differ by one true cost, all with or all without the disturbing process."""

    cost: tuple[str, float, bool]
    disturbed: bool
    rows: Sequence[PairRow]

    @property
    def error(self) -> float:
        return median(abs(row.ratio / row.truth_ratio - 1) for row in self.rows)

    @property
    def peer_error(self) -> float:
        return median(abs(row.peer_ratio / row.peer_truth_ratio - 1) for row in self.rows)

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
