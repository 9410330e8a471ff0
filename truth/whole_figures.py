"""What whole runs of the command say: how much quick profiles resolve, and what identical commands are said to be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from costof.statistics.estimate import Verdict
from truth.design import STUDIES
from truth.figures import LEAST_FOUND, Proportion
from truth.rows import PairRow, QuickRow

#: An effect of a quick profile that it is to resolve: its ratio, whichever side it lies on.
LARGE = math.log(1.1)


@dataclass(frozen=True)
class QuickEffect:
    """A headline effect in all quick runs of its study."""

    metric: str
    arm: str
    rows: Sequence[QuickRow]

    @property
    def size(self) -> float:
        """The logarithm of its ratio, on either side: the median of the runs."""
        return abs(median(math.log(row.ratio) for row in self.rows))

    @property
    def resolved(self) -> Proportion:
        return Proportion.among(row.verdict != Verdict.UNRESOLVED for row in self.rows)

    @property
    def clearance(self) -> float:
        """How many times wider than its interval's half it is: the median of the runs."""
        return median(
            abs(math.log(row.ratio)) / (math.log(row.ratio_high / row.ratio_low) / 2 or math.inf) for row in self.rows
        )


@dataclass(frozen=True)
class QuickProfile:
    """All quick runs of a study."""

    study: str
    effects: Sequence[QuickEffect]
    seconds: Sequence[float]

    @property
    def large(self) -> list[QuickEffect]:
        return [each for each in self.effects if each.size >= LARGE]

    @property
    def resolved(self) -> Proportion:
        """Of the large ones, those that enough of the runs resolve."""
        return Proportion.among(each.resolved.value >= LEAST_FOUND for each in self.large)


def quick_profiles(rows: Iterable[QuickRow]) -> list[QuickProfile]:
    """In the order in which the studies are named."""
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


def said_to_differ(pairs: Iterable[PairRow]) -> Proportion:
    """Of pairs of the same command, those of which `costof` says that one costs or saves."""
    return Proportion.among(row.verdict in (Verdict.COSTS, Verdict.SAVES) for row in pairs)


def peer_said_to_differ(pairs: Iterable[PairRow]) -> Proportion:
    """Those of which the other tool's ± does not reach 1: that one was faster, by its own words."""
    return Proportion.among(abs(row.peer_ratio - 1) > row.peer_error for row in pairs)
