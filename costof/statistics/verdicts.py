"""Verdicts on the effects of a run, with control of false claims.

The margin of a metric is the largest effect that is too small to matter. Three tests apply to each effect:

- Is there an effect? This is a two-sided t-test. If it is significant, the verdict is 'costs' or 'saves'.
- Is the effect smaller than the margin, whether it is a cost or a saving? These are two one-sided tests (Schuirmann
  1987). If they are significant, the verdict is 'no difference above the margin', even if the first test is significant
  too.
- Is the cost below the margin? This is a one-sided test. If it alone is significant, the verdict is 'no cost above the
  margin'.

The p-values of each test are adjusted for the number of effects. For headline (most important) effects, Holm's method
is used: at most 5 % of runs have any false verdict. For all other effects, Benjamini and Hochberg's method is used: on
average, at most 5 % of the verdicts are false.

For one effect, the first two tests cannot both be wrong. The first is wrong only if the true effect is zero, and the
second only if the true effect is beyond the margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costof.statistics.estimate import Verdict
from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, Mean, t_quantile


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, adjusted for the number of tests by Holm's method.

    If adjusted p-values up to 0.05 count as significant, at most 5 % of runs have any false positive. This holds even
    if the tests depend on each other (Holm 1979, "A simple sequentially rejective multiple test procedure").
    """
    unadjusted = np.asarray(p_values, dtype=float)
    order = np.argsort(unadjusted)
    stepped = np.maximum.accumulate(unadjusted[order] * np.arange(len(unadjusted), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, adjusted for the number of tests by Benjamini and Hochberg's method.

    If adjusted p-values up to 0.05 count as significant, on average at most 5 % of these are false positives (1995,
    "Controlling the false discovery rate"). This also holds for positively dependent tests, such as tests of several
    arms against the same control (Benjamini & Yekutieli 2001).
    """
    unadjusted = np.asarray(p_values, dtype=float)
    order = np.argsort(unadjusted)[::-1]
    stepped = np.minimum.accumulate(unadjusted[order] * len(unadjusted) / np.arange(len(unadjusted), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def _in_place(order: np.ndarray, ordered: np.ndarray) -> list[float]:
    adjusted = np.empty(len(order))
    adjusted[order] = ordered
    return [float(each) for each in adjusted]


ERROR_RATE = 1 - CONFIDENCE


@dataclass(frozen=True)
class Contrast:
    """The figures of an effect from which its verdict is computed.

    - `change`: the mean logarithm of arm / control. If the control is 0, it is the mean of arm minus control, and there
      is no margin.
    - `noise`: the relative difference between the control and its identical copy, such as 0.05 for 5 %. A smaller
      effect gets neither 'costs' nor 'saves'.
    - `difference`: the mean of arm minus control, if the report shows it beside a ratio. If its interval contains 0,
      the verdict is neither 'costs' nor 'saves', because these would contradict the shown difference.
    - `noise_difference`: the difference between the control and its identical copy, in the unit of `difference`.
    """

    change: Mean
    rounds: int
    margin: float | None
    noise: float = 0.0
    headline: bool = True
    better: Literal["lower", "higher"] = "lower"
    difference: Mean | None = None
    noise_difference: float = 0.0

    @property
    def cost(self) -> float:
        """The change, with its sign chosen so that a positive number means that the arm is worse."""
        return self.change.value if self.better == "lower" else -self.change.value

    @property
    def reach(self) -> float | None:
        """The margin as a logarithm, such as log(1.05) for 5 %; None without a margin."""
        return None if self.margin is None else math.log1p(self.margin)

    def p_of_none(self) -> float:
        """Return the two-sided p-value of the hypothesis that there is no effect."""
        return min(1.0, 2 * self._beyond(self.distance_from_none))

    @property
    def distance_from_none(self) -> float:
        return _in_errors(abs(self.change.value), self.change.error)

    @property
    def distance_of_difference(self) -> float:
        """Return the distance of `difference` from 0, in standard errors of `difference`.

        It is negative if one of `difference` and `change` is positive and the other negative. It is infinite if
        `difference` is None.
        """
        if self.difference is None:
            return math.inf
        return _in_errors(math.copysign(1.0, self.change.value) * self.difference.value, self.difference.error)

    @property
    def contradicted(self) -> bool:
        """Return whether the difference contradicts the change.

        It does if the interval of `difference` contains 0, or if one of `difference` and `change` is positive and the
        other negative.
        """
        return self.distance_of_difference <= t_quantile(self.change.freedom, CONFIDENCE)

    def p_of_cost_above_margin(self) -> float:
        """Return the p-value of the hypothesis that the cost is at least the margin."""
        return self._beyond(self.distance_from_margin(self.cost))

    def p_of_difference_above_margin(self) -> float:
        """Return the p-value of the hypothesis that the cost or the saving is at least the margin."""
        return self._beyond(self.distance_from_margin(abs(self.cost)))

    def distance_from_margin(self, cost: float) -> float:
        """Return how far a cost lies below the margin, in standard errors; minus infinity if there is no margin."""
        return -math.inf if self.reach is None else _in_errors(self.reach - cost, self.change.error)

    @property
    def within_noise(self) -> bool:
        if self.margin is None:
            return False
        small = self.difference is not None and abs(self.difference.value) <= self.noise_difference
        return small or abs(self.change.value) <= math.log1p(self.noise)

    def _beyond(self, distance: float) -> float:
        from scipy.special import stdtr

        return float(stdtr(self.change.freedom, -distance))


def _in_errors(distance: float, error: float) -> float:
    """Return the distance in standard errors. If the error is 0, return infinity with the sign of the distance."""
    if error == 0:
        return math.inf if distance > 0 else -math.inf
    return distance / error


def verdicts(effects: Sequence[Contrast], error_rate: float = ERROR_RATE) -> list[Verdict]:
    """Return the verdict on each effect, in the same order.

    An effect with fewer than `FEWEST_ROUNDS` rounds is unresolved. It still counts when p-values are adjusted for the
    number of effects.
    """
    none = _adjusted(effects, Contrast.p_of_none)
    difference = _adjusted(effects, Contrast.p_of_difference_above_margin)
    cost = _adjusted(effects, Contrast.p_of_cost_above_margin)
    judged = []
    for effect, *p_values in zip(effects, none, difference, cost, strict=True):
        is_something, is_within, is_below = (p <= error_rate for p in p_values)
        if effect.rounds < FEWEST_ROUNDS:
            judged.append(Verdict.UNRESOLVED)
        elif is_within:
            judged.append(Verdict.NO_DIFFERENCE)
        elif is_something and not effect.within_noise and not effect.contradicted:
            judged.append(Verdict.COSTS if effect.cost > 0 else Verdict.SAVES)
        else:
            judged.append(Verdict.NO_COST if is_below else Verdict.UNRESOLVED)
    return judged


def _adjusted(effects: Sequence[Contrast], p_value: Callable[[Contrast], float]) -> list[float]:
    """Return the p-values, adjusted for multiple comparisons.

    P-values of headline (most important) effects are adjusted together by Holm's method. All other p-values are
    adjusted together by Benjamini and Hochberg's method.
    """
    adjusted = [1.0] * len(effects)
    for headline, adjust in ((True, holm), (False, benjamini_hochberg)):
        places = [place for place, effect in enumerate(effects) if effect.headline is headline]
        raw = [p_value(effects[place]) if effects[place].rounds >= FEWEST_ROUNDS else 1.0 for place in places]
        for place, p in zip(places, adjust(raw), strict=True):
            adjusted[place] = p
    return adjusted


def rounds_needed(effect: Contrast, count: int, most: int, error_rate: float = ERROR_RATE) -> int | None:
    """Return how many rounds in total give the effect a verdict; None if unknown or above `most`.

    This assumes that further rounds are similar. The effect has a verdict as soon as its interval excludes 0 or the
    margin. With more rounds, the interval narrows. `count` is the number of effects in the run. The significance level
    is the error rate divided by `count`. This is the strictest level that the adjustment for many tests can require.
    """
    if effect.rounds < FEWEST_ROUNDS or effect.change.error == 0:
        return None
    level = error_rate / max(1, count)
    # Each test is a list of pairs (confidence of an interval, distance in standard errors). The test is significant if,
    # for each pair, half the width of the interval is at most the distance. For a one-sided test, the confidence is
    # 1 - 2 * level.
    no_effect = [(1 - level, effect.distance_from_none), (CONFIDENCE, effect.distance_of_difference)]
    margin = [(1 - 2 * level, effect.distance_from_margin(effect.cost))]
    shared_freedom = effect.change.freedom - (effect.rounds - 1)

    def resolves(rounds: int) -> bool:
        freedom, shrunk = rounds - 1 + shared_freedom, math.sqrt(effect.rounds / rounds)
        return any(
            all(t_quantile(freedom, confidence) * shrunk <= distance for confidence, distance in test)
            for test in ([margin] if effect.within_noise else [no_effect, margin])
        )

    if not resolves(most):
        return None
    low, high = FEWEST_ROUNDS - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resolves(middle) else (middle, high)
    return high


def extrapolated(effect: Contrast, rounds: int) -> Contrast:
    """Return the effect as it would be with this number of rounds if further rounds are similar."""
    shrunk = math.sqrt(effect.rounds / rounds)
    freedom = effect.change.freedom + rounds - effect.rounds
    return replace(
        effect,
        change=Mean(effect.change.value, effect.change.error * shrunk, freedom),
        rounds=rounds,
        noise=math.expm1(math.log1p(effect.noise) * shrunk),
    )


def with_errors(effect: Contrast, times: float) -> Contrast:
    difference = effect.difference and effect.difference.widened(times)
    return replace(effect, change=effect.change.widened(times), difference=difference)


def smallest_detectable(
    effect: Contrast, count: int, error_rate: float = ERROR_RATE, detected_in: float = 0.5
) -> float:
    """Return the smallest relative cost (0.05 is 5 %) that the run could have detected.

    `detected_in` is the share of similar runs that would detect it. `count` is the number of effects in the run, and
    the significance level is the error rate divided by `count`. A detectable cost also exceeds the difference between
    the control and its identical copy.
    """
    least = max(effect.change.half(1 - error_rate / max(1, count)), math.log1p(effect.noise))
    # A two-sided interval of the confidence 2 * p - 1 ends at the quantile p.
    half = least + effect.change.half(2 * detected_in - 1)
    return math.expm1(half) if effect.better == "lower" else -math.expm1(-half)


def is_detected_in(
    share: float, cost: float, difference: float, effect: Contrast, count: int, error_rate: float
) -> bool:
    """Return whether at least `share` of similar runs would detect a cost, with the verdict 'costs'.

    The cost is given twice: as a share of the control's figure (`cost`), and in the unit of the metric (`difference`).
    Both must be large enough. The noise of similar runs is that of `effect`. `count` and the significance level are as
    in `smallest_detectable`.
    """
    if cost < smallest_detectable(effect, count, error_rate, share):
        return False
    if effect.difference is None:
        return True
    least = max(effect.difference.half(), effect.noise_difference)
    return difference >= least + effect.difference.half(2 * share - 1)
