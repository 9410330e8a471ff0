"""The independent units of a run: its rounds or, if its servers were restarted, the starts of the servers.

A start of the servers has random properties, such as the layout of memory and data, or the core on which the server
runs. They affect all rounds of this start alike. So the rounds of one start are not independent of each other, but
different starts are (Kalibera & Jones 2013). Therefore each start contributes one number to a figure: the mean of its
rounds. If the starts have unequal numbers of rounds, the intervals are wider than necessary, never too narrow
(Ibragimov & Müller 2010).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import numpy as np

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import CONFIDENCE


@dataclass(frozen=True)
class Units:
    """The independent units of a run, and the unit to which each round belongs.

    If the run restarted its servers, each start of the servers is a unit, and `starts` maps each round to its start.
    Otherwise each round is a unit, and `starts` is empty.
    """

    starts: dict[int, int] = field(default_factory=dict)

    def unit(self, round_number: int) -> int:
        """Return this round's number or, if the run restarted its servers, the number of its start, from 0."""
        return self.starts.get(round_number, round_number)

    def numbers(self, rounds: Iterable[int]) -> list[int]:
        """Return the numbers, counted from 1, of these rounds or, after restarts, of the starts that contain them."""
        return [unit + 1 for unit in dict.fromkeys(map(self.unit, sorted(rounds)))]

    def grouped(self, numbers: Mapping[int, float]) -> list[list[float]]:
        """Return one list of numbers for each round (or start of the servers), in the order of the rounds."""
        groups: dict[int, list[float]] = {}
        for number in sorted(numbers):
            groups.setdefault(self.unit(number), []).append(numbers[number])
        return list(groups.values())

    def means(self, numbers: Mapping[int, float]) -> list[float]:
        """Return one number for each round or, if the run restarted its servers, the mean for each start."""
        if not self.starts:
            return [numbers[number] for number in sorted(numbers)]
        return [fmean(each) for each in self.grouped(numbers)]


def variance_share_of_starts(samples: Sequence[Sequence[Sequence[float]]]) -> Estimate | None:
    """Return which share (0 to 1) of the variation between starts of the servers is due to the starts themselves.

    The rest is due to the variation between the rounds of a start. The share is 1 - W / B, where B is the mean square
    between starts, and W the mean square within starts. The interval follows from the F distribution of B / W (analysis
    of variance of one random factor; Searle, Casella & McCulloch 1992, chapter 3).

    `samples[arm][start][round]` are the numbers of arms with similar variances. Arms with the same control are not
    independent of each other, so the degrees of freedom are those of a single arm. The interval is therefore
    conservative. Return None unless an arm has two starts of at least two rounds each.
    """
    from scipy.special import fdtri

    usable = [[start for start in arm if len(start) > 1] for arm in samples]
    usable = [arm for arm in usable if len(arm) > 1]
    if not usable:
        return None
    between, within = (fmean(each) for each in zip(*map(_mean_squares, usable), strict=True))
    if not between or not within:
        return None
    freedom = (min(map(len, usable)) - 1, sum(len(start) - 1 for start in usable[0]))
    low, high = (
        1 - within / between * float(fdtri(*freedom, share)) for share in ((1 + CONFIDENCE) / 2, (1 - CONFIDENCE) / 2)
    )
    value, low, high = (max(0.0, each) for each in (1 - within / between, low, high))
    return Estimate(value=value, low=low, high=high, rounds=len(usable[0]))


def _mean_squares(starts: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the variance of the means of an arm's starts, and the part of it that is due to single rounds."""
    means, sizes = np.array([np.mean(each) for each in starts]), np.array([len(each) for each in starts])
    within = sum(float(np.var(each)) * len(each) for each in starts) / float(np.sum(sizes - 1))
    return float(means.var(ddof=1)), within * float(np.mean(1 / sizes))
