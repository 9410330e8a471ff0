"""Effects: what an arm costs against the control, from the rounds' paired differences.

One number a round and arm goes in (the mean of a slice), because operations of one slice share whatever the machine
did meanwhile: only rounds are independent. The estimate is the trimmed mean of the rounds' paired differences, a tenth of them (and
at least one) cut off each end, with the Tukey-McLaughlin interval (Tukey & McLaughlin 1963; Yuen 1974): a slice that a
hiccup spoiled moves it little. A tenth keeps the coverage closest to 95 % from six rounds up, with normal and with heavy
tails (a fifth covers 92 to 94 % below twelve rounds); `tests/unit/test_effects.py` shows it on simulated runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from scipy.stats import mstats

from costof.result import Estimate, Verdict

CONFIDENCE = 0.95
TRIMMED = 0.1
#: Below this the trimmed interval has too few degrees of freedom to say anything.
FEWEST_ROUNDS = 5


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Trimmed mean of one number a round, with its interval.

    Raises `ValueError` for fewer than two values or one that is not finite: a sample cannot hold NaN.
    """
    if len(values) < 2:
        raise ValueError("an interval over rounds needs at least two")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"not a number among {list(values)}")
    sample = np.asarray(values, dtype=float)
    # The share that is really cut: the interval's width is wrong when it is computed from another.
    cut = max(1, int(TRIMMED * len(sample))) / len(sample) if len(sample) > 2 else 0.0
    limits = (cut, cut)
    middle = float(mstats.trimmed_mean(sample, limits=limits))
    if np.ptp(sample) == 0:
        return Estimate(value=middle, low=middle, high=middle, rounds=len(values))
    low, high = mstats.trimmed_mean_ci(sample, limits=limits, alpha=1 - confidence)
    return Estimate(value=middle, low=float(low), high=float(high), rounds=len(values))


def difference(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Arm minus control, paired by round."""
    return estimate([b - a for a, b in zip(control, arm, strict=True)], confidence)


def ratio(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Arm over control, paired by round, estimated on the log scale; None where the control has nothing of it (0)."""
    if min(control) <= 0 or min(arm) <= 0:
        return None
    logs = estimate([math.log(b / a) for a, b in zip(control, arm, strict=True)], confidence)
    return Estimate(
        value=math.exp(logs.value), low=math.exp(logs.low), high=math.exp(logs.high), rounds=logs.rounds
    )


@dataclass(frozen=True)
class Comparison:
    """How verdicts of one run are reached: `count` effects are judged, so each at `0.05 / count` (Bonferroni)."""

    count: int

    @property
    def confidence(self) -> float:
        return 1 - (1 - CONFIDENCE) / max(1, self.count)


def verdict(
    control: Sequence[float],
    arm: Sequence[float],
    margin: float,
    comparison: Comparison,
    noise: float = 0.0,
) -> Verdict:
    """What may be said of an effect.

    - costs, saves: the corrected interval of the difference leaves out zero, and the difference is larger than the run's own
      noise (`noise`, in the metric's unit: what the twin differs from the control by).
    - no cost above the margin: the corrected interval of the ratio ends below 1 + `margin` (a one-sided equivalence test).
    - unresolved: neither.
    """
    if len(control) < FEWEST_ROUNDS:
        return Verdict.UNRESOLVED
    found = difference(control, arm, comparison.confidence)
    if abs(found.value) > noise:
        if found.low > 0:
            return Verdict.COSTS
        if found.high < 0:
            return Verdict.SAVES
    relative = ratio(control, arm, comparison.confidence)
    if relative is not None and relative.high < 1 + margin:
        return Verdict.NO_COST
    return Verdict.UNRESOLVED


def half_width(estimate_of_ratio: Estimate) -> float:
    """Precision of a ratio: half its interval on the log scale (0.02 is about ±2 %)."""
    return math.log(estimate_of_ratio.high / estimate_of_ratio.low) / 2


def needed_rounds(
    control: Sequence[float], arm: Sequence[float], margin: float, comparison: Comparison
) -> int | None:
    """Rounds an unresolved effect would need in all, if rounds go on as they were; None where it cannot be told.

    It resolves when the corrected interval shrinks to the distance of its estimate from the nearer of what it would
    have to leave out (no difference at all, or the margin); intervals shrink with the square root of the rounds.
    """
    relative = ratio(control, arm, comparison.confidence)
    if relative is None or len(control) < FEWEST_ROUNDS:
        return None
    middle = math.log(relative.value)
    width = half_width(relative)
    reach = max(abs(middle), math.log1p(margin) - middle)
    return math.ceil(len(control) * (width / reach) ** 2) if reach > 0 else None


def typical(values: Sequence[float]) -> float:
    """The middle of the rounds, for figures that carry no interval."""
    return float(median(values))
