"""What of a run is independent of each other: its rounds or, where its servers were started anew, these starts.

What a start draws (where memory lies, which core serves, how a server has laid out its data) lasts for all its rounds.
So they are not independent of each other, and only starts are: the highest level at which luck is drawn (Kalibera &
Jones 2013). One number a start goes into each figure then, the mean of its rounds. Starts of unequally many rounds are
known unequally well, which makes intervals of their mean wider and not too narrow (Ibragimov & Müller 2010).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import CONFIDENCE


@dataclass(frozen=True)
class Units:
    """`starts`: by round, which start it is of; empty where rounds are the units."""

    starts: dict[int, int] = field(default_factory=dict)

    def of(self, round_number: int) -> int:
        return self.starts.get(round_number, round_number)

    def together(self, numbers: Mapping[int, float]) -> list[list[float]]:
        """Group numbers by round into units, in the order of the rounds."""
        found: dict[int, list[float]] = {}
        for number in sorted(numbers):
            found.setdefault(self.of(number), []).append(numbers[number])
        return list(found.values())

    def means(self, numbers: Mapping[int, float]) -> list[float]:
        """Return numbers by round as one mean for each unit."""
        if not self.starts:
            return [numbers[number] for number in sorted(numbers)]
        return [fmean(each) for each in self.together(numbers)]


def own_share(samples: Sequence[Sequence[Sequence[float]]]) -> Estimate | None:
    """How much of the variance of a start's mean is the start's own, beyond what its rounds explain: 0 to 1.

    `samples[arm][start][round]` are of arms whose variances are much alike. With mean squares B between and W within
    starts it is 1 - W / B, and B / W over its expectation has an F distribution (analysis of variance of one random
    factor; Searle, Casella & McCulloch 1992, chapter 3). Arms of one control are not independent, so degrees of freedom
    are those of one arm, and the interval is rather too wide. None where a single round a start, or fewer than two
    starts, do not tell.
    """
    from scipy.special import fdtri

    found = [[start for start in arm if len(start) > 1] for arm in samples]
    found = [arm for arm in found if len(arm) > 1]
    if not found:
        return None
    between, within = (fmean(each) for each in zip(*map(_mean_squares, found), strict=True))
    if not between or not within:
        return None
    freedom = (min(map(len, found)) - 1, sum(len(start) - 1 for start in found[0]))
    low, high = (
        1 - within / between * float(fdtri(*freedom, share)) for share in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
    )
    value, low, high = (max(0.0, each) for each in (1 - within / between, low, high))
    return Estimate(value=value, low=low, high=high, rounds=len(found[0]))


def _mean_squares(starts: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Between the starts of an arm, and within them, of a start's mean of the average number of rounds."""
    means, sizes = np.array([np.mean(each) for each in starts]), np.array([len(each) for each in starts])
    within = sum(float(np.var(each)) * len(each) for each in starts) / float(np.sum(sizes - 1))
    return float(means.var(ddof=1)), within * float(np.mean(1 / sizes))
