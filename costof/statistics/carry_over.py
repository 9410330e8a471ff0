"""Carry-over: how much higher a slice's figure is after a slice of another arm than after a slice of the same arm.

A slice is a measured window of one arm (a compared configuration).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from costof.statistics.histogram import Numbers
from costof.statistics.intervals import Mean

#: The effects of rounds and arms are removed from the values by iteration. Each sweep subtracts the mean of each round,
#: and then the mean of each arm. The iteration ends after MOST_SWEEPS sweeps, or when a sweep changes no value by
#: TOLERANCE or more. Unless slices are missing, one sweep is enough.
MOST_SWEEPS, TOLERANCE = 100, 1e-10


def carry_over(
    logs: Sequence[float], rounds: Sequence[int], arms: Sequence[int], after_other: Sequence[bool]
) -> Mean | None:
    """Return how much higher a figure's logarithm is after another arm's slice than after a slice of the same arm.

    Each sequence has one item for each slice (measured window): the logarithm of its figure, its round, its arm, and
    whether the slice measured just before it was of another arm. The fit is by least squares, with an effect for each
    round and each arm (the first-order carry-over model: Jones & Kenward 2014, "Design and analysis of cross-over
    trials", chapter 5).

    Return None if the carry-over cannot be separated from the effects of rounds and arms, for example because every
    slice follows a slice of another arm.
    """
    _, round_index = np.unique(rounds, return_inverse=True)
    _, arm_index = np.unique(arms, return_inverse=True)
    y, x = (_within(np.asarray(each, dtype=float), round_index, arm_index) for each in (logs, after_other))
    spread = float(x @ x)
    freedom = len(y) - len(set(round_index)) - len(set(arm_index))
    if freedom < 1 or spread < TOLERANCE * len(y):
        return None
    value = float(x @ y) / spread
    residual = y - value * x
    return Mean(value, math.sqrt(float(residual @ residual) / freedom / spread), freedom)


def _within(values: Numbers, round_index: np.ndarray, arm_index: np.ndarray) -> Numbers:
    """Return the values minus the fitted effects of their rounds and arms."""
    for _ in range(MOST_SWEEPS):
        before = values
        for group in (round_index, arm_index):
            values = values - (np.bincount(group, values) / np.bincount(group))[group]
        if np.abs(values - before).max(initial=0.0) < TOLERANCE:
            break
    return values
