"""Shares of operations that fail, and how two of them differ, with intervals that hold at none and at all."""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.95


def wilson(failed: int, of: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the score interval of a share (Wilson 1927). Of nothing, everything is possible."""
    if of == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = failed / of, z * z / of
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / of + weight / (4 * of)) / (1 + weight)
    return (0.0 if failed == 0 else middle - half), (1.0 if failed == of else middle + half)


def newcombe(
    control: tuple[int, int], arm: tuple[int, int], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """The arm's share minus the control's, each (failed, of), and the ends of its interval.

    Method 10 of Newcombe 1998, "Interval estimation for the difference between independent proportions": the squares
    of both score intervals' arms add up. Of nothing at all, a share is taken for 0.
    """
    shares = [failed / of if of else 0.0 for failed, of in (control, arm)]
    (control_low, control_high), (arm_low, arm_high) = (wilson(*each, confidence) for each in (control, arm))
    difference = shares[1] - shares[0]
    low = difference - math.hypot(shares[1] - arm_low, control_high - shares[0])
    high = difference + math.hypot(arm_high - shares[1], shares[0] - control_low)
    return difference, low, high
