"""Runs as they could have been too: their units (rounds or starts) drawn again with replacement (Efron 1979)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


def resamples(units: Sequence[int], seed: int, times: int) -> Numbers:
    """`[1 + times, round]`: how often each round is drawn, of which `units` says the unit: those of one unit are drawn
    together. The first is the run as it was measured; a seed and a number of units have the same ones always."""
    _, places = np.unique(units, return_inverse=True)
    return _drawn(int(places.max()) + 1, seed, times)[:, places]


@lru_cache(maxsize=2)
def _drawn(count: int, seed: int, times: int) -> Numbers:
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), size=times)
    return np.vstack([np.ones(count), drawn])
