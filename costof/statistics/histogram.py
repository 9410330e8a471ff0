"""Latency histograms with the bounds that every instrument keeps: 1 ns to ten minutes, three significant digits.

One set of bounds, the engine's (`record/recorder.rs`), so that histograms add up as arrays do. A run has tens of
thousands of them, each with a few counts among as many buckets: they are decoded together, and only what is in them.

HdrHistogram's V2 encoding: words of seven bits a byte, the least first; even ones twice a count, odd ones a run of
empty buckets ("ZigZag LEB128"). They are compressed with a header before them, and the whole has one too. Each header
begins with a number that names the encoding, which HdrHistogram calls a cookie, and the length of what follows.
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
#: Buckets of one width in each doubling of the values: as many as the digits want (HdrHistogram's half sub-buckets).
HALF = 1024
#: Of the compressed whole: cookie, length.
WHOLE_HEADER, WHOLE_COOKIE = struct.Struct(">II"), 0x1C849314
#: Of the words: cookie, length, offset of the first bucket, digits, least and greatest value, factor of all values.
WORDS_HEADER, WORDS_COOKIE = struct.Struct(">IIIIQQd"), 0x1C849313


@dataclass(frozen=True)
class Counts:
    """The non-empty buckets of a histogram, rising, and the number of values in each."""

    buckets: Integers
    counts: Integers

    @staticmethod
    def of(nanoseconds: Sequence[int], times: Sequence[int] | None = None) -> Counts:
        """Count these values, each so many times; longer ones count as the longest."""
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
        """Return the values at these ranks, from 0: the upper bounds of their buckets, nanoseconds."""
        places = np.searchsorted(np.cumsum(self.counts), ranks, side="right")
        return [float(value) for value in highest_of(self.buckets[np.minimum(places, len(self.buckets) - 1)])]

    def at_percentiles(self, percentiles: Sequence[float]) -> list[float]:
        """Return the smallest values, nanoseconds, that so many percent of all do not exceed."""
        total = self.total
        return self.at_ranks([max(1, int(percentile * total / 100 + 0.5)) - 1 for percentile in percentiles])

    def encoded(self) -> str:
        """Encode as slice answers carry it."""
        words, begun = bytearray(), 0
        for bucket, count in zip(self.buckets.tolist(), self.counts.tolist(), strict=True):
            if bucket > begun:
                words += _word(begun - bucket)
            words += _word(count)
            begun = bucket + 1
        header = WORDS_HEADER.pack(WORDS_COOKIE, len(words), 0, SIGNIFICANT_DIGITS, 1, LONGEST_NS, 1.0)
        compressed = zlib.compress(header + words)
        return base64.b64encode(WHOLE_HEADER.pack(WHOLE_COOKIE, len(compressed)) + compressed).decode()


def merged(encoded: Iterable[str]) -> Counts:
    """Return the sum of encoded histograms."""
    _, places, counts = _decoded([*encoded])
    return _summed(places, counts)


def counted(rounds: Iterable[Sequence[str]]) -> tuple[Numbers, Numbers]:
    """Rounds of histograms as slice answers carry them: the buckets' values, nanoseconds, rising, and
    `counts[round, bucket]` of those that hold anything in any round."""
    for_rounds = [*rounds]
    numbers = np.repeat(np.arange(len(for_rounds)), [len(each) for each in for_rounds])
    pieces, places, counts = _decoded([each for of_round in for_rounds for each in of_round])
    buckets, inverse = np.unique(places, return_inverse=True)
    table = np.zeros((len(for_rounds), len(buckets)))
    np.add.at(table, (numbers[pieces], inverse), counts)
    return lowest_of(buckets).astype(float), table


def lowest_of(buckets: Integers) -> Integers:
    doublings = np.maximum(buckets // HALF - 1, 0)
    least: Integers = (buckets - doublings * HALF) << doublings
    return least


def highest_of(buckets: Integers) -> Integers:
    return lowest_of(buckets + 1) - 1


def _summed(buckets: Integers, counts: npt.ArrayLike) -> Counts:
    """Add up buckets that may come more than once."""
    each, inverse = np.unique(buckets, return_inverse=True)
    return Counts(each, np.bincount(inverse, weights=counts, minlength=len(each)).astype(np.int64))


def _decoded(encoded: Sequence[str]) -> tuple[Integers, Integers, Integers]:
    """Return for each non-empty bucket its histogram, its place there, and its count."""
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
    pieces = np.searchsorted(ends, first, side="right")
    steps = np.where(counts < 0, -counts, 1)
    before = np.cumsum(steps) - steps
    # Every histogram begins at its first bucket.
    places = before - before[np.searchsorted(pieces, pieces)]
    held = counts > 0
    return pieces[held], places[held], counts[held]


def _payload(encoded: str) -> bytes:
    """Return the words of a histogram. Raises `ValueError` for one with other buckets than ours."""
    content = zlib.decompress(base64.b64decode(encoded)[WHOLE_HEADER.size :])
    _, length, _, digits, lowest, _, _ = WORDS_HEADER.unpack_from(content)
    if (digits, lowest) != (SIGNIFICANT_DIGITS, 1):
        raise ValueError(f"a histogram of {digits} digits from {lowest} on")
    return content[WORDS_HEADER.size : WORDS_HEADER.size + length]


def _word(number: int) -> bytes:
    """Encode a count, or a negative number for that many empty buckets."""
    left = number << 1 if number >= 0 else (-number << 1) - 1
    found = bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])
