"""The report of several loads: the cost at each load, and the highest load that every variant carries."""

from __future__ import annotations

import io

from rich.console import Console

from costof.report import render_html, render_terminal
from costof.report.result import Result
from costof.study.load import RequestedLoad
from tests.fake_run import STARTED, fake_result
from tests.report.results import NOISE, Golden, spaced
from tests.support.small_plans import plan_of
from tests.truths.at_load import Growing, Saturated


def over_loads(most: float, truth: type[Saturated | Growing] = Saturated) -> Result:
    """Return the result at three loads of operations, of which TLS carries at most `most` a second."""
    load = RequestedLoad("30/s,100/s,300/s", pool="50")
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=load)
    return fake_result(plan, truth(most), f"{STARTED[:10]}-postgres-tls-loads", noise=NOISE)


def test_verdict_names_the_highest_load_that_every_variant_carries() -> None:
    verdict = spaced(over_loads(200.0).summary.verdict)
    assert verdict.startswith("TLS 1.3 (rsa-2048) adds 0.01")
    assert "to a query at 100 queries a second, the highest of these loads that every variant carries." in verdict
    assert verdict.endswith("TLS 1.3 (rsa-2048) cannot carry 300 queries a second (it served 200).")


def test_load_at_which_the_queue_grows_is_not_carried() -> None:
    verdict = spaced(over_loads(200.0, Growing).summary.verdict)
    assert verdict.endswith("TLS 1.3 (rsa-2048) cannot carry 300 queries a second (its queue grew).")


def test_load_that_every_variant_carries_has_a_cost_and_no_overload() -> None:
    result = over_loads(5000.0)
    assert spaced(result.summary.verdict).endswith("at 300 queries a second, the highest of these loads.")
    assert [figure.label for figure in result.summary.figures] == [
        "a query, 30/s",
        "a query, 100/s",
        "a query, 300/s",
    ]


def test_lowest_load_that_is_too_high_is_said_to_be() -> None:
    assert over_loads(20.0).summary.verdict.startswith("Not every variant carries even 30 queries a second: list lower")


def test_terminal_shows_latency_over_load_as_a_picture(golden: Golden) -> None:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    render_terminal(over_loads(200.0), console)
    assert isinstance(console.file, io.StringIO)
    golden("latency_over_load.txt", console.file.getvalue())


def test_page_has_a_panel_for_each_percentile() -> None:
    page = render_html(over_loads(5000.0))
    assert all(f"{percentile} of a query, ms" in page for percentile in ("p50", "p95", "p99"))
