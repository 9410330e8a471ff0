"""The calculator on a report's HTML page computes, in a real browser, the same figures as costof in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from costof import format as fmt
from costof.report.result import Result
from costof.report.sections.cost_model.calculator import Load, added, default_load, extras, fixed_rows, outputs, shown
from costof.results.index import Index
from costof.statistics.estimate import Estimate
from costof.study.load import CONNECTION, QUERY
from tests.report.results import drawn, result_of, target_at_load, transport, with_sections
from tests.support.browser import opened, size

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOADS = [
    Load(44.648),
    Load(0.0, 1, 1, 0.01),
    Load(170.126, 250, 12.5, 1.75),
    Load(12, 1000, 20000, 0.048),
    Load(44.648, 10, 100, 0.05, bandwidth_mbit=10),
    Load(3.5, 2, 0, 0),
    Load(2, 20, 300, 0.05, clients=25_000),
]
READ_ALL = """
Array.from(document.querySelectorAll("#calculator-all tbody tr"))
    .map(row => [row.dataset.protection, Array.from(row.cells).slice(1).map(cell => cell.innerText)])
"""
READ_SHOWN = 'Array.from(document.querySelectorAll("#calculator-outputs td")).map(cell => cell.innerText)'
PROTECTIONS = ("tls", "ssh-aes256-ctr")
FIELDS = ("connections_per_second", "operations", "round_trip_ms", "price", "clients", "bandwidth_mbit")


@pytest.fixture(scope="module")
def result() -> Result:
    """Return the result of a run that measured the memory of some protections' connections."""
    result = transport()
    memory = {"tls": Estimate(value=44_700, low=43_300, high=46_100, rounds=10)}
    return with_sections(result, cost_model=result.sections.cost_model.model_copy(update={"memory_bytes": memory}))


@pytest.fixture(scope="module")
def path(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("page") / "report.html"
    written.write_text(drawn(result), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def opened_page(chromium: Browser, path: Path) -> Iterator[Page]:
    with opened(chromium, path, "#calculator", **size(1280, 800)) as page:
        yield page


@pytest.fixture
def page(opened_page: Page) -> Page:
    """Return the page with the section of all protections open, and the run's own load in the calculator's fields."""
    # The button may be hidden, so dispatch the event instead of clicking.
    opened_page.locator("#calculator-reset").dispatch_event("click")
    return opened_page


def put(page: Page, name: str, text: str) -> None:
    page.locator(f"#calculator-{name}").fill(text)


def put_load(page: Page, load: Load) -> None:
    for name in FIELDS:
        value = getattr(load, name)
        put(page, name, "" if value is None else f"{value:g}" if name != "round_trip_ms" else str(value))


def read_all(page: Page) -> dict[str, list[str]]:
    rows: list[tuple[str, list[str]]] = page.evaluate(READ_ALL)
    return {protection: [" ".join(figure.split()) for figure in figures] for protection, figures in rows}


def shown_outputs(page: Page) -> list[str]:
    figures: list[str] = page.evaluate(READ_SHOWN)
    return [" ".join(figure.split()) for figure in figures]


def computed(result: Result, load: Load) -> dict[str, list[str]]:
    model = result.sections.cost_model
    return {
        each.protection: [plain(figure) for figure in shown(added(each, load), outputs(model))]
        for each in extras(Index(result), model)
    }


def plain(figure: object) -> str:
    return str(figure).replace(fmt.NBSP, " ")


def error_text(page: Page, name: str) -> str:
    return page.locator(f"#calculator-{name}-error").inner_text()


def test_calculator_in_a_page_opened_from_disk_shows_the_figures_for_the_default_load(
    page: Page, result: Result
) -> None:
    assert page.locator("#calculator-form").is_visible()
    assert not page.locator("#calculator-fixed").is_visible()
    default = computed(result, default_load(Index(result), result.sections.cost_model))
    assert read_all(page) == default, "figures before any input"
    assert shown_outputs(page) == default["tls"]


@pytest.fixture(scope="module")
def path_at_load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("load") / "report.html"
    written.write_text(drawn(target_at_load()), encoding="utf-8")
    return written


def test_calculator_of_a_run_at_a_load_begins_with_the_key_figures_of_the_report(
    chromium: Browser, path_at_load: Path
) -> None:
    """Regression: the figures were for the measured distance, and the servers' cores included the client's."""
    result = target_at_load()
    with opened(chromium, path_at_load) as page:
        default = default_load(Index(result), result.sections.cost_model)
        assert default == Load(2.0, 20, 300)
        fields = page.locator("#calculator-form input[name]").evaluate_all("all => all.map(each => each.name)")
        assert fields == ["connections_per_second", "round_trip_ms", "price", "bandwidth_mbit"]
        heads = page.locator("#calculator-outputs th").all_inner_texts()
        values = dict(zip(heads, (text.split(" [")[0] for text in shown_outputs(page)), strict=True))
        answer = {figure.name: plain(figure.added) for figure in result.summary.figures}
        assert values["to a connection"] == answer[CONNECTION]
        assert values["to an operation"] == answer[QUERY]
        assert values["cores of the servers"] == f"{answer['cores']} cores"
        assert "cores of the client" in values
        for load in (default, replace(default, round_trip_ms=12.0, connections_per_second=50.0)):
            for name in ("round_trip_ms", "connections_per_second"):
                put(page, name, f"{getattr(load, name):g}")
            assert shown_outputs(page) == computed(result, load)["tls"]


def test_calculator_of_durable_commits_computes_the_cost_on_a_chosen_disk(chromium: Browser, tmp_path: Path) -> None:
    result = result_of("mariadb-durability")
    written = tmp_path / "commits.html"
    written.write_text(drawn(result), encoding="utf-8")
    with opened(chromium, written, "#calculator", **size(1280, 800)) as page:
        fields = page.locator("#calculator-form input[name]").evaluate_all("all => all.map(each => each.name)")
        assert fields == ["connections_per_second", "round_trip_ms", "flush_ms", "price", "bandwidth_mbit"]
        load = default_load(Index(result), result.sections.cost_model)
        assert read_all(page) == computed(result, load)
        page.get_by_role("button", name="cloud volume").click()
        assert read_all(page) == computed(result, replace(load, flush_ms=1.2))
        assert page.url.endswith("#flush=1.2")


def test_calculator_says_which_values_in_its_url_have_no_effect(chromium: Browser, path_at_load: Path) -> None:
    result = target_at_load()
    for fragment, message in (
        ("#connections=100&rtt=12&queries=20", ""),
        (
            "#connections=100&rtt=12&queries=5",
            "“queries=5” in this page's address has no effect: each connection of this run has 20 queries.",
        ),
    ):
        with opened(chromium, path_at_load, fragment) as page:
            assert shown_outputs(page) == computed(result, Load(12, 20, 100))["tls"]
            assert page.locator("#calculator-without").inner_text() == message


def test_calculator_in_the_browser_computes_the_same_figures_as_the_python_code(page: Page, result: Result) -> None:
    for load in LOADS:
        put_load(page, load)
        assert read_all(page) == computed(result, load), load
        assert all(error_text(page, name) == "" for name in FIELDS)


INVALID = [
    ("round_trip_ms", "-1", "Must be 0 or more."),
    ("round_trip_ms", "", "Enter a number."),
    ("round_trip_ms", "far", "Not a number"),
    ("round_trip_ms", "1,5", "Not a number"),
    ("round_trip_ms", "0x10", "Not a number"),
    ("round_trip_ms", "1e400", "Must be 1,000,000,000 or less."),
    ("operations", "0", "Must be 1 or more."),
    ("connections_per_second", "-0.5", "Must be 0 or more."),
    ("price", "five", "Not a number"),
    ("price", "NaN", "Not a number"),
    ("bandwidth_mbit", "0", "Must be more than 0."),
    ("bandwidth_mbit", "-10", "Must be more than 0."),
]


def test_invalid_input_is_explained_next_to_the_input_field_and_gives_no_figures(page: Page) -> None:
    for name, text, words in INVALID:
        put(page, name, text)
        assert error_text(page, name).startswith(words), (name, text)
        assert page.locator(f"#calculator-{name}").get_attribute("aria-invalid") == "true"
        assert [error_text(page, other) for other in FIELDS if other != name] == [""] * (len(FIELDS) - 1)
        assert {figure for figures in read_all(page).values() for figure in figures} == {fmt.NONE}
        put(page, name, "7")
        assert error_text(page, name) == ""
        assert fmt.NONE not in read_all(page)["tls"]


def test_button_of_a_distance_sets_the_round_trip_time(page: Page, result: Result) -> None:
    buttons = page.locator(".presets button")
    assert buttons.all_inner_texts() == ["lan", "us-us", "us-eu"]
    buttons.nth(2).press("Enter")
    assert page.locator("#calculator-round_trip_ms").input_value() == "170.126"
    assert read_all(page) == computed(result, Load(170.126))


def test_slider_and_number_field_of_a_value_change_together(page: Page, result: Result) -> None:
    slider = page.locator("#calculator-connections_per_second-slider")
    slider.press("End")
    assert page.locator("#calculator-connections_per_second").input_value() == "10000"
    default = default_load(Index(result), result.sections.cost_model)
    assert read_all(page) == computed(result, replace(default, connections_per_second=10_000.0))
    put(page, "connections_per_second", "1")
    assert float(slider.input_value()) == 0


def test_page_stores_the_entered_load_in_its_url_and_restores_it(
    page: Page, chromium: Browser, path: Path, result: Result
) -> None:
    put(page, "connections_per_second", "300")
    put(page, "operations", "20")
    put(page, "round_trip_ms", "2")
    page.locator("#calculator-protection").select_option("ssh-aes256-ctr")
    fragment = "#" + page.url.partition("#")[2]
    assert fragment == "#connections=300&queries=20&rtt=2&with=ssh-aes256-ctr"
    with opened(chromium, path, fragment) as other:
        expected = computed(result, Load(2, 20, 300))["ssh-aes256-ctr"]
        assert shown_outputs(page) == shown_outputs(other) == expected
        other.locator("#calculator-reset").click()
        assert "#" not in other.url


def test_enter_key_does_not_submit_the_form(page: Page) -> None:
    before = page.url
    page.locator("#calculator-operations").press("Enter")
    assert page.url == before


def test_calculator_shows_only_the_protection_chosen_in_the_menu(page: Page, result: Result) -> None:
    choice = page.locator("#calculator-protection")
    values = choice.locator("option").evaluate_all("all => all.map(each => each.value)")
    assert values == [*PROTECTIONS]
    choice.select_option("ssh-aes256-ctr")
    assert shown_outputs(page) == read_all(page)["ssh-aes256-ctr"]


def test_page_without_scripts_shows_the_figures_for_the_default_load(
    chromium: Browser, path: Path, result: Result
) -> None:
    with opened(chromium, path, "#calculator", java_script_enabled=False, **size(1280, 800)) as page:
        assert not page.locator("#calculator-form").is_visible()
        assert "allow this page's script" in page.locator("#calculator-example").inner_text()
        index, model = Index(result), result.sections.cost_model
        cells = page.locator("#calculator-outputs td").all_text_contents()
        assert [" ".join(cell.split()) for cell in cells] == computed(result, default_load(index, model))["tls"]
        fixed = page.locator("#calculator-fixed")
        fixed.locator("summary").click()
        rows = [" ".join(row.split()) for row in fixed.locator("tbody tr").all_inner_texts()]
        expected = fixed_rows(index, model)
        assert len(rows) == len(expected) == 3 * len(PROTECTIONS)
        for row, (where, label, figures) in zip(rows, expected, strict=True):
            assert row == plain(" ".join([where, label, *(str(each) for each in figures)]))
