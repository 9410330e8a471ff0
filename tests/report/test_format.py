"""Formatted numbers, durations and lists."""

from __future__ import annotations

import pytest

from costof import format as fmt
from costof.statistics.estimate import Estimate


def an_estimate(value: float, low: float, high: float, rounds: int = 20) -> Estimate:
    return Estimate(value=value, low=low, high=high, rounds=rounds)


def plain(text: object) -> str:
    return str(text).replace(fmt.NBSP, " ")


@pytest.mark.parametrize(
    ("half_width", "decimals"), [(0.45, 1), (1.1, 1), (0.25, 2), (0.299, 1), (12, 0), (400, 0), (0.0007, 4), (0, 0)]
)
def test_number_of_decimals_follows_from_the_width_of_the_interval(half_width: float, decimals: int) -> None:
    assert fmt.decimals_for(half_width) == decimals


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (an_estimate(14.2345, 13.79, 14.69), "14.2 ms [13.8, 14.7]"),
        (an_estimate(-0.0234, -0.0301, -0.0166), "−0.023 ms [−0.030, −0.017]"),
        (an_estimate(12345.6, 12000.0, 12700.0), "12,346 ms [12,000, 12,700]"),
        (an_estimate(0.7506, 0.7506, 0.7506), "0.751 ms [0.751, 0.751]"),
        (an_estimate(3.0, 3.0, 3.0, rounds=1), "3.00 ms [one round]"),
    ],
)
def test_absolute_change_has_a_unit_and_an_interval(estimate: Estimate, text: str) -> None:
    assert plain(fmt.absolute(estimate, "ms")) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (an_estimate(1.031, 1.020, 1.042), "+3.1 % [2.0, 4.2]"),
        (an_estimate(0.998, 0.992, 1.004), "−0.2 % [−0.8, 0.4]"),
        (an_estimate(5.3638, 5.23, 5.49), "×5.36 [5.23, 5.49]"),
        (an_estimate(1.9999, 1.95, 2.05), "+100 % [95, 105]"),
        (an_estimate(1.00001, 0.99999, 1.00003), "0.00 % [0.00, 0.00]"),
    ],
)
def test_large_relative_change_is_a_multiple_instead_of_a_percentage(ratio: Estimate, text: str) -> None:
    assert plain(fmt.relative(ratio)) == text


@pytest.mark.parametrize(
    "shown",
    [
        fmt.absolute(Estimate(value=1234.5, low=-1.0, high=2470.0, rounds=5), "ms"),
        fmt.relative(Estimate(value=5.36, low=5.2, high=5.5, rounds=5)),
        fmt.loss(Estimate(value=0.9, low=0.85, high=1.02, rounds=5)),
        fmt.absolute(Estimate(value=1.0, low=1.0, high=1.0, rounds=1), "ms"),
    ],
    ids=str,
)
def test_removing_intervals_from_a_text_keeps_all_other_brackets(shown: fmt.Text) -> None:
    assert shown.interval
    assert fmt.without_intervals(f"'a [b, 2]' adds {shown} to x[1, y].") == f"'a [b, 2]' adds {shown.value} to x[1, y]."


def test_number_that_is_rounded_to_zero_has_no_sign() -> None:
    assert fmt.number(-0.0004, 2, signed=True) == "0.00"
    assert fmt.number(0.0004, 2, signed=True) == "0.00"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.2, "1 s"), (59.7, "1 min"), (250, "4 min 10 s"), (3900, "1 h 5 min")]
)
def test_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert plain(fmt.duration(seconds)) == text


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (250, "4 min"), (9000, "2 h")])
def test_rough_duration_has_one_unit(seconds: float, text: str) -> None:
    assert plain(fmt.roughly(seconds)) == text


@pytest.mark.parametrize(("value", "text"), [(642, "642 B"), (1310, "1.31 kB"), (2_500_000, "2.50 MB")])
def test_bytes_have_a_decimal_unit_prefix(value: float, text: str) -> None:
    assert plain(fmt.bytes_text(value)) == text


@pytest.mark.parametrize(("value", "text"), [(2.0, "2"), (2.98, "2.98"), (1310.4, "1,310"), (1.999, "2")])
def test_count_has_decimals_only_if_it_is_small_and_not_whole(value: float, text: str) -> None:
    assert fmt.count(value) == text


def test_last_two_items_of_a_list_are_joined_by_and() -> None:
    assert fmt.listed([]) == ""
    assert fmt.listed(["a"]) == "a"
    assert fmt.listed(["a", "b", "c"]) == "a, b and c"


def test_percentage_has_no_trailing_zeros() -> None:
    assert plain(fmt.share(0.05)) == "5 %"
    assert plain(fmt.share(0.005)) == "0.5 %"


def test_ratio_to_a_control_of_0_is_shown_as_a_dash() -> None:
    assert fmt.plain_ratio(0, 3) == fmt.NONE
    assert plain(fmt.plain_ratio(0.7506, 0.7643)) == "+1.8 %"


def test_label_is_quoted_unless_it_is_a_short_noun_phrase() -> None:
    labels = ("native", "a bird", "a bird and a fish")
    assert [*map(fmt.in_quotes, labels)] == ["'native'", "a bird", "'a bird and a fish'"]


def test_sentence_without_intervals_has_none_with_or_without_an_upper_end() -> None:
    text = f"TLS adds 5 ms [4.9, 5.1], or less than 5 % with 52 queries or more {fmt.OPEN_INTERVAL.format('1,048')}."
    assert fmt.without_intervals(text) == "TLS adds 5 ms, or less than 5 % with 52 queries or more."
