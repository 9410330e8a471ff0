"""Tests of whole pages in a real browser: the kept runs of all studies and a comparison of two commands."""

from __future__ import annotations

import re
from pathlib import Path

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page

from costof.report import analyse, render_html
from costof.report.result import Result
from costof.results.ledger import Ledger
from manual.reports import RUNS, results
from tests.fake_run import STARTED, Truth, fake_result
from tests.report.results import NOISE, drawn, mongodb
from tests.support.browser import opened, size
from tests.support.small_plans import commands_plan

LAPTOP, DESKTOP, PHONE = (1280, 800), (1920, 1080), (360, 740)
STUDIES = sorted(path.name.partition(".")[0] for path in RUNS.glob("*.tar.xz"))
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
#: Pictures are left out, because checking the thousands of their elements takes minutes. Each has a title and a text.
RUN_AXE = "axe.run({exclude: [['svg']]}, {resultTypes: ['violations']})"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
BOTTOM = """names => Math.max(...names.map(name =>
    [...document.querySelectorAll(name)].filter(each => each.checkVisibility()).map(each => each.getBoundingClientRect().bottom)
).flat())"""
HEAD = [".verdict", ".tiles", ".fold .picture svg", "#calculator-outputs"]
"""The answer: sentence, figures, picture and load."""


def serious(page: Page) -> list[str]:
    """Return the serious and critical violations that axe finds, with all sections open."""
    page.evaluate(OPEN_ALL)
    page.evaluate(AXE)
    found = page.evaluate(RUN_AXE)["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def scrolls_sideways(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth"))


def check(page: Page, width: int) -> None:
    assert not serious(page)
    assert not scrolls_sideways(page)
    if width == LAPTOP[0]:
        page.reload()
        assert page.evaluate(BOTTOM, HEAD) <= LAPTOP[1]


def written(result: Result, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(drawn(result), encoding="utf-8")
    assert path.stat().st_size < 600_000
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(mongodb(), tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize(("window", "scheme"), [(LAPTOP, "light"), (LAPTOP, "dark"), (PHONE, "light")])
def test_page_is_accessible_and_fits_its_window(
    chromium: Browser, path: Path, window: tuple[int, int], scheme: str
) -> None:
    with opened(chromium, path, **size(*window), color_scheme=scheme, bypass_csp=True) as page:
        check(page, window[0])
