"""Whole pages in a real browser. Slow tests open the reports of all stored runs, and of a comparison of commands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from costof.report import analyse, render_embedded, render_html
from costof.report.result import Result
from costof.results.ledger import Ledger
from manual.reports import DOCS, results
from tests.report.results import mongodb, spaced
from tests.support.browser import opened, size

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LAPTOP, DESKTOP, PHONE = (1280, 800), (1920, 1080), (360, 740)
#: Pictures are left out, because checking their thousands of elements takes minutes.
RUN_AXE = "axe.run({exclude: [['svg']]}, {resultTypes: ['violations']})"
OPEN_ALL = "document.querySelectorAll('details').forEach(each => each.open = true)"
BOTTOM = """names => Math.max(...names.map(name =>
    [...document.querySelectorAll(name)].filter(each => each.checkVisibility())
        .map(each => each.getBoundingClientRect().bottom)
).flat())"""
HEAD = [".verdict", ".tiles", ".fold .picture svg", "#calculator-outputs"]
"""The parts at the top of a page: a sentence, figures, a picture and the calculator."""


def serious(page: Page) -> list[str]:
    """Return the serious and critical violations of accessibility rules that axe finds in the page."""
    package = find_spec("axe_playwright_python")
    assert package is not None
    assert package.origin is not None
    page.evaluate(Path(package.origin).with_name("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate(RUN_AXE)["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


def scrolls_sideways(page: Page) -> bool:
    # Elements may end between two pixels, so one pixel too many is no overflow.
    return bool(page.evaluate("document.documentElement.scrollWidth > innerWidth + 1"))


def check_fit(page: Page, window: tuple[int, int]) -> None:
    """Assert that the page needs no scrolling sideways and, on a laptop, that its top (`HEAD`) needs none at all."""
    if window == LAPTOP:
        assert page.locator(".fold .picture").count() == 1
        assert page.evaluate(BOTTOM, HEAD) <= LAPTOP[1]
    page.evaluate(OPEN_ALL)
    assert not scrolls_sideways(page)


def written(result: Result, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(render_html(result), encoding="utf-8")
    assert path.stat().st_size < 600_000
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(mongodb(), tmp_path_factory.mktemp("page"))


@pytest.mark.parametrize(("window", "scheme"), [pytest.param(LAPTOP, "dark", marks=pytest.mark.slow), (PHONE, "light")])
def test_page_is_accessible_and_fits_its_window(
    chromium: Browser, path: Path, window: tuple[int, int], scheme: str
) -> None:
    with opened(chromium, path, **size(*window), color_scheme=scheme, bypass_csp=True) as page:
        check_fit(page, window)
        assert not serious(page)


@pytest.fixture(scope="module")
def page(chromium: Browser, path: Path) -> Iterator[Page]:
    with opened(chromium, path, **size(*LAPTOP), permissions=["clipboard-read", "clipboard-write"]) as page:
        yield page


def test_link_to_a_section_opens_and_shows_it(page: Page) -> None:
    table = page.locator("#costs table").first
    assert not table.is_visible()
    page.locator('nav a[href="#costs"]').click()
    assert table.is_visible()
    assert table.evaluate("each => each.getBoundingClientRect().top < innerHeight")
    assert page.locator(".bar").evaluate("each => each.getBoundingClientRect().top") == 0
    page.locator('#certainty .permalink[href="#certainty"]').click()
    assert page.locator("#certainty table").first.is_visible()


def figures(result: Result) -> list[str]:
    keys = result.summary.figures
    return [spaced(text) for key in keys for text in (key.added, key.interval, key.whole_label) if text]


def test_markdown_copied_from_the_page_has_the_summary_of_the_report(page: Page) -> None:
    page.locator('.bar a[href="#pass-on"]').click()
    page.locator("#copy-markdown").click()
    page.locator("#pass-on-status", has_text="Copied.").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    result = mongodb()
    assert spaced(result.summary.verdict) in copied
    assert not [text for text in figures(result) if text not in copied]
    assert result.command in copied


def test_picture_for_sharing_shows_the_key_figures_and_can_be_saved_as_svg_or_png(page: Page, tmp_path: Path) -> None:
    page.locator('.bar a[href="#pass-on"]').click()
    with page.expect_download() as download:
        page.locator("#card-svg").click()
    card = tmp_path / "card.svg"
    download.value.save_as(card)
    words = re.sub(r"<[^>]+>", " ", card.read_text(encoding="utf-8"))
    result = mongodb()
    shown = [text for key in result.summary.figures[:4] for text in (key.added, key.interval)]
    assert not [text for text in shown if spaced(text) not in spaced(words)]
    assert result.command in words
    widths = page.locator(".card text").evaluate_all("all => all.map(each => each.getBBox()).map(b => b.x + b.width)")
    assert max(widths) <= 1200
    with page.expect_download() as download:
        page.locator("#card-png").click()
    assert download.value.suggested_filename.endswith(".png")
    download.value.save_as(tmp_path / "card.png")
    assert (tmp_path / "card.png").read_bytes().startswith(b"\x89PNG")


def test_printed_page_has_the_summary_of_the_report_on_its_first_sheet(chromium: Browser, path: Path) -> None:
    # The printable part of an A4 page, in CSS pixels.
    with opened(chromium, path, **size(688, 1024), color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#answer").evaluate("each => each.getBoundingClientRect().height") <= 1024
        assert page.locator("#costs table").first.is_visible()
        assert not scrolls_sideways(page)
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(31, 39, 48)", "dark ink on paper"


@pytest.mark.parametrize("window", [pytest.param(LAPTOP, marks=pytest.mark.slow), PHONE])
def test_frame_of_an_embedded_report_is_as_high_as_its_content(
    chromium: Browser, window: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "embedded.html").write_text(render_embedded(mongodb()), encoding="utf-8")
    script = (DOCS / "site.js").read_text(encoding="utf-8")
    frame = '<div class="answer"><iframe src="embedded.html" style="height: 10px; width: 100%"></iframe></div>'
    (tmp_path / "page.html").write_text(f"<!doctype html>{frame}<script>{script}</script>", encoding="utf-8")
    page = chromium.new_page(**size(*window))
    try:
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function("document.querySelector('iframe').offsetHeight > 100")
        inside = page.frames[1]
        assert inside.evaluate("document.documentElement.scrollHeight <= innerHeight + 1")
        assert inside.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")
        assert inside.locator("#calculator-form").is_visible()
        assert inside.locator(".picture svg:visible").count() == 1
    finally:
        page.close()


@pytest.fixture(scope="module")
def every_page(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    kept, folder = results(), tmp_path_factory.mktemp("versus") / "run"
    command = [sys.executable, "-m", "costof", "versus", "true", "sleep 0.01", "--rounds", "4", "--out", folder]
    subprocess.run(command, check=True, capture_output=True)
    kept["versus"] = analyse(Ledger.open(folder))
    return [written(result, tmp_path_factory.mktemp(name)) for name, result in kept.items()]


@pytest.mark.slow
def test_every_page_is_accessible_and_fits_every_window(chromium: Browser, every_page: list[Path]) -> None:
    for path in every_page:
        for window in (LAPTOP, DESKTOP, PHONE):
            for scheme in ("light", "dark"):
                with opened(chromium, path, **size(*window), color_scheme=scheme, bypass_csp=True) as page:
                    check_fit(page, window)
                    # The check takes seconds, so only one window for each scheme has it.
                    if window == (PHONE if scheme == "light" else LAPTOP):
                        assert not serious(page)
