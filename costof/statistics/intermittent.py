"""Intermittent costs: an arm has more and higher outlying slices than its control.

A cost in one slice of ten moves the mean by a tenth of the cost, but widens the mean's interval by more. So the effect
may stay unresolved however large the cost is. The affected slices still stand out from the arm's other slices.

Disturbances of the machine affect the arm, its control and the control's identical copy (replicate) alike. The test is
therefore a randomization test within blocks (Edgington & Onghena 2007, chapter 6). In each round, it draws at random
which of the three slices counts as the arm's. Over all rounds, it adds up how far the drawn slices exceed the limit for
outliers. It repeats this many times, and compares these sums with the sum of the arm's real slices. The p-value is that
of Phipson & Smyth 2010.

A cost that is equal in all rounds does not count, since each arm is compared with its own median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.histogram import Numbers
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.outliers import MAD_TO_DEVIATION

#: Each slice is compared with its arm's median. It is an outlier if its distance above the median exceeds the mean
#: distance of the other two slices of the round by this many robust standard deviations, and by at least `LEAST` (a
#: difference of logarithms).
OUTLYING = 2.0
LEAST = math.log(1.1)
ERROR_RATE = 0.05
#: Numbers of random draws: first FIRST_DRAWS, then batches of BATCH, at most MOST_DRAWS in total. If the p-value equals
#: the error rate, about DRAWS_BEYOND draws exceed the arm. These suffice to know the p-value to a third of its size.
FIRST_DRAWS, DRAWS_BEYOND, MOST_DRAWS, BATCH = 500, 10, 100_000, 5_000
#: Drawing stops early if the p-value is more than this many times the error rate, because more draws would not make it
#: significant.
HOPELESS = 4


@dataclass(frozen=True)
class Intermittent:
    """The outliers among the slices of an arm.

    - `slices` of the arm's `of` slices are outliers.
    - `times` is the median of the outliers divided by the median of the arm's other slices.
    - For comparison, `usual` of the `usual_of` slices of control and replicate are outliers.
    """

    slices: int
    of: int
    times: float
    usual: int
    usual_of: int


def intermittent(
    arm: Sequence[float],
    control: Sequence[float],
    replicate: Sequence[float],
    comparisons: int,
    seed: int,
    error_rate: float = ERROR_RATE,
) -> Intermittent | None:
    """Return the arm's outlying slices; None if they could be as many and as high by chance.

    Each sequence has one number for each round: the logarithm of the slice's figure, with the sign changed if a higher
    figure is better, so that a higher logarithm means a cost. `comparisons` is the number of such tests in the run, and
    `seed` is the seed of the random draws.
    """
    logs = np.array([arm, control, replicate], dtype=float)
    if logs.shape[1] < FEWEST_ROUNDS:
        return None
    logs -= np.median(logs, axis=1, keepdims=True)
    # For arm, control and replicate: how far each exceeds the mean of the other two in the same round.
    beyond = logs - (logs.sum(axis=0) - logs) / 2
    spreads = MAD_TO_DEVIATION * np.median(np.abs(beyond), axis=1, keepdims=True)
    # The limit for outliers grows with an arm's scatter, but is at least the limit of the arm with the median scatter.
    spread = np.maximum(spreads, np.median(spreads))
    limit = np.maximum(OUTLYING * spread, LEAST)
    outlying = beyond > limit
    excess = np.where(outlying, beyond - limit, 0.0) / np.maximum(spread, LEAST / OUTLYING)
    level = error_rate / max(1, comparisons)
    if not outlying[0].any() or _by_chance(excess, level, np.random.default_rng(seed)) > level:
        return None
    times = math.exp(float(np.median(beyond[0][outlying[0]]) - np.median(beyond[0][~outlying[0]])))
    return Intermittent(int(outlying[0].sum()), logs.shape[1], times, int(outlying[1:].sum()), 2 * logs.shape[1])


def _by_chance(excess: Numbers, level: float, chance: np.random.Generator) -> float:
    """Return the p-value: the share of random draws whose excess is at least the arm's.

    The measured arm counts as one of the draws.
    """
    reached = drawn = 0
    most = min(MOST_DRAWS, max(FIRST_DRAWS, round(DRAWS_BEYOND / level)))
    while drawn < most:
        count = FIRST_DRAWS if not drawn else min(BATCH, most - drawn)
        roles = chance.integers(0, len(excess), size=(count, excess.shape[1]), dtype=np.int8)
        sums = excess[roles, np.arange(excess.shape[1])].sum(axis=1)
        # The tolerance allows for rounding: sums of equal numbers depend on their order.
        reached += int((sums >= excess[0].sum() * (1 - 1e-9)).sum())
        drawn += count
        if (reached + 1) / (drawn + 1) > HOPELESS * max(level, 1 / drawn):
            break
    return (reached + 1) / (drawn + 1)
