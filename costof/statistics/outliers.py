"""Numbers that stand far above the others, by a measure of spread that they do not move themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: Robust standard deviations from the median: of normal numbers, one of a million lies beyond.
FAR = 5.0
#: Of a normal distribution's median absolute deviation.
CONSISTENT = 1.4826


def far_above(numbers: Sequence[float], least: float) -> npt.NDArray[np.bool_]:
    """Return which numbers lie far above the median, and by at least `least`."""
    sample = np.asarray(numbers, dtype=float)
    beyond = sample - np.median(sample)
    spread = CONSISTENT * float(np.median(np.abs(beyond)))
    above: npt.NDArray[np.bool_] = beyond > max(FAR * spread, least)
    return above
