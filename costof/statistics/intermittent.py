"""Costs that come and go: slices of an arm that stand far above its others, more often than the control's do.

A cost that hits one slice in ten moves the mean by a tenth of itself and widens its interval by more, so that it may
stay unresolved however large it is. That it is there shows in how often: far outliers of the arm against its control
are counted, and the twin's and the control's own beside them. What the machine does hits all alike, so what only the
arm has is the arm's (Fisher's exact test, 1935).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.outliers import far_above

#: The least that a slice must be larger by to matter at all.
LEAST = math.log(1.1)
ERROR_RATE = 0.05


@dataclass(frozen=True)
class Intermittent:
    """`slices` of `of` took `times` as long as the others (their median), against `usual` of `usual_of` elsewhere."""

    slices: int
    of: int
    times: float
    usual: int
    usual_of: int


def intermittent(
    arm: Sequence[float], twin: Sequence[float], comparisons: int, error_rate: float = ERROR_RATE
) -> Intermittent | None:
    """Of log ratios to the control by round, positive for a cost: the arm's, and its twin's, which show how often a
    slice stands apart by itself, the control's own the other way round. None where the arm's do so no more often.

    `comparisons`: how many arms and metrics are asked this in one run.
    """
    if len(arm) < 2 or len(twin) < 2:
        return None
    apart = far_above(arm, LEAST)
    slices, of = int(apart.sum()), len(arm)
    usual = sum(int(far_above(each, LEAST).sum()) for each in (twin, [-each for each in twin]))
    usual_of = 2 * len(twin)
    if not slices or _more_often_by_chance(slices, of, usual, usual_of) > error_rate / max(1, comparisons):
        return None
    numbers = np.asarray(arm)
    times = math.exp(float(np.median(numbers[apart]) - np.median(numbers[~apart])))
    return Intermittent(slices, of, times, usual, usual_of)


def _more_often_by_chance(slices: int, of: int, usual: int, usual_of: int) -> float:
    """The chance of at least so many of all outliers in the arm, were they no likelier there (hypergeometric)."""
    outliers, everything = slices + usual, of + usual_of
    ways = sum(
        math.comb(of, count) * math.comb(usual_of, outliers - count) for count in range(slices, min(of, outliers) + 1)
    )
    return ways / math.comb(everything, outliers)
