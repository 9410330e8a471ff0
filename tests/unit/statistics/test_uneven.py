"""Tests of the warning about rounds that differ widely: the rounds that it names, and the ratio that is then shown."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from costof.statistics.intervals import difference, ratio
from costof.statistics.uneven import UnevenRounds, disagrees, ratio_of_means, uneven_rounds

PLAIN = [0.55, 0.57, 0.48, 0.62, 0.48, 0.46, 0.45]
TLS = [16.08, 19.86, 151.33, 16.35, 13.61, 16.0, 14.95]


def uneven(control: Sequence[float], arm: Sequence[float]) -> UnevenRounds | None:
    numbers = [*range(1, len(arm) + 1)]
    return uneven_rounds(numbers, difference(control, arm), ratio(control, arm), control, arm)


def test_outlying_round_of_an_arm_is_named_with_the_range_of_the_other_rounds() -> None:
    found = uneven(PLAIN, TLS)
    assert found is not None
    assert (found.rounds, found.far, found.low, found.high) == ([3], [151.33], 13.61, 19.86)
    assert found.without.value == pytest.approx(15.6, abs=0.1)
    assert found.without.low > 0 > difference(PLAIN, TLS).low
    assert not found.in_control


def test_outlying_round_of_the_control_is_named() -> None:
    found = uneven([*PLAIN[:6], 90.0], [*TLS[:2], 16.5, *TLS[3:6], 105.0])
    assert found is not None
    assert (found.rounds, found.quotient_without) == ([7], pytest.approx(31, abs=1))


def test_report_names_no_outlying_round_if_all_rounds_differ_widely() -> None:
    found = uneven([18, 20, 20, 60, 17, 19, 84, 17], [30, 65, 73, 494, 133, 310, 29, 500])
    assert found is not None
    assert (found.rounds, found.low, found.high) == ([], 29, 500)


@pytest.mark.parametrize("count", [4, 7])
def test_report_names_no_outlying_round_if_rounds_are_similar_or_few(count: int) -> None:
    even = [*TLS[:2], 15.5, *TLS[3:]]
    assert uneven(PLAIN[:count], (even if count > 4 else TLS)[:count]) is None


def test_mean_ratio_that_contradicts_the_difference_is_replaced_by_the_ratio_of_the_means() -> None:
    effect, mean_ratio = difference(PLAIN, TLS), ratio(PLAIN, TLS)
    assert disagrees(effect, mean_ratio, PLAIN, TLS)
    quotient = ratio_of_means(PLAIN, TLS)
    assert quotient is not None
    assert quotient.value == pytest.approx(sum(TLS) / sum(PLAIN))
    assert quotient.low < 1 < quotient.high, "as the interval of the difference includes 0"
    even = [each * 30 for each in PLAIN]
    assert not disagrees(difference(PLAIN, even), ratio(PLAIN, even), PLAIN, even)
