"""Carry-over: how much longer a slice takes after another arm's slice than after one of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from costof.statistics.histogram import Numbers
from costof.statistics.intervals import Mean

#: Sweeps over rounds and arms. Balanced rounds take one; a few missing slices take some more.
MOST_SWEEPS, SETTLED = 100, 1e-10


def carry_over(
    logs: Sequence[float], rounds: Sequence[int], arms: Sequence[int], after_other: Sequence[bool]
) -> Mean | None:
    """Return the mean difference of slices after another arm from those after their own, all else alike.

    Each slice has the logarithm of its number, its round and arm, and whether the slice before it was another arm's.
    Least squares with an effect for each round and each arm (the first-order carry-over model of crossover designs:
    Jones & Kenward 2014, "Design and analysis of cross-over trials", chapter 5). None where rounds and arms alone tell
    which slices come after another arm's.
    """
    _, round_of = np.unique(rounds, return_inverse=True)
    _, arm_of = np.unique(arms, return_inverse=True)
    y, x = (_within(np.asarray(each, dtype=float), round_of, arm_of) for each in (logs, after_other))
    spread = float(x @ x)
    freedom = len(y) - len(set(round_of)) - len(set(arm_of))
    if freedom < 1 or spread < SETTLED * len(y):
        return None
    value = float(x @ y) / spread
    left = y - value * x
    return Mean(value, math.sqrt(float(left @ left) / freedom / spread), freedom)


def _within(values: Numbers, round_of: np.ndarray, arm_of: np.ndarray) -> Numbers:
    """Return what is left of values once rounds and arms have explained what they can."""
    for _ in range(MOST_SWEEPS):
        before = values
        for group in (round_of, arm_of):
            values = values - (np.bincount(group, values) / np.bincount(group))[group]
        if np.abs(values - before).max(initial=0.0) < SETTLED:
            break
    return values
