"""Shares of failed operations and their differences, with intervals that are valid down to 0 % and up to 100 %."""

from __future__ import annotations

import math
from statistics import NormalDist

CONFIDENCE = 0.95


def wilson(failed: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the score interval of a share (Wilson 1927); 0 to 1 if there are no operations."""
    if total == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, weight = failed / total, z * z / total
    middle = (share + weight / 2) / (1 + weight)
    half = z * math.sqrt(share * (1 - share) / total + weight / (4 * total)) / (1 + weight)
    return (0.0 if failed == 0 else middle - half), (1.0 if failed == total else middle + half)


def newcombe(
    control: tuple[int, int], arm: tuple[int, int], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return the arm's share minus the control's, and the low and high end of its interval.

    Each share is given as (failed, total). If there are no operations, the share counts as 0. The interval is that of
    method 10 of Newcombe 1998, "Interval estimation for the difference between independent proportions", from the score
    intervals of both shares.
    """
    shares = [failed / total if total else 0.0 for failed, total in (control, arm)]
    (control_low, control_high), (arm_low, arm_high) = (wilson(*each, confidence) for each in (control, arm))
    difference = shares[1] - shares[0]
    low = difference - math.hypot(shares[1] - arm_low, control_high - shares[0])
    high = difference + math.hypot(arm_high - shares[1], shares[0] - control_low)
    return difference, low, high
