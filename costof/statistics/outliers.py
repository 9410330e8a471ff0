"""Outliers above the median, by a robust measure of spread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: A number is far above the median if it lies this many robust standard deviations above it. Of normally distributed
#: numbers, fewer than one in a million is far above.
FAR = 5.0
#: Ratio of the standard deviation to the median absolute deviation in a normal distribution.
MAD_TO_DEVIATION = 1.4826


def far_above(numbers: Sequence[float], least: float) -> npt.NDArray[np.bool_]:
    """Return, for each number, whether it exceeds the median by more than `FAR` robust deviations and by `least`."""
    sample = np.asarray(numbers, dtype=float)
    beyond = sample - np.median(sample)
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(beyond)))
    above: npt.NDArray[np.bool_] = beyond > max(FAR * spread, least)
    return above
