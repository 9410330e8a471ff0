"""`costof ab`: the engine's plan, invalid options, and figures against values computed by hand."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costof.cli.ab import AbOptions, _checked, _plan, measure_url
from costof.errors import EXIT_FAILED, EXIT_USAGE, CostofError, ErrorText
from costof.messages.answers import ClassifiedError, SliceAnswer
from costof.messages.plan import Plan
from costof.results.ab_figures import PERCENTILES, AbFigures, ab_figures
from tests.fake_run import Slice, answer_of, error_of, exact_phase
from tests.support.command import refusal
from tests.support.engines import sent
from tests.truths.http_tls_termination import counts_of

URL = "http://shop.example/?wait=200"


def plan_of(**options: Any) -> Plan:
    ab_options = AbOptions(**{"url": URL, **options})
    return _plan(ab_options, _checked(ab_options))


def planned(**options: Any) -> dict[str, Any]:
    plan = sent(plan_of(**options))
    arm = plan["arms"][0]
    return {**arm["service"], "transport": arm["transport"], "workers": plan["workloads"][0]["workers"]}


BAD_URLS = ["shop.example", "ftp://shop.example/", "http://", "http://shop.example:http/", "http://shop.example:70000/"]
BAD_URLS += ["http://[::1/", "http://shop.example/a b", "http://me:secret@shop.example/", "http://-shop.example/"]
BAD_URLS += [f"http://{'ä' * 64}.example/"]
BAD_HEADERS = [["no colon"], [": no name"], ["Good: a\r\nBad: b"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        *(({"url": url}, ErrorText.AB_URL) for url in BAD_URLS),
        *(({"headers": headers}, ErrorText.AB_HEADER) for headers in BAD_HEADERS),
        ({"cookies": ["a=secret\r\nBad: b"]}, ErrorText.AB_HEADER),
        ({"concurrency": 2}, ErrorText.AB_CONCURRENCY),
        ({"requests": 9, "concurrency": 10}, ErrorText.AB_CONCURRENCY),
    ],
)
def test_invalid_options_of_costof_ab_are_refused_in_one_line(options: dict[str, Any], expected: ErrorText) -> None:
    with pytest.raises(CostofError) as caught:
        measure_url(AbOptions(**{"url": URL, **options}))
    assert (caught.value.message, caught.value.exit_status) == (expected, EXIT_USAGE)
    assert not [part for part in ("\n", "secret") if part in str(caught.value)]


def test_missing_ca_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CostofError) as caught:
        measure_url(AbOptions("https://shop.example/", tls_ca=tmp_path / "none.pem"))
    assert (caught.value.message, caught.value.exit_status) == (ErrorText.TLS_CA_INVALID, EXIT_FAILED)


def test_defaults_of_costof_ab_equal_those_of_apachebench() -> None:
    for options, operations in (({}, 1), ({"seconds": 3}, 50_000), ({"seconds": 3, "requests": 70_000}, 70_000)):
        assert AbOptions(URL, **options).operations == operations
    assert planned()["requests_per_connection"] == 1
    assert "requests_per_connection" not in planned(keep_alive=True)
    assert plan_of().operation_timeout_ms == 30_000
    assert plan_of(timeout_seconds=3).operation_timeout_ms == 3_000


@pytest.mark.parametrize(
    ("url", "address", "host", "path"),
    [
        (URL, "shop.example:80", "shop.example", "/?wait=200"),
        ("https://[::1]:8443", "[::1]:8443", "[::1]:8443", "/"),
        # Non-ASCII characters are encoded as browsers encode them.
        (
            "http://bücher.example/größe/a%20b?q=ö&r=%2F#part",
            "xn--bcher-kva.example:80",
            "xn--bcher-kva.example",
            "/gr%C3%B6%C3%9Fe/a%20b?q=%C3%B6&r=%2F",
        ),
    ],
)
def test_url_of_costof_ab_is_split_into_address_host_and_path(url: str, address: str, host: str, path: str) -> None:
    service = planned(url=url, requests=5, concurrency=5)
    assert (service["addresses"], service["host"], service["path"], service["workers"]) == ([address], host, path, 5)


def test_credentials_and_cookies_are_sent_but_never_shown() -> None:
    options: dict[str, Any] = {"login": "me:S3cret", "cookies": ["a=S3cret", "b=2"], "headers": ["Accept: */*"]}
    headers = ["Accept: */*", "Authorization: Basic bWU6UzNjcmV0", "Cookie: a=S3cret; b=2"]
    assert planned(**options)["headers"] == headers
    plan = plan_of(**options)
    shown = repr(AbOptions(URL, **options)) + repr(plan) + plan.model_dump_json()
    assert not [each for each in ("S3cret", "bWU6") if each in shown]


def test_given_host_header_replaces_the_host_of_the_url() -> None:
    service = planned(headers=["Accept: text/html", "host: other.example"])
    assert (service["host"], service["headers"]) == ("other.example", ["Accept: text/html"])


def test_error_for_a_request_body_in_costof_ab_suggests_another_command() -> None:
    refused = refusal("ab", "-p", "body", "-T", "application/json", "-n", "10", URL)
    assert refused.exit_status == EXIT_USAGE
    assert "costof versus --read ab 'ab -p FILE" in str(refused)


#: Relative error of a histogram with three significant digits.
DIGITS = 2e-3
MS = 10**6


def answer(total: Sequence[int], connect: Sequence[int] = (), **changes: Any) -> SliceAnswer:
    phases = {name: exact_phase(total) for name in ("request", "processing", "waiting") if total}
    phases |= {"connect": exact_phase(connect)} if connect else {}
    counts = counts_of(len(total), len(total) - len(connect))
    done = {"counts": counts, **changes}
    return answer_of(Slice(len(total), 1.0, phases, {}, {"body_length": 2}, **done), "request", "url")


def figures_of(*answers: SliceAnswer, concurrency: int = 1) -> AbFigures:
    figures = ab_figures("url", "request", concurrency, answers)
    assert figures is not None
    return figures


times = st.lists(st.integers(10**4, 10**10), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(times, times)
def test_ab_figures_merged_from_two_measurements_equal_the_figures_of_all_requests(
    one: list[int], other: list[int]
) -> None:
    figures, every = figures_of(answer(one, one), answer(other, other)), sorted(one + other)
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
def test_requests_on_open_connections_have_connect_time_zero(connect: list[int], reused: int) -> None:
    figures = figures_of(answer([max(connect) + 5 * MS] * (len(connect) + reused), connect))
    line, every = figures.times["connect"], sorted([0] * reused + connect)
    assert line.min * MS == pytest.approx(every[0])
    assert line.max * MS == pytest.approx(every[-1])
    assert line.mean * MS == pytest.approx(statistics.fmean(every))
    assert line.median * MS == pytest.approx(statistics.median(every), rel=DIGITS)
    assert line.sd * MS == pytest.approx(statistics.stdev(every) if len(every) > 1 else 0.0, rel=1e-6, abs=1e3)


def test_rates_are_computed_as_by_apachebench() -> None:
    figures = figures_of(answer([2 * MS] * 200, [MS] * 200), concurrency=4)
    assert figures.requests_per_second == pytest.approx(200.0)
    assert (figures.ms_per_request, figures.ms_across_all) == (pytest.approx(20.0), pytest.approx(5.0))
    assert figures.kbytes_per_second == pytest.approx(200 * 140 / 1024)
    assert (figures.transferred_bytes, figures.html_bytes, figures.document_bytes) == (28_000, 400, 2)


@pytest.mark.parametrize(
    ("connections", "keep_alive"),
    [
        # Connections opened by four workers for 100 requests, and requests that count as keep-alive requests.
        (4, 100),  # The server closed no connection.
        (14, 90),  # The server closed ten connections, so ten were opened to replace them.
        (100, 0),  # The server closed every connection after one request.
    ],
)
def test_requests_on_replaced_connections_are_not_counted_as_keep_alive_requests(
    connections: int, keep_alive: int
) -> None:
    assert figures_of(answer([MS] * 100, [MS] * connections), concurrency=4).keep_alive == keep_alive


def test_failures_are_counted_in_the_classes_of_apachebench() -> None:
    classes = ("refused", "tls_handshake", "reset", "short_body", "timeout")
    errors: list[ClassifiedError] = [error_of(name, "", 2**place) for place, name in enumerate(classes)]
    statuses = {"http.status.200": 5, "http.status.204": 1, "http.status.404": 3, "http.status.500": 1}
    counts = counts_of(10, 0) | statuses | {"http.other_length": 5}
    figures = figures_of(answer([MS] * 10, [MS] * 10, errors=errors, counts=counts))
    assert figures.failed == {"connect": 3, "receive": 12, "length": 5, "exceptions": 16}
    assert (figures.not_2xx, figures.complete) == (4, 10)


def test_run_without_any_answered_request_has_no_figures() -> None:
    assert ab_figures("url", "request", 1, [answer([])]) is None
    assert ab_figures("url", "request", 1, []) is None
