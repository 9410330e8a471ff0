"""Tests of histograms, against the HdrHistogram library, and of percentiles."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from statistics import NormalDist

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from costof.statistics.histogram import LONGEST_NS, SIGNIFICANT_DIGITS, Counts, counted, merged
from costof.statistics.intervals import Numbers, resamples
from costof.statistics.tails import RESAMPLES, bootstrap_percentiles, operations_needed, ratios

#: The library of HdrHistogram is slow, so there are few random examples.
FEW = settings(max_examples=settings().max_examples // 5)
NANOSECONDS = st.integers(min_value=1, max_value=2 * LONGEST_NS)


def library_histogram(values: Iterable[int], digits: int = SIGNIFICANT_DIGITS) -> HdrHistogram:
    histogram = HdrHistogram(1, LONGEST_NS, digits)
    for value in values:
        histogram.record_value(min(value, LONGEST_NS))
    return histogram


def encoded(values: Iterable[int]) -> str:
    text: bytes = library_histogram(values).encode()
    return text.decode()


@FEW
@given(st.lists(st.lists(NANOSECONDS, min_size=1, max_size=20), min_size=1, max_size=5))
def test_merged_histogram_contains_all_values(parts: list[list[int]]) -> None:
    total, expected = merged(map(encoded, parts)), library_histogram(chain.from_iterable(parts))
    assert total.total == sum(map(len, parts))
    percentiles = [1, 25, 50, 90, 100]
    assert total.at_percentiles(percentiles) == [expected.get_value_at_percentile(each) for each in percentiles]
    one_by_one = sum(map(Counts.from_values, parts), Counts.from_values([]))
    assert [*zip(one_by_one.buckets, one_by_one.counts, strict=True)] == [
        *zip(total.buckets, total.counts, strict=True)
    ]


@FEW
@given(st.lists(st.tuples(NANOSECONDS, st.integers(1, 10**12)), max_size=20))
def test_hdrhistogram_library_reads_histograms_that_costof_encodes(pairs: list[tuple[int, int]]) -> None:
    expected = library_histogram([])
    for value, times in pairs:
        expected.record_value(min(value, LONGEST_NS), times)
    read = HdrHistogram.decode(
        Counts.from_values([value for value, _ in pairs], [times for _, times in pairs]).encoded()
    )
    assert read.get_total_count() == sum(times for _, times in pairs)
    assert [*read.counts] == [*expected.counts]
    assert (read.lowest_trackable_value, read.highest_trackable_value) == (1, LONGEST_NS)


def test_histogram_contains_an_operation_of_two_minutes() -> None:
    """Regression: sums were limited to one minute, and failed for slower operations."""
    slow = 2 * 60 * 10**9
    (longest,) = merged([encoded([10**6]), encoded([slow])]).at_ranks([1])
    assert abs(longest / slow - 1) < 2e-3


@FEW
@given(st.lists(st.lists(st.lists(NANOSECONDS, max_size=9), min_size=1, max_size=3), min_size=1, max_size=4))
def test_merged_histograms_keep_separate_counts_for_each_round(rounds: list[list[list[int]]]) -> None:
    values, counts = counted([[encoded(part) for part in parts] for parts in rounds])
    for parts, row in zip(rounds, counts, strict=True):
        expected = library_histogram(chain.from_iterable(parts))
        true = {
            expected.get_highest_equivalent_value(expected.get_value_from_index(place)): count
            for place, count in enumerate(expected.counts)
            if count
        }
        assert {value: count for value, count in zip(values, row, strict=True) if count} == true


@FEW
@given(st.lists(NANOSECONDS, min_size=40, max_size=200))
def test_bootstrapped_percentiles_equal_the_percentiles_of_the_merged_histogram(nanoseconds: list[int]) -> None:
    """Regression: the percentiles differed by one bucket of the histogram."""
    values, counts = counted([[encoded(nanoseconds)]])
    found = bootstrap_percentiles(values, counts, np.ones((2, 1)), PERCENTILES)
    assert found.measured.tolist() == merged([encoded(nanoseconds)]).at_percentiles(PERCENTILES)


def test_histogram_with_another_number_of_significant_digits_is_refused() -> None:
    text: bytes = library_histogram([], digits=2).encode()
    with pytest.raises(ValueError, match="2 digits"):
        merged([text.decode()])


BUCKETS = np.geomspace(0.05, 20, 600)
PERCENTILES = (50.0, 95.0, 99.0)
TAIL_RUNS = 100


def bucket_counts(operations: Numbers) -> Numbers:
    """Return an array `[round, bucket]` with numbers of operations, from an array `[round, operation]` of times."""
    places = np.minimum(np.searchsorted(BUCKETS, operations), len(BUCKETS) - 1)
    return np.array([np.bincount(row, minlength=len(BUCKETS)) for row in places], dtype=float)


def simulate_rounds(chance: np.random.Generator, rounds: int, times: float, shared: Numbers) -> Numbers:
    """Return log-normal operation times. Each round has a factor, part of which is `shared` by all arms."""
    arm_part = chance.normal(0, 0.05, rounds)
    return np.exp(math.log(times) + (shared + arm_part)[:, None] + chance.normal(0, 0.5, (rounds, 400)))


def test_percentile_of_a_run_is_computed_over_the_operations_of_all_rounds() -> None:
    chance = np.random.default_rng(1)
    operations = simulate_rounds(chance, 20, 1.0, np.zeros(20))
    found = bootstrap_percentiles(BUCKETS, bucket_counts(operations), resamples(range(20), 1, RESAMPLES), PERCENTILES)
    expected = np.percentile(operations, PERCENTILES, method="inverted_cdf")
    assert found.measured == pytest.approx(expected, rel=0.012)
    assert found.measured[0] == pytest.approx(1.0, rel=0.05)
    assert found.measured[2] == pytest.approx(math.exp(0.5025 * NormalDist().inv_cdf(0.99)), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [5, 10, 30])
def test_interval_of_a_percentile_ratio_has_95_percent_coverage(rounds: int) -> None:
    chance = np.random.default_rng(20)
    held = np.zeros(len(PERCENTILES))
    for run in range(TAIL_RUNS):
        shared = chance.normal(0, 0.1, rounds)
        drawn = resamples(range(rounds), run, RESAMPLES)
        control, arm = (
            bootstrap_percentiles(
                BUCKETS, bucket_counts(simulate_rounds(chance, rounds, times, shared)), drawn, PERCENTILES
            )
            for times in (1.0, 1.1)
        )
        held += [each.low <= 1.1 <= each.high for each in ratios(control, arm, rounds)]
    assert all(0.90 <= share <= 0.99 for share in held / TAIL_RUNS)


def test_rounds_between_two_server_restarts_are_resampled_together() -> None:
    drawn = resamples([0, 0, 1, 1, 1, 2], 1, RESAMPLES)
    assert (drawn[0] == 1).all()
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert (drawn[:, 2] == drawn[:, 4]).all()
    assert (drawn[:, [0, 2, 5]].sum(axis=1) == 3).all()


def test_higher_p99_is_detected_although_the_median_is_equal() -> None:
    """One operation in fifty takes five times as long, which does not affect the median."""
    chance = np.random.default_rng(3)
    operations = simulate_rounds(chance, 30, 1.0, np.zeros(30))
    stalled = np.where(chance.random(operations.shape) < 0.02, operations * 5, operations)
    drawn = resamples(range(30), 3, RESAMPLES)
    control, arm = (
        bootstrap_percentiles(BUCKETS, bucket_counts(each), drawn, PERCENTILES) for each in (operations, stalled)
    )
    median, _, p99 = ratios(control, arm, 30)
    assert median.low < 1.03
    assert p99.low > 1.3


@pytest.mark.parametrize(("percentile", "operations"), [(50, 40), (95, 400), (99, 2000), (99.9, 20_000)])
def test_percentile_needs_20_operations_beyond_it_to_be_reported(percentile: float, operations: int) -> None:
    assert operations_needed(percentile) == pytest.approx(operations, abs=1)
