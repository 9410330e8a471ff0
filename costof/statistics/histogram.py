"""Latency histograms with the bounds that every instrument keeps: 1 ns to ten minutes, three significant digits.

One set of bounds, the engine's (`record/recorder.rs`): histograms of the same bounds add up as arrays do, those of
others value by value, and one that is shorter cannot take the other's longest.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

Numbers = npt.NDArray[np.float64]

LONGEST_NS = 600 * 10**9
SIGNIFICANT_DIGITS = 3


def new_histogram() -> HdrHistogram:
    """An empty one, nanoseconds."""
    return HdrHistogram(1, LONGEST_NS, SIGNIFICANT_DIGITS)


def recorded(nanoseconds: Iterable[int]) -> HdrHistogram:
    """One of these values; longer ones count as the longest."""
    histogram = new_histogram()
    for value in nanoseconds:
        histogram.record_value(min(value, LONGEST_NS))
    return histogram


def merged(encoded: Iterable[str]) -> HdrHistogram:
    """The sum of histograms as slice answers carry them."""
    histogram = new_histogram()
    for each in encoded:
        histogram.decode_and_add(each)
    return histogram


def counted(rounds: Iterable[Iterable[str]]) -> tuple[Numbers, Numbers]:
    """Rounds of histograms as slice answers carry them: the buckets' values, nanoseconds, rising, and
    `counts[round, bucket]` of those that hold anything in any round."""
    rows = []
    for encoded in rounds:
        counts = np.ctypeslib.as_array(merged(encoded).counts)
        rows.append({int(bucket): int(counts[bucket]) for bucket in np.flatnonzero(counts)})
    buckets = sorted({bucket for row in rows for bucket in row})
    empty = new_histogram()
    values = np.array([empty.get_value_from_index(bucket) for bucket in buckets], dtype=float)
    return values, np.array([[row.get(bucket, 0) for bucket in buckets] for row in rows], dtype=float)
