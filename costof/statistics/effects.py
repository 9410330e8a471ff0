"""Effects: what an arm costs against the control, from the rounds' paired differences.

One number a round and arm goes in (the mean of a slice), because operations of one slice share whatever the machine
did meanwhile: only rounds are independent. The estimate is the 15 % trimmed mean of the rounds' paired differences
with the Tukey-McLaughlin interval (Tukey & McLaughlin 1963; Yuen 1974): a slice that a hiccup spoiled moves it little,
and the interval keeps its coverage with drift and heavy tails, which `tests/unit/test_effects.py` shows on simulated
runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from costof.statistics.estimate import Estimate, Verdict

Numbers = npt.NDArray[np.float64]

CONFIDENCE = 0.95
TRIMMED = 0.15
#: One round alone has no interval, and is in no figure.
ROUNDS_OF_AN_INTERVAL = 2
#: Below this the trimmed interval has too few degrees of freedom to say anything.
FEWEST_ROUNDS = 5
#: Values that differ by less than this share of their size differ by rounding alone, and have no spread to estimate.
ALIKE = 1e-12


def estimate(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Trimmed mean of one number a round, with its interval.

    Raises `ValueError` for fewer than two values or one that is not finite: a sample cannot hold NaN.
    """
    if len(values) < ROUNDS_OF_AN_INTERVAL:
        raise ValueError("an interval over rounds needs at least two")
    if not all(math.isfinite(value) for value in values):
        raise ValueError(f"not a number among {list(values)}")
    sample = np.asarray(values, dtype=float)
    if np.ptp(sample) <= ALIKE * np.abs(sample).max():
        return Estimate(value=values[0], low=values[0], high=values[0], rounds=len(values))
    middle, half = (float(each) for each in trimmed(sample, confidence))
    return Estimate(value=middle, low=middle - half, high=middle + half, rounds=len(values))


def trimmed(samples: Numbers, confidence: float = CONFIDENCE) -> tuple[Numbers, Numbers]:
    """Trimmed mean and half of its interval, along the last axis: of many runs at once where there are more axes.

    Tukey and McLaughlin's standard error: that of the sample with what is cut off drawn in to what is left, over the
    share that is left. Below `FEWEST_ROUNDS` nothing is cut off, and it is the plain t interval.
    """
    count = samples.shape[-1]
    cut = max(1, int(TRIMMED * count)) if count >= FEWEST_ROUNDS else 0
    left = np.sort(samples, axis=-1)[..., cut : count - cut]
    drawn_in = np.concatenate([left, *[left[..., :1], left[..., -1:]] * cut], axis=-1)
    error = drawn_in.std(axis=-1, ddof=1) / ((1 - 2 * cut / count) * math.sqrt(count))
    return left.mean(axis=-1), error * _t_quantile(count - 2 * cut - 1, confidence)


@cache
def _t_quantile(freedom: int, confidence: float) -> float:
    # Imported here: it takes a tenth of a second, and `costof list` or a mistyped option should not wait for it.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def difference(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Arm minus control, paired by round."""
    return estimate([b - a for a, b in zip(control, arm, strict=True)], confidence)


def ratio(control: Sequence[float], arm: Sequence[float], confidence: float = CONFIDENCE) -> Estimate | None:
    """Arm over control, paired by round, estimated on the log scale; None where the control has nothing of it (0)."""
    if min(control) <= 0 or min(arm) <= 0:
        return None
    return estimate([math.log(b / a) for a, b in zip(control, arm, strict=True)], confidence).through(math.exp)


@dataclass(frozen=True)
class Comparison:
    """How verdicts of one run are reached: `count` effects are judged, so each at `error_rate / count` (Bonferroni)."""

    count: int
    error_rate: float = 1 - CONFIDENCE

    @property
    def confidence(self) -> float:
        return 1 - self.error_rate / max(1, self.count)


@dataclass(frozen=True)
class Comparisons:
    """How all verdicts of a run are reached: what a study is about does not pay for all that is shown beside it.

    Half of the error rate is its headline effects', half that of the rest (weighted Bonferroni; Rosenthal, Rubin 1983).
    """

    headline: Comparison
    rest: Comparison

    @classmethod
    def of(cls, headline: int, rest: int) -> Comparisons:
        """For so many effects of each kind; one of which there are none leaves its half to the other."""
        error_rate = (1 - CONFIDENCE) / (2 if headline and rest else 1)
        return cls(Comparison(headline, error_rate), Comparison(rest, error_rate))

    def of_kind(self, *, headline: bool) -> Comparison:
        """The one by which an effect is judged."""
        return self.headline if headline else self.rest


def verdict(
    control: Sequence[float],
    arm: Sequence[float],
    margin: float,
    comparison: Comparison,
    noise: float = 0.0,
    better: Literal["lower", "higher"] = "lower",
) -> Verdict:
    """What may be said of an effect. Where `better` is higher, a loss is what costs.

    - costs, saves: the corrected interval of the ratio leaves out 1, and the effect is larger than the run's own noise
      (`noise`: what the twin differs from the control by, as a share of it). Where the control has nothing of the phase
      there is no ratio, and the difference is judged against 0.
    - no cost above the margin: the corrected interval of the ratio ends below 1 + `margin` (a one-sided equivalence
      test).
    - unresolved: neither.
    """
    if len(control) < FEWEST_ROUNDS:
        return Verdict.UNRESOLVED
    if better == "higher":
        control, arm = arm, control
    relative = ratio(control, arm, comparison.confidence)
    if relative is None:
        absolute = difference(control, arm, comparison.confidence)
        return _outside(absolute, 0.0) or Verdict.UNRESOLVED
    if abs(relative.value - 1) > noise and (found := _outside(relative, 1.0)):
        return found
    return Verdict.NO_COST if relative.high < 1 + margin else Verdict.UNRESOLVED


def _outside(interval: Estimate, nothing: float) -> Verdict | None:
    if interval.low > nothing:
        return Verdict.COSTS
    return Verdict.SAVES if interval.high < nothing else None


def half_width(estimate_of_ratio: Estimate) -> float:
    """Precision of a ratio: half its interval on the log scale (0.02 is about ±2 %)."""
    return math.log(estimate_of_ratio.high / estimate_of_ratio.low) / 2


def needed_rounds(control: Sequence[float], arm: Sequence[float], margin: float, comparison: Comparison) -> int | None:
    """Rounds an unresolved effect would need in all, if rounds go on as they were; None where nobody can say.

    It resolves when the corrected interval shrinks to the distance of its estimate from the nearer of what it would
    have to leave out (no difference at all, or the margin); intervals shrink with the square root of the rounds.
    """
    # So few rounds have no corrected interval worth the name: with many comparisons its ends need not even be floats.
    relative = ratio(control, arm, comparison.confidence) if len(control) >= FEWEST_ROUNDS else None
    if relative is None:
        return None
    middle = math.log(relative.value)
    width = half_width(relative)
    reach = max(abs(middle), math.log1p(margin) - middle)
    return math.ceil(len(control) * (width / reach) ** 2) if reach > 0 else None
