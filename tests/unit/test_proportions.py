"""Intervals of shares, against the published examples."""

from __future__ import annotations

import pytest
import scipy

from costof.statistics.proportions import newcombe, wilson


@pytest.mark.parametrize(("failed", "of"), [(0, 10), (1, 29), (5, 10), (10, 10), (3, 100_000)])
def test_the_interval_of_a_share_is_scipys(failed: int, of: int) -> None:
    expected = scipy.stats.binomtest(failed, of).proportion_ci(method="wilson")
    assert wilson(failed, of) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("arm", "control", "low", "high"),
    [
        # Newcombe 1998, table II, method 10.
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
    ],
)
def test_a_difference_is_newcombes(arm: tuple[int, int], control: tuple[int, int], low: float, high: float) -> None:
    assert newcombe(control, arm)[1:] == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_everything_is_possible() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    difference, low, high = newcombe((0, 0), (3, 10))
    assert (difference, low < 0 < high) == (0.3, True)
