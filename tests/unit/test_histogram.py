"""Histograms of both instruments add up, whatever they hold. The oracle is HdrHistogram's own library for Python."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from costof.statistics.histogram import LONGEST_NS, SIGNIFICANT_DIGITS, Counts, counted, merged

NANOSECONDS = st.integers(min_value=1, max_value=2 * LONGEST_NS)


def oracle(values: Iterable[int], digits: int = SIGNIFICANT_DIGITS) -> HdrHistogram:
    histogram = HdrHistogram(1, LONGEST_NS, digits)
    for value in values:
        histogram.record_value(min(value, LONGEST_NS))
    return histogram


def encoded(values: Iterable[int]) -> str:
    """As the library writes it."""
    text: bytes = oracle(values).encode()
    return text.decode()


@given(st.lists(st.lists(NANOSECONDS, min_size=1, max_size=20), min_size=1, max_size=5))
def test_a_sum_holds_what_its_parts_hold(parts: list[list[int]]) -> None:
    total, expected = merged(map(encoded, parts)), oracle(chain.from_iterable(parts))
    assert total.total == sum(map(len, parts))
    asked = [1, 25, 50, 90, 100]
    assert total.at_percentiles(asked) == [expected.get_value_at_percentile(percentile) for percentile in asked]
    one_by_one = sum(map(Counts.of, parts), Counts.of([]))
    assert [*zip(one_by_one.buckets, one_by_one.counts, strict=True)] == [
        *zip(total.buckets, total.counts, strict=True)
    ]


@given(st.lists(st.tuples(NANOSECONDS, st.integers(1, 10**12)), max_size=20))
def test_the_library_reads_what_is_written(pairs: list[tuple[int, int]]) -> None:
    expected = oracle([])
    for value, times in pairs:
        expected.record_value(min(value, LONGEST_NS), times)
    read = HdrHistogram.decode(Counts.of([value for value, _ in pairs], [times for _, times in pairs]).encoded())
    assert read.get_total_count() == sum(times for _, times in pairs)
    assert [*read.counts] == [*expected.counts]
    assert (read.lowest_trackable_value, read.highest_trackable_value) == (1, LONGEST_NS)


def test_an_operation_of_minutes_is_no_error() -> None:
    """A sum that ended at one minute could not take the engine's histogram of a slower operation."""
    slow = 2 * 60 * 10**9
    (longest,) = merged([encoded([10**6]), encoded([slow])]).at_ranks([1])
    assert abs(longest / slow - 1) < 2e-3


@given(st.lists(st.lists(st.lists(NANOSECONDS, max_size=9), min_size=1, max_size=3), min_size=1, max_size=4))
def test_rounds_are_counted_each_by_itself(rounds: list[list[list[int]]]) -> None:
    values, counts = counted([[encoded(part) for part in parts] for parts in rounds])
    for parts, row in zip(rounds, counts, strict=True):
        expected = oracle(chain.from_iterable(parts))
        true = {expected.get_value_from_index(place): count for place, count in enumerate(expected.counts) if count}
        assert {value: count for value, count in zip(values, row, strict=True) if count} == true


def test_a_histogram_of_other_buckets_is_refused() -> None:
    text: bytes = oracle([], digits=2).encode()
    with pytest.raises(ValueError, match="2 digits"):
        merged([text.decode()])
