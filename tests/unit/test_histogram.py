"""Histograms of both instruments add up, whatever they hold."""

from __future__ import annotations

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from costof.statistics.histogram import LONGEST_NS, merged, recorded

NANOSECONDS = st.integers(min_value=1, max_value=2 * LONGEST_NS)


def encoded(values: list[int]) -> str:
    text: bytes = recorded(values).encode()
    return text.decode()


@given(st.lists(st.lists(NANOSECONDS, min_size=1, max_size=20), min_size=1, max_size=5))
def test_a_sum_holds_what_its_parts_hold(parts: list[list[int]]) -> None:
    total, expected = merged(map(encoded, parts)), recorded(chain.from_iterable(parts))
    assert total.get_total_count() == sum(map(len, parts))
    for percentile in (0, 25, 50, 90, 100):
        assert total.get_value_at_percentile(percentile) == expected.get_value_at_percentile(percentile)


def test_an_operation_of_minutes_is_no_error() -> None:
    """A sum that ended at one minute could not take the engine's histogram of a slower operation."""
    slow = 2 * 60 * 10**9
    assert abs(merged([encoded([10**6]), encoded([slow])]).get_max_value() / slow - 1) < 2e-3
