"""Latency histograms, which in all measuring processes range from 1 ns to ten minutes with three significant digits.

All histograms have the same buckets as those of the engine, costof's own client (`record/recorder.rs`), so that their
counts can be added. A run has tens of thousands of histograms. Each has tens of thousands of buckets, most of them
empty. For speed, all histograms are decoded together, and empty buckets are not stored.

The format is HdrHistogram's V2 encoding. A histogram is a sequence of numbers in ZigZag LEB128: seven bits per byte,
least significant first. A positive number is the count of the next bucket. A negative number such as -5 skips 5 empty
buckets. The numbers and the header before them are compressed. Before the compressed bytes is a second header. Each
header begins with the encoding's magic number (HdrHistogram's cookie) and the length of the bytes that follow.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

LONGEST_NS = 600 * 10**9
SIGNIFICANT_DIGITS = 3
#: Number of buckets in each doubling of the values: enough for three significant digits (HdrHistogram's half
#: sub-buckets).
HALF = 1024
#: Header of the compressed bytes: cookie, length.
WHOLE_HEADER, WHOLE_COOKIE = struct.Struct(">II"), 0x1C849314
#: Header of the numbers: cookie, length, offset of the first bucket, digits, least and greatest value, scale of values.
WORDS_HEADER, WORDS_COOKIE = struct.Struct(">IIIIQQd"), 0x1C849313


@dataclass(frozen=True)
class Counts:
    """The non-empty buckets of a histogram in ascending order, and the number of values in each."""

    buckets: Integers
    counts: Integers

    @staticmethod
    def from_values(nanoseconds: Sequence[int], times: Sequence[int] | None = None) -> Counts:
        """Return the counts of values. Value number i occurs `times[i]` times, or once without `times`.

        Values above the histogram's range count as the longest time in the range.
        """
        values = np.minimum(np.asarray(nanoseconds, np.int64), LONGEST_NS)
        doublings = np.maximum(np.frexp(values)[1] - HALF.bit_length(), 0)
        return _summed((values >> doublings) + doublings * HALF, np.ones(len(values)) if times is None else times)

    def __add__(self, other: Counts) -> Counts:
        buckets = np.concatenate([self.buckets, other.buckets])
        return _summed(buckets, np.concatenate([self.counts, other.counts]))

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def at_ranks(self, ranks: Sequence[int]) -> list[float]:
        """Return the values at these ranks, counted from 0, in ns: the upper bounds of their buckets."""
        places = np.searchsorted(np.cumsum(self.counts), ranks, side="right")
        return [float(value) for value in upper_bounds(self.buckets[np.minimum(places, len(self.buckets) - 1)])]

    def at_percentiles(self, percentiles: Sequence[float]) -> list[float]:
        """Return the values of these percentiles in ns."""
        total = self.total
        return self.at_ranks([max(1, int(percentile * total / 100 + 0.5)) - 1 for percentile in percentiles])

    def encoded(self) -> str:
        """Return the histogram in the encoding of slice answers, which the module's docstring describes."""
        words, next_bucket = bytearray(), 0
        for bucket, count in zip(self.buckets.tolist(), self.counts.tolist(), strict=True):
            if bucket > next_bucket:
                words += _word(next_bucket - bucket)
            words += _word(count)
            next_bucket = bucket + 1
        header = WORDS_HEADER.pack(WORDS_COOKIE, len(words), 0, SIGNIFICANT_DIGITS, 1, LONGEST_NS, 1.0)
        compressed = zlib.compress(header + words)
        return base64.b64encode(WHOLE_HEADER.pack(WHOLE_COOKIE, len(compressed)) + compressed).decode()


def merged(encoded: Iterable[str]) -> Counts:
    _, places, counts = _decoded([*encoded])
    return _summed(places, counts)


def counted(rounds: Iterable[Sequence[str]]) -> tuple[Numbers, Numbers]:
    """Return the sum of the encoded histograms of each round, without buckets that are empty in all rounds.

    The first array has the buckets' upper bounds in ns, ascending. The second array is `counts[round, bucket]`.
    """
    for_rounds = [*rounds]
    numbers = np.repeat(np.arange(len(for_rounds)), [len(each) for each in for_rounds])
    indices, places, counts = _decoded([each for encoded in for_rounds for each in encoded])
    buckets, inverse = np.unique(places, return_inverse=True)
    table = np.zeros((len(for_rounds), len(buckets)))
    np.add.at(table, (numbers[indices], inverse), counts)
    return upper_bounds(buckets).astype(float), table


def lower_bounds(buckets: Integers) -> Integers:
    doublings = np.maximum(buckets // HALF - 1, 0)
    least: Integers = (buckets - doublings * HALF) << doublings
    return least


def upper_bounds(buckets: Integers) -> Integers:
    return lower_bounds(buckets + 1) - 1


def _summed(buckets: Integers, counts: npt.ArrayLike) -> Counts:
    """Return counts in which each bucket occurs once. Counts of the same bucket are added up."""
    each, inverse = np.unique(buckets, return_inverse=True)
    return Counts(each, np.bincount(inverse, weights=counts, minlength=len(each)).astype(np.int64))


def _decoded(encoded: Sequence[str]) -> tuple[Integers, Integers, Integers]:
    """Return, for each non-empty bucket, the index of its histogram, the bucket and its count, as three arrays."""
    payloads = [_payload(each) for each in encoded]
    data = np.frombuffer(b"".join(payloads), np.uint8).astype(np.int64)
    if not len(data):
        return (np.empty(0, np.int64),) * 3
    last = np.flatnonzero(data < 0x80)
    first = np.concatenate([[0], last[:-1] + 1])
    shifts = 7 * (np.arange(len(data)) - np.repeat(first, last - first + 1))
    words = np.add.reduceat((data & 0x7F) << shifts, first)
    counts = (words >> 1) ^ -(words & 1)
    ends = np.cumsum([len(each) for each in payloads])
    indices = np.searchsorted(ends, first, side="right")
    steps = np.where(counts < 0, -counts, 1)
    before = np.cumsum(steps) - steps
    # Number the buckets within each histogram from 0.
    places = before - before[np.searchsorted(indices, indices)]
    nonempty = counts > 0
    return indices[nonempty], places[nonempty], counts[nonempty]


def _payload(encoded: str) -> bytes:
    """Return the encoded numbers of a histogram. Raises `ValueError` if its buckets are not as in this module."""
    content = zlib.decompress(base64.b64decode(encoded)[WHOLE_HEADER.size :])
    _, length, _, digits, lowest, _, _ = WORDS_HEADER.unpack_from(content)
    if (digits, lowest) != (SIGNIFICANT_DIGITS, 1):
        raise ValueError(f"unsupported histogram of {digits} digits from {lowest} on")
    return content[WORDS_HEADER.size : WORDS_HEADER.size + length]


def _word(number: int) -> bytes:
    """Encode a number as ZigZag LEB128: a bucket's count or, if negative, the number of empty buckets to skip."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    encoded = bytearray()
    while left >= 0x80:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*encoded, left])
