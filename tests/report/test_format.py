"""Numbers as people read them."""

from __future__ import annotations

import pytest

from costof import format as fmt
from costof.statistics.estimate import Estimate


def of(value: float, low: float, high: float, rounds: int = 20) -> Estimate:
    return Estimate(value=value, low=low, high=high, rounds=rounds)


def plain(text: object) -> str:
    return str(text).replace(fmt.NBSP, " ")


@pytest.mark.parametrize(
    ("half_width", "decimals"), [(0.45, 1), (1.1, 1), (0.25, 2), (0.299, 1), (12, 0), (400, 0), (0.0007, 4), (0, 0)]
)
def test_digits_are_those_that_the_interval_earns(half_width: float, decimals: int) -> None:
    assert fmt.decimals_for(half_width) == decimals


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (of(14.2345, 13.79, 14.69), "14.2 ms [13.8, 14.7]"),
        (of(-0.0234, -0.0301, -0.0166), "−0.023 ms [−0.030, −0.017]"),
        (of(12345.6, 12000.0, 12700.0), "12,346 ms [12,000, 12,700]"),
        (of(0.7506, 0.7506, 0.7506), "0.751 ms [0.751, 0.751]"),
        (of(3.0, 3.0, 3.0, rounds=1), "3.00 ms [one round]"),
    ],
)
def test_absolute(estimate: Estimate, text: str) -> None:
    assert plain(fmt.absolute(estimate, "ms")) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (of(1.031, 1.020, 1.042), "+3.1 % [2.0, 4.2]"),
        (of(0.998, 0.992, 1.004), "−0.2 % [−0.8, 0.4]"),
        (of(5.3638, 5.23, 5.49), "5.36× [5.23, 5.49]"),
        (of(1.9999, 1.95, 2.05), "+100 % [95, 105]"),
        (of(1.00001, 0.99999, 1.00003), "0.00 % [0.00, 0.00]"),
    ],
)
def test_relative(ratio: Estimate, text: str) -> None:
    assert plain(fmt.relative(ratio)) == text


def test_a_rounded_zero_has_no_sign() -> None:
    assert fmt.number(-0.0004, 2, signed=True) == "0.00"
    assert fmt.number(0.0004, 2, signed=True) == "0.00"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.2, "1 s"), (59.7, "1 min"), (250, "4 min 10 s"), (3900, "1 h 5 min")]
)
def test_duration(seconds: float, text: str) -> None:
    assert plain(fmt.duration(seconds)) == text


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (250, "4 min"), (9000, "2 h")])
def test_roughly_names_one_unit(seconds: float, text: str) -> None:
    assert plain(fmt.roughly(seconds)) == text


@pytest.mark.parametrize(("value", "text"), [(642, "642 B"), (1310, "1.31 kB"), (2_500_000, "2.50 MB")])
def test_bytes(value: float, text: str) -> None:
    assert plain(fmt.bytes_text(value)) == text


@pytest.mark.parametrize(("value", "text"), [(2.0, "2"), (2.98, "2.98"), (1310.4, "1,310"), (1.999, "2")])
def test_counts_are_whole_where_they_are(value: float, text: str) -> None:
    assert fmt.count(value) == text


def test_listed() -> None:
    assert fmt.listed([]) == ""
    assert fmt.listed(["a"]) == "a"
    assert fmt.listed(["a", "b", "c"]) == "a, b and c"


def test_share_has_no_more_digits_than_it_needs() -> None:
    assert plain(fmt.share(0.05)) == "5 %"
    assert plain(fmt.share(0.005)) == "0.5 %"


def test_published_ratio_without_a_base() -> None:
    assert fmt.plain_ratio(0, 3) == fmt.NONE
    assert plain(fmt.plain_ratio(0.7506, 0.7643)) == "+1.8 %"
