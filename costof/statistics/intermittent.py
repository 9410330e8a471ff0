"""Intermittent costs: an arm has more and higher outlying slices than its control.

If a cost occurs in only one of ten slices (measured windows), it adds a tenth of the cost to the mean, but even more to
the width of the mean's interval. The effect may then have no verdict, however large the cost is. But the affected
slices are outliers among the arm's slices.

Disturbances of the machine also cause outliers. They are as likely in the slices of the arm as in those of the control
and of the control's identical copy (replicate). A randomization test within blocks therefore decides whether the arm
has more outliers than chance explains (Edgington & Onghena 2007, chapter 6):

1. Add up by how much the arm's outliers exceed the limit for outliers, in units of the arm's scatter.
2. In each round, draw one of the three slices at random. Add up in the same way by how much the drawn outliers exceed
   the limit. Repeat this.
3. The p-value is the share of random sums that are at least as large as the arm's sum (Phipson & Smyth 2010).

A cost that is equal in all rounds does not count, since each slice is compared with its own arm's median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.histogram import Numbers
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.outliers import MAD_TO_DEVIATION

#: The deviation of a slice (measured window) is the logarithm of the ratio of its figure to its arm's median. A slice
#: is an outlier if its deviation exceeds the mean deviation of the round's other two slices by more than `LEAST`, and
#: by more than `OUTLYING` robust standard deviations.
OUTLYING = 2.0
LEAST = math.log(1.1)
ERROR_RATE = 0.05
#: Numbers of random draws: first `FIRST_DRAWS`, then batches of `BATCH`. The planned total is `DRAWS_BEYOND` divided by
#: the error rate, but at least `FIRST_DRAWS` and at most `MOST_DRAWS`. If the p-value equals the error rate, about
#: `DRAWS_BEYOND` random sums then exceed the arm's sum. The p-value thus has a relative error of about a third.
FIRST_DRAWS, DRAWS_BEYOND, MOST_DRAWS, BATCH = 500, 10, 100_000, 5_000
#: Drawing stops early if the p-value is more than this many times the error rate, because more draws would not make it
#: significant.
HOPELESS = 4


@dataclass(frozen=True)
class Intermittent:
    """The outliers among the slices (measured windows) of an arm.

    - `slices`, `of`: the number of outliers among the arm's slices, and the number of all its slices.
    - `times`: the median of the outliers divided by the median of the arm's other slices.
    - `usual`, `usual_of`: for comparison, both numbers for the slices of the control and of its identical copy
      together.
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
    """Return the outliers among the arm's slices (measured windows); None if they are not significant.

    Each sequence has one number for each round: the logarithm of the slice's figure. If a higher figure is better, as
    for a rate, the logarithm is negated, so that a higher number means a cost. `comparisons` is the number of such
    tests in the run, and `seed` is the seed of the random draws.
    """
    logs = np.array([arm, control, replicate], dtype=float)
    if logs.shape[1] < FEWEST_ROUNDS:
        return None
    logs -= np.median(logs, axis=1, keepdims=True)
    # For the arm, the control and its copy: by how much each exceeds the mean of the other two in the same round.
    beyond = logs - (logs.sum(axis=0) - logs) / 2
    spreads = MAD_TO_DEVIATION * np.median(np.abs(beyond), axis=1, keepdims=True)
    # The limit for outliers grows with an arm's scatter. Arms with little scatter get the limit of the arm with the
    # median scatter.
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
    """Return the p-value: the share of random sums, the arm's own included, that are at least as large as the arm's."""
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
