"""Costs that come and go: slices of an arm that stand above its others, more and higher than its control's do.

A cost that hits one slice in ten moves the mean by a tenth of itself and widens its interval by more, so that it may
stay unresolved however large it is. That it is there shows in the slices that it hits. What the machine does hits all
arms alike: in a round, the arm, its control and the control's replicate are three of a kind. So which of the three is called
the arm is drawn anew in each round, again and again, and the question is how seldom as much would lie so far above as
lies there on the arm (a randomization test within blocks: Edgington & Onghena 2007, chapter 6; Phipson & Smyth 2010 for
its p-value). A cost that is there in all rounds alike does not count: each arm is measured from its own median.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costof.statistics.histogram import Numbers
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.outliers import CONSISTENT

#: Robust standard deviations, and the least on the log scale that a slice must be longer by to matter at all.
APART = 2.0
LEAST = math.log(1.1)
ERROR_RATE = 0.05
#: Draws at first, and then as many as a p-value at the error rate needs to be known to about a third of itself.
FIRST_DRAWS, DRAWS_BEYOND, MOST_DRAWS, AT_ONCE = 500, 10, 100_000, 5_000
#: A p-value of the first draws that is so many times the error rate will not come down to it.
HOPELESS = 4


@dataclass(frozen=True)
class Intermittent:
    """`slices` of `of` took `times` as long as the others (their median), against `usual` of `usual_of` elsewhere."""

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
    """Of logarithms by round, the same rounds of all three, higher for a cost. None where the arm's slices stand apart
    no more than those of control and replicate do.

    `comparisons`: how many arms and metrics are asked this in one run. `seed` of the draws.
    """
    logs = np.array([arm, control, replicate], dtype=float)
    if logs.shape[1] < FEWEST_ROUNDS:
        return None
    logs -= np.median(logs, axis=1, keepdims=True)
    # Of each of the three, what it has beyond the mean of the others.
    beyond = logs - (logs.sum(axis=0) - logs) / 2
    own = CONSISTENT * np.median(np.abs(beyond), axis=1, keepdims=True)
    # An arm whose slices all scatter more has no more of them that stand apart; one whose do less is held to the usual.
    spread = np.maximum(own, np.median(own))
    limit = np.maximum(APART * spread, LEAST)
    apart = beyond > limit
    excess = np.where(apart, beyond - limit, 0.0) / np.maximum(spread, LEAST / APART)
    level = error_rate / max(1, comparisons)
    if not apart[0].any() or _by_chance(excess, level, np.random.default_rng(seed)) > level:
        return None
    times = math.exp(float(np.median(beyond[0][apart[0]]) - np.median(beyond[0][~apart[0]])))
    return Intermittent(int(apart[0].sum()), logs.shape[1], times, int(apart[1:].sum()), 2 * logs.shape[1])


def _by_chance(excess: Numbers, level: float, chance: np.random.Generator) -> float:
    """Return the share of draws in which as much excess falls on the arm, this one counted in."""
    reached = drawn = 0
    most = min(MOST_DRAWS, max(FIRST_DRAWS, round(DRAWS_BEYOND / level)))
    while drawn < most:
        count = FIRST_DRAWS if not drawn else min(AT_ONCE, most - drawn)
        taken = chance.integers(0, len(excess), size=(count, excess.shape[1]), dtype=np.int8)
        sums = excess[taken, np.arange(excess.shape[1])].sum(axis=1)
        # Sums of the same numbers in another order differ in their last digits.
        reached += int((sums >= excess[0].sum() * (1 - 1e-9)).sum())
        drawn += count
        if (reached + 1) / (drawn + 1) > HOPELESS * max(level, 1 / drawn):
            break
    return (reached + 1) / (drawn + 1)
