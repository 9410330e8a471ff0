"""Verdicts on the effects of a run, with control of false claims.

The margin of a metric is the largest effect that is too small to matter. Three tests apply to each effect:

- Is there an effect? A two-sided t-test. If so, the verdict is 'costs' or 'saves'.
- Is the effect within the margin on both sides? Two one-sided tests (Schuirmann 1987). If so, the verdict is 'no
  difference above the margin'. It takes precedence over 'costs' and 'saves', since such an effect is too small to
  matter.
- Is the cost below the margin? A one-sided test. If so, and neither of the tests above is significant, the verdict is
  'no cost above the margin'.

The p-values of each test are adjusted for the number of effects. For headline effects, Holm's method keeps the chance
of any false claim in a run to 5 %. For all other effects, Benjamini and Hochberg's method keeps the share of false
claims among the claims to 5 % on average.

At most one of the first two tests can make a false claim on an effect. The first test's claim is false only if the true
effect is zero, and the second test's claim only if the true effect is beyond the margin.
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
    """Return the p-values, adjusted so that at most 5 % of runs have any false claim among values up to 0.05.

    The method is valid under any dependence of the tests (Holm 1979, "A simple sequentially rejective multiple test
    procedure").
    """
    unadjusted = np.asarray(p_values, dtype=float)
    order = np.argsort(unadjusted)
    stepped = np.maximum.accumulate(unadjusted[order] * np.arange(len(unadjusted), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the p-values, adjusted so that on average at most 5 % of the values up to 0.05 are false claims.

    The method is Benjamini & Hochberg's (1995, "Controlling the false discovery rate"). It is valid for positively
    dependent tests, such as effects against one control (Benjamini & Yekutieli 2001).
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
    """An effect to be judged.

    - `change`: the mean log ratio of arm over control. If the control is 0, it is their mean difference, and there is
      no margin.
    - `noise`: the relative difference between the control and its identical copy. A smaller effect is no cost.
    - `difference`: the mean difference, if the effect is reported with a difference and a ratio. If the difference's
      interval contains 0, the verdict is neither 'costs' nor 'saves', because these would contradict the reported
      difference.
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
        """The change with such a sign that a positive number means that the arm is worse."""
        return self.change.value if self.better == "lower" else -self.change.value

    @property
    def reach(self) -> float | None:
        """The margin on the log scale, which limits costs and savings alike; None without a margin."""
        return None if self.margin is None else math.log1p(self.margin)

    def p_of_none(self) -> float:
        """Return the two-sided p-value of the hypothesis that there is no effect."""
        return min(1.0, 2 * self._beyond(self.distance_from_none))

    @property
    def distance_from_none(self) -> float:
        return _in_errors(abs(self.change.value), self.change.error)

    @property
    def distance_of_difference(self) -> float:
        """The distance of `difference` from 0 in standard errors, negative if the change has the opposite sign.

        It is infinite if `difference` is None.
        """
        if self.difference is None:
            return math.inf
        return _in_errors(math.copysign(1.0, self.change.value) * self.difference.value, self.difference.error)

    @property
    def contradicted(self) -> bool:
        """True if the interval of `difference` contains 0, or if `difference` has the sign opposite to the change."""
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

    P-values of headline effects are adjusted together by Holm's method. All other p-values are adjusted together by
    Benjamini and Hochberg's method.
    """
    adjusted = [1.0] * len(effects)
    for headline, adjust in ((True, holm), (False, benjamini_hochberg)):
        places = [place for place, effect in enumerate(effects) if effect.headline is headline]
        raw = [p_value(effects[place]) if effects[place].rounds >= FEWEST_ROUNDS else 1.0 for place in places]
        for place, p in zip(places, adjust(raw), strict=True):
            adjusted[place] = p
    return adjusted


def rounds_needed(effect: Contrast, count: int, most: int, error_rate: float = ERROR_RATE) -> int | None:
    """Return how many rounds in total resolve an effect if further rounds are similar; None if unknown or above `most`.

    The significance level is the strictest of `count` effects: the error rate divided by `count`. The effect is
    resolved when one of the tests is significant, that is, when the effect's interval excludes 0 or the margin. The
    interval narrows with the square root of the number of rounds, and with the quantile of Student's t.
    """
    if effect.rounds < FEWEST_ROUNDS or effect.change.error == 0:
        return None
    level = error_rate / max(1, count)
    # Each test is a list of pairs (confidence of a two-sided interval, distance in standard errors). It is significant
    # if, for each pair, half the width of the interval is at most the distance. A one-sided test at a level uses the
    # interval of confidence 1 - 2 * level.
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
    """Return the effect with its standard errors multiplied by `times`."""
    difference = effect.difference and effect.difference.widened(times)
    return replace(effect, change=effect.change.widened(times), difference=difference)


def smallest_detectable(
    effect: Contrast, count: int, error_rate: float = ERROR_RATE, detected_in: float = 0.5
) -> float:
    """Return the smallest relative cost that the run could have detected.

    The significance level is the strictest of `count` effects: the error rate divided by `count`. A cost below the
    difference between the control and its identical copy cannot be detected. `detected_in` is the share of runs like
    this one that detect a cost of this size.
    """
    least = max(effect.change.half(1 - error_rate / max(1, count)), math.log1p(effect.noise))
    # The upper end of a two-sided interval of this confidence is the quantile `detected_in`.
    half = least + effect.change.half(2 * detected_in - 1)
    return math.expm1(half) if effect.better == "lower" else -math.expm1(-half)


def is_detected_in(
    share: float, cost: float, difference: float, effect: Contrast, count: int, error_rate: float
) -> bool:
    """Return whether at least `share` of the runs with the noise of `effect` would judge a cost of this size 'costs'.

    The size is given twice: as a share of the control's figure (`cost`), and in the unit of the metric (`difference`).
    Both must exceed their noise. The significance level is that of `smallest_detectable`.
    """
    if cost < smallest_detectable(effect, count, error_rate, share):
        return False
    if effect.difference is None:
        return True
    least = max(effect.difference.half(), effect.noise_difference)
    return difference >= least + effect.difference.half(2 * share - 1)
