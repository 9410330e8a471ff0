"""ab's figures against the same numbers counted by hand."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costof.messages.answers import SliceAnswer
from costof.results.ab_figures import PERCENTILES, ab_figures
from costof.statistics.histogram import Counts
from tests.truths.http_tls_termination import counts_of

DIGITS = 2e-3
"""Three significant digits of a histogram."""
MS = 10**6


def phase(values: Sequence[int]) -> dict[str, object]:
    return {
        "count": len(values),
        "sum_ns": sum(values),
        "sum_squares_ns2": float(sum(value**2 for value in values)),
        "min_ns": min(values),
        "max_ns": max(values),
        "histogram": Counts.of(values).encoded(),
    }


def answer(total: Sequence[int], connect: Sequence[int] = (), **changes: object) -> SliceAnswer:
    phases = {name: phase(total) for name in ("request", "processing", "waiting") if total}
    fields: dict[str, object] = {
        "id": 1,
        "arm": "url",
        "workload": "request",
        "started_unix_ns": 0,
        "elapsed_ns": 10**9,
        "operations": len(total),
        "errors": [],
        "phases": phases | ({"connect": phase(connect)} if connect else {}),
        "cpu_ns": {},
        "peak_memory_bytes": 0,
        "counts": counts_of(len(total), len(total) - len(connect)),
        "evidence": {"body_length": 2},
    }
    return SliceAnswer.model_validate(fields | changes)


times = st.lists(st.integers(10**4, 10**10), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(times, times)
def test_two_slices_are_as_all_their_requests_sorted(one: list[int], other: list[int]) -> None:
    figures = ab_figures("url", "request", 3, [answer(one, one), answer(other, other)])
    assert figures is not None
    every = sorted(one + other)
    total = figures.times["total"]
    assert total.min * MS == pytest.approx(every[0])
    assert total.max * MS == pytest.approx(every[-1])
    assert total.mean * MS == pytest.approx(statistics.fmean(every))
    assert total.sd * MS == pytest.approx(statistics.stdev(every), rel=1e-6, abs=1e3)
    assert total.median * MS == pytest.approx(statistics.median(every), rel=DIGITS)
    for percent in PERCENTILES[:-1]:
        assert figures.percentiles[str(percent)] * MS == pytest.approx(every[len(every) * percent // 100], rel=DIGITS)
    assert figures.percentiles["100"] * MS == pytest.approx(every[-1])


@settings(max_examples=60, deadline=None)
@given(times, st.integers(0, 60))
def test_requests_without_a_connection_connect_in_no_time(connect: list[int], reused: int) -> None:
    total = [max(connect) + 5 * MS] * (len(connect) + reused)
    figures = ab_figures("url", "request", 1, [answer(total, connect)])
    assert figures is not None
    every = sorted([0] * reused + connect)
    line = figures.times["connect"]
    assert line.min * MS == pytest.approx(every[0])
    assert line.max * MS == pytest.approx(every[-1])
    assert line.mean * MS == pytest.approx(statistics.fmean(every))
    assert line.median * MS == pytest.approx(statistics.median(every), rel=DIGITS)
    assert line.sd * MS == pytest.approx(statistics.stdev(every) if len(every) > 1 else 0.0, rel=1e-6, abs=1e3)


def test_rates_are_abs() -> None:
    figures = ab_figures("url", "request", 4, [answer([2 * MS] * 200, [MS] * 200)])
    assert figures is not None
    assert figures.requests_per_second == pytest.approx(200.0)
    assert figures.ms_per_request == pytest.approx(20.0)
    assert figures.ms_across_all == pytest.approx(5.0)
    assert figures.kbytes_per_second == pytest.approx(200 * 140 / 1024)
    assert (figures.transferred_bytes, figures.html_bytes, figures.document_bytes) == (28_000, 400, 2)


@pytest.mark.parametrize(
    ("connections", "kept"),
    [
        (4, 100),  # four workers, none of whose connections was ever closed
        (14, 90),  # ten were, and had to be replaced
        (100, 0),  # the server keeps none
    ],
)
def test_kept_connections_are_told_from_those_replaced(connections: int, kept: int) -> None:
    figures = ab_figures("url", "request", 4, [answer([MS] * 100, [MS] * connections)])
    assert figures is not None
    assert figures.keep_alive == kept


def test_failures_are_told_in_abs_words() -> None:
    errors = [
        {"class": name, "count": count, "detail": ""}
        for name, count in (("refused", 1), ("tls_handshake", 2), ("reset", 4), ("short_body", 8), ("timeout", 16))
    ]
    statuses = {"http.status.200": 5, "http.status.204": 1, "http.status.404": 3, "http.status.500": 1}
    counts = counts_of(10, 0) | statuses | {"http.other_length": 5}
    told = answer([MS] * 10, [MS] * 10, errors=errors, counts=counts)
    figures = ab_figures("url", "request", 1, [told])
    assert figures is not None
    assert figures.failed == {"connect": 3, "receive": 12, "length": 5, "exceptions": 16}
    assert figures.not_2xx == 4
    assert figures.complete == 10


def test_nothing_answered_is_no_table() -> None:
    assert ab_figures("url", "request", 1, [answer([])]) is None
    assert ab_figures("url", "request", 1, []) is None
