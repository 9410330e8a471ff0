"""Verdicts: what may be said of each effect of a run, and how often a run says what is not so.

Three questions are asked of an effect, each by its own test:

- is there one at all? Two-sided, Student's t. Yes is 'costs' or 'saves'.
- does it lie within the margin on both sides? Two one-sided tests (Schuirmann 1987). Yes is 'no difference above the
  margin', and stands before 'costs' and 'saves': an effect that is there and too small to matter is none to act on.
- does it lie below the margin? One-sided. Yes is 'no cost above the margin', where nothing more can be said.

The p-values of each question are adjusted for all effects of which it is asked: Holm's for what the study is about, so
that in at most 5 % of runs any of these claims is false; Benjamini and Hochberg's for the rest, of whose claims at most
5 % are false on average. An effect gives a false answer to one of the first two questions at most, since it cannot be
nothing and beyond the margin at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from costof.statistics.estimate import Verdict
from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, Mean, t_quantile


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that those at most 0.05 hold a false claim in at most 5 % of runs, whatever depends on what
    (Holm 1979, "A simple sequentially rejective multiple test procedure")."""
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given)
    stepped = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that of those at most 0.05 at most 5 % are false on average (Benjamini & Hochberg 1995,
    "Controlling the false discovery rate"), where tests depend on each other positively, as effects against one control
    do (Benjamini & Yekutieli 2001)."""
    given = np.asarray(p_values, dtype=float)
    order = np.argsort(given)[::-1]
    stepped = np.minimum.accumulate(given[order] * len(given) / np.arange(len(given), 0, -1))
    return _in_place(order, np.minimum(1.0, stepped))


def _in_place(order: np.ndarray, ordered: np.ndarray) -> list[float]:
    adjusted = np.empty(len(order))
    adjusted[order] = ordered
    return [float(each) for each in adjusted]


ERROR_RATE = 1 - CONFIDENCE


@dataclass(frozen=True)
class Contrast:
    """An effect to be judged. `change`: the mean log ratio of arm over control, or their difference where the control
    has nothing of it and no margin is known.

    `difference`: the mean difference, where it is told beside a ratio. While its interval holds 0, nothing costs or
    saves: the word would contradict the figure.
    `noise`: how much more the larger of the control and its own replicate may be, as a share; an effect within it is none.
    `noise_difference`: the same in the unit of `difference`; a difference within it is none either.
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
        """The change, with a loss positive."""
        return self.change.value if self.better == "lower" else -self.change.value

    @property
    def reach(self) -> float | None:
        """The margin on the log scale: as far above no change as below."""
        return None if self.margin is None else math.log1p(self.margin)

    def p_of_none(self) -> float:
        """The chance that there is no effect: both sides."""
        return min(1.0, 2 * self._beyond(self.distance_from_none))

    @property
    def distance_from_none(self) -> float:
        return _in_errors(abs(self.change.value), self.change.error)

    @property
    def distance_of_difference(self) -> float:
        """Distance of the difference from 0 in the direction of the change, in standard errors; else infinite."""
        if self.difference is None:
            return math.inf
        return _in_errors(math.copysign(1.0, self.change.value) * self.difference.value, self.difference.error)

    @property
    def contradicted(self) -> bool:
        """Whether the interval of the difference holds 0, or lies on its other side."""
        return self.distance_of_difference <= t_quantile(self.change.freedom, CONFIDENCE)

    def p_of_cost_above_margin(self) -> float:
        """The chance that it costs the margin or more."""
        return self._beyond(self.distance_from_margin(self.cost))

    def p_of_difference_above_margin(self) -> float:
        """The chance that it costs, or saves, the margin or more."""
        return self._beyond(self.distance_from_margin(abs(self.cost)))

    def distance_from_margin(self, cost: float) -> float:
        """Distance in standard errors; negative beyond the margin, and where there is none."""
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
    """What is known exactly lies infinitely far from everything but itself."""
    if error == 0:
        return math.inf if distance > 0 else -math.inf
    return distance / error


def verdicts(effects: Sequence[Contrast], error_rate: float = ERROR_RATE) -> list[Verdict]:
    """Judge each effect. Those of fewer than `FEWEST_ROUNDS` rounds are unresolved, and count as asked."""
    none = _adjusted(effects, Contrast.p_of_none)
    difference = _adjusted(effects, Contrast.p_of_difference_above_margin)
    cost = _adjusted(effects, Contrast.p_of_cost_above_margin)
    found = []
    for effect, *p_values in zip(effects, none, difference, cost, strict=True):
        is_something, is_within, is_below = (p <= error_rate for p in p_values)
        if effect.rounds < FEWEST_ROUNDS:
            found.append(Verdict.UNRESOLVED)
        elif is_within:
            found.append(Verdict.NO_DIFFERENCE)
        elif is_something and not effect.within_noise and not effect.contradicted:
            found.append(Verdict.COSTS if effect.cost > 0 else Verdict.SAVES)
        else:
            found.append(Verdict.NO_COST if is_below else Verdict.UNRESOLVED)
    return found


def _adjusted(effects: Sequence[Contrast], p_value: Callable[[Contrast], float]) -> list[float]:
    """Adjust each kind of effect among its own."""
    found = [1.0] * len(effects)
    for headline, adjust in ((True, holm), (False, benjamini_hochberg)):
        places = [place for place, effect in enumerate(effects) if effect.headline is headline]
        raw = [p_value(effects[place]) if effects[place].rounds >= FEWEST_ROUNDS else 1.0 for place in places]
        for place, p in zip(places, adjust(raw), strict=True):
            found[place] = p
    return found


def rounds_needed(effect: Contrast, count: int, most: int, error_rate: float = ERROR_RATE) -> int | None:
    """Rounds that an unresolved effect would need in all, if rounds go on as they were, judged as the hardest of
    `count`; None where it cannot be told, or more than `most` would be needed.

    It resolves when one of the tests does: the interval of that test's level has shrunk to what it has to leave out.
    More rounds make it narrower by their square root and by a smaller quantile.
    """
    if effect.rounds < FEWEST_ROUNDS or effect.change.error == 0:
        return None
    level = error_rate / max(1, count)
    # Distances by the confidence of a two-sided interval: a one-sided test has all of its level at one end.
    none = [(1 - level, effect.distance_from_none), (CONFIDENCE, effect.distance_of_difference)]
    margin = [(1 - 2 * level, effect.distance_from_margin(effect.cost))]
    lent = effect.change.freedom - (effect.rounds - 1)

    def resolves(rounds: int) -> bool:
        freedom, shrunk = rounds - 1 + lent, math.sqrt(effect.rounds / rounds)
        return any(
            all(t_quantile(freedom, confidence) * shrunk <= distance for confidence, distance in test)
            for test in ([margin] if effect.within_noise else [none, margin])
        )

    if not resolves(most):
        return None
    low, high = FEWEST_ROUNDS - 1, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if resolves(middle) else (middle, high)
    return high


def smallest_detectable(effect: Contrast, count: int, error_rate: float = ERROR_RATE) -> float:
    """The smallest cost that this run would have called one, judged as the hardest of `count`: a share of the control,
    and more than the control's replicate may differ from it by."""
    half = max(effect.change.half(1 - error_rate / max(1, count)), math.log1p(effect.noise))
    return math.expm1(half) if effect.better == "lower" else -math.expm1(-half)
