"""Histograms of both instruments add up, whatever they hold."""

from __future__ import annotations

from itertools import chain

import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from costof.statistics.histogram import LONGEST_NS, counted, merged, recorded

NANOSECONDS = st.integers(min_value=1, max_value=2 * LONGEST_NS)


def encoded(values: list[int]) -> str:
    text: bytes = recorded(values).encode()
    return text.decode()


@given(st.lists(st.lists(NANOSECONDS, min_size=1, max_size=20), min_size=1, max_size=5))
def test_a_sum_holds_what_its_parts_hold(parts: list[list[int]]) -> None:
    total, expected = merged(map(encoded, parts)), recorded(chain.from_iterable(parts))
    assert total.total == sum(map(len, parts))
    asked = [1, 25, 50, 90, 100]
    assert total.at_percentiles(asked) == [expected.get_value_at_percentile(percentile) for percentile in asked]


def test_an_operation_of_minutes_is_no_error() -> None:
    """A sum that ended at one minute could not take the engine's histogram of a slower operation."""
    slow = 2 * 60 * 10**9
    (longest,) = merged([encoded([10**6]), encoded([slow])]).at_ranks([1])
    assert abs(longest / slow - 1) < 2e-3


@given(st.lists(st.lists(st.lists(NANOSECONDS, max_size=9), min_size=1, max_size=3), min_size=1, max_size=4))
def test_rounds_are_counted_each_by_itself(rounds: list[list[list[int]]]) -> None:
    values, counts = counted([[encoded(part) for part in parts] for parts in rounds])
    for parts, row in zip(rounds, counts, strict=True):
        expected = recorded(chain.from_iterable(parts))
        true = {expected.get_value_from_index(place): count for place, count in enumerate(expected.counts) if count}
        assert {value: count for value, count in zip(values, row, strict=True) if count} == true


def test_a_histogram_of_other_buckets_is_refused() -> None:
    text: bytes = HdrHistogram(1, LONGEST_NS, 2).encode()
    with pytest.raises(ValueError, match="2 digits"):
        merged([text.decode()])
