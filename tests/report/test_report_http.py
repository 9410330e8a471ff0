"""The HTTP study's report: mitigations, sizing and the table that ab prints, made from a run whose truth is known."""

from __future__ import annotations

import re

import pytest
from report_sample import Golden, drawn
from rich.cells import cell_len
from test_report_html import without_pictures
from test_report_terminal import printed

from costof.cli.ab_text import Asked, render_ab
from costof.document import format as fmt
from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.sections.ab.figures import ab_figures
from tests.unit.http_ledger import http_ledger, http_plan, slice_answer

ROUNDS = 6
DISTANCE_WORDS = ("farther", "Near and far", "distance", "calculator", "round-trip")


def of_profile(folder: object, profile: str) -> Result:
    result = analyse(http_ledger(folder / "run", http_plan(profile), rounds=ROUNDS, noise=0.02))  # type: ignore[operator]
    # The folder's name and the versions of this machine are no part of what was agreed.
    return result.model_copy(update={"run": "2026-01-01T00-00-00-http-tls-termination"})


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return of_profile(tmp_path_factory.mktemp("quick"), "quick")


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return of_profile(tmp_path_factory.mktemp("default"), "default")


@pytest.fixture(scope="module")
def page(quick: Result) -> str:
    return drawn(quick)


@pytest.mark.parametrize("width", [80, 140])
def test_terminal_looks_as_agreed(quick: Result, width: int, golden: Golden) -> None:
    golden(f"http-terminal-{width}.txt", printed(quick, width))


def test_terminal_of_every_arm_looks_as_agreed(every: Result, golden: Golden) -> None:
    golden("http-terminal-many-100.txt", printed(every, 100))


def test_markdown_looks_as_agreed(quick: Result, golden: Golden) -> None:
    golden("http.md", render_markdown(quick))


def test_html_looks_as_agreed(page: str, golden: Golden) -> None:
    golden("http.html", re.sub(r"<style>.*?</style>", "<style></style>", without_pictures(page), flags=re.DOTALL))


@pytest.mark.parametrize("width", [50, 80, 100, 140])
def test_no_line_is_wider_than_the_console(every: Result, width: int) -> None:
    assert max(map(cell_len, printed(every, width).splitlines())) <= width


def test_no_figure_of_abs_list_is_broken(every: Result) -> None:
    """A console of 80 columns holds every percentile of every arm whole."""
    text = printed(every, 80)
    for figures in every.sections.ab:
        for value in figures.percentiles.values():
            assert re.search(
                rf"(?<![\d,.]){re.escape(fmt.number(value, min(2, fmt.significant_decimals(value))))}\b", text
            )


def test_sections_of_distance_are_not_there(quick: Result, page: str) -> None:
    for text in (printed(quick), render_markdown(quick), without_pictures(page)):
        body = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
        assert not [word for word in DISTANCE_WORDS if word in body]


def test_the_page_shows_the_mitigations_as_a_picture_and_every_arm_as_ab_prints_it(quick: Result, page: str) -> None:
    assert '<section id="mitigations"' in page
    assert "What each mitigation recovers" in page
    for figures in quick.sections.ab:
        assert f"({figures.arm})" in page
    assert page.count(": connection times</caption>") == len(quick.sections.ab)


def test_markdown_tells_the_effect_beside_the_figure(quick: Result) -> None:
    text = render_markdown(quick)
    effect = next(e for e in quick.effects if (e.metric, e.arm) == ("wire.requests_per_second", "balancer"))
    assert effect.ratio is not None
    part = text[text.index("TLS at the balancer (balancer)") :]
    line = next(line for line in part.splitlines() if line.startswith("| Requests per second"))
    assert str(fmt.relative(effect.ratio)).replace(fmt.NBSP, " ") in line


def test_one_url_is_told_in_abs_own_layout(golden: Golden) -> None:
    plan = http_plan("quick")
    arm = next(arm for arm in plan.arms if arm.name == "balancer@keep_alive-100")
    answer = slice_answer(1, plan, "request", arm, 1.0, failed=3)
    assert answer.http is not None
    http = answer.http.model_copy(update={"statuses": {"200": 990, "404": 10}, "other_length": 10})
    figures = ab_figures("url", "request", 200, [answer.model_copy(update={"http": http})])
    assert figures is not None
    asked = Asked(
        host="shop.example",
        port=443,
        path="/?wait=200",
        keep_alive=True,
        software="nginx/1.22.1",
        tls="TLSv1.3,TLS_AES_256_GCM_SHA384,rsa-2048",
        server_name="shop.example",
    )
    golden("ab.txt", render_ab(asked, figures))


def test_one_request_has_no_percentiles() -> None:
    plan = http_plan("quick")
    answer = slice_answer(1, plan, "request", plan.arms[0], 1.0)
    one = {name: phase.model_copy(update={"count": 1}) for name, phase in answer.phases.items()}
    figures = ab_figures("url", "request", 1, [answer.model_copy(update={"phases": one})])
    assert figures is not None
    text = render_ab(Asked("h", 80, "/", False, None, None), figures)
    assert "Percentage of the requests" not in text
    assert "SSL/TLS" not in text
    assert "Keep-Alive" not in text
