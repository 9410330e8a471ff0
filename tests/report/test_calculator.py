"""Tests of the page's calculator in a real browser, against the same arithmetic in Python."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from costof import format as fmt
from costof.report.result import Result
from costof.report.sections.cost_model.calculator import Load, added, default_load, extras, fixed_rows, shown
from costof.results.index import Index
from tests.report.results import EVERY_TRANSPORT, at_load, drawn, transport
from tests.support.browser import browser, complaints, requested

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

LOADS = [
    Load(44.648),
    Load(0.0, 1, 1, 0.01),
    Load(170.126, 250, 12.5, 1.75),
    Load(12, 1000, 20000, 0.048),
    Load(44.648, 10, 100, 0.05, bandwidth_mbit=10),
    Load(3.5, 2, 0, 0),
    Load(2, 20, 300, 0.05, clients=25_000),
]
# Reads the rendered text of the visible rows.
READ_OUTPUTS = """
return Array.from(document.querySelectorAll("#calculator-outputs tbody tr"))
    .filter(row => row.checkVisibility())
    .map(row => [row.dataset.protection, Array.from(row.cells).slice(1).map(cell => cell.innerText)]);
"""
FIELDS = ("round_trip_ms", "operations", "connections_per_second", "price", "clients", "bandwidth_mbit")


@pytest.fixture(scope="module")
def result() -> Result:
    return transport(every=True)


@pytest.fixture(scope="module")
def path(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    written = tmp_path_factory.mktemp("page") / "report.html"
    written.write_text(drawn(result), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def opened(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with browser(tmp_path_factory.mktemp("profile")) as driver:
        driver.get(path.as_uri())
        yield driver


@pytest.fixture
def page(opened: Chrome) -> Chrome:
    """Return the page, freshly loaded."""
    opened.refresh()
    return opened


def put(page: Chrome, name: str, text: str) -> None:
    """Replace the content of a field by typing."""
    page.find_element(By.ID, f"calculator-{name}").send_keys(Keys.CONTROL, "a", Keys.NULL, Keys.BACKSPACE, text)


def put_load(page: Chrome, load: Load) -> None:
    for name in FIELDS:
        value = getattr(load, name)
        put(page, name, "" if value is None else f"{value:g}" if name != "round_trip_ms" else str(value))


def outputs(page: Chrome) -> dict[str, list[str]]:
    """Return the figures in the visible rows, by protection."""
    rows: list[tuple[str, list[str]]] = page.execute_script(READ_OUTPUTS)
    return {protection: [" ".join(figure.split()) for figure in figures] for protection, figures in rows}


def computed(result: Result, load: Load) -> dict[str, list[str]]:
    found = extras(Index(result), result.sections.cost_model)
    return {each.protection: [plain(figure) for figure in shown(added(each, load))] for each in found}


def plain(figure: object) -> str:
    return str(figure).replace(fmt.NBSP, " ")


def error_text(page: Chrome, name: str) -> str:
    return page.find_element(By.ID, f"calculator-{name}-error").text


def test_calculator_works_from_a_file_without_network(page: Chrome, path: Path, result: Result) -> None:
    assert requested(page)[-1] == path.as_uri()
    assert {url.split(":")[0] for url in requested(page)} <= {"file"}
    assert not complaints(page)
    assert page.find_element(By.ID, "calculator-form").is_displayed()
    assert not page.find_element(By.ID, "calculator-fixed").is_displayed()
    default = default_load(Index(result), result.sections.cost_model)
    assert outputs(page) == computed(result, default), "figures before any input"


def test_calculator_of_a_run_at_a_load_keeps_its_queries_fixed(opened: Chrome, path: Path, tmp_path: Path) -> None:
    result = at_load()
    written = tmp_path / "load.html"
    written.write_text(drawn(result), encoding="utf-8")
    opened.get(written.as_uri())
    try:
        default = default_load(Index(result), result.sections.cost_model)
        fields = [
            each.get_attribute("name") for each in opened.find_elements(By.CSS_SELECTOR, "#calculator-form input")
        ]
        assert fields == ["round_trip_ms", "connections_per_second", "price", "bandwidth_mbit"]
        assert not complaints(opened)
        for load in (default, replace(default, round_trip_ms=12.0, connections_per_second=50.0)):
            for name in ("round_trip_ms", "connections_per_second"):
                put(opened, name, f"{getattr(load, name):g}")
            (figures,) = outputs(opened).values()
            assert figures == next(iter(computed(result, load).values()))[:-1]
    finally:
        opened.get(path.as_uri())


@pytest.mark.parametrize("load", LOADS, ids=str)
def test_typed_values_give_the_same_figures_as_python(page: Chrome, result: Result, load: Load) -> None:
    put_load(page, load)
    assert outputs(page) == computed(result, load)
    assert all(error_text(page, name) == "" for name in FIELDS)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
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
    ],
)
def test_invalid_input_is_explained_beside_its_field_and_gives_no_figures(
    page: Chrome, result: Result, name: str, text: str, words: str
) -> None:
    put(page, name, text)
    assert error_text(page, name).startswith(words)
    assert page.find_element(By.ID, f"calculator-{name}").get_attribute("aria-invalid") == "true"
    assert [error_text(page, other) for other in FIELDS if other != name] == [""] * (len(FIELDS) - 1)
    assert {figure for figures in outputs(page).values() for figure in figures} == {fmt.NONE}
    put(page, name, "7")
    assert error_text(page, name) == ""
    assert fmt.NONE not in outputs(page)["tls"]


def test_buttons_set_the_distances_of_the_run(page: Chrome, result: Result) -> None:
    field = page.find_element(By.ID, "calculator-protection")
    field.send_keys(Keys.TAB)
    names = []
    for _ in range(3):
        focused = page.switch_to.active_element
        names.append(focused.text)
        if "us-eu" in focused.text:
            focused.send_keys(Keys.ENTER)
        focused.send_keys(Keys.TAB)
    assert [name.split(",")[0] for name in names] == ["lan", "us-us", "us-eu"]
    assert page.find_element(By.ID, "calculator-round_trip_ms").get_attribute("value") == "170.126"
    assert outputs(page) == computed(result, Load(170.126))


def test_tab_key_moves_through_the_fields_in_order(page: Chrome) -> None:
    page.find_element(By.ID, "calculator-round_trip_ms").click()
    order = []
    for _ in (*FIELDS, "protection"):
        order.append(page.switch_to.active_element.get_attribute("name"))
        page.switch_to.active_element.send_keys(Keys.TAB)
    assert order == [*FIELDS, "protection"]


def test_enter_key_does_not_submit_the_form(page: Chrome, path: Path) -> None:
    put(page, "operations", "20" + Keys.ENTER)
    assert page.current_url == path.as_uri()
    assert page.find_element(By.ID, "calculator-operations").get_attribute("value") == "20"


def test_menu_shows_a_single_protection(page: Chrome) -> None:
    choice = Select(page.find_element(By.ID, "calculator-protection"))
    assert [option.get_attribute("value") for option in choice.options] == ["", *EVERY_TRANSPORT]
    choice.select_by_value("ssh-aes256-gcm")
    assert list(outputs(page)) == ["ssh-aes256-gcm"]
    choice.select_by_value("")
    assert list(outputs(page)) == list(EVERY_TRANSPORT)


@pytest.fixture
def unscripted(opened: Chrome) -> Iterator[Chrome]:
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    opened.refresh()
    yield opened
    opened.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_page_without_scripts_shows_the_fixed_table(unscripted: Chrome, result: Result) -> None:
    assert not unscripted.find_element(By.ID, "calculator-form").is_displayed()
    fixed = unscripted.find_element(By.ID, "calculator-fixed")
    assert "script, which did not run" in fixed.text
    rows = [row.text for row in fixed.find_elements(By.CSS_SELECTOR, "tbody tr")]
    expected = fixed_rows(Index(result), result.sections.cost_model)
    assert len(rows) == len(expected) == 3 * len(EVERY_TRANSPORT)
    for row, (where, label, figures) in zip(rows, expected, strict=True):
        read = " ".join(row.split())
        assert read == plain(" ".join([where, label, *(str(each) for each in figures)]))


@pytest.fixture
def phone(opened: Chrome) -> Iterator[Chrome]:
    metrics = {"width": 420, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    opened.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    opened.refresh()
    yield opened
    opened.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_page_does_not_scroll_sideways_on_a_phone(phone: Chrome) -> None:
    assert phone.execute_script("return window.innerWidth") == 420
    assert phone.execute_script("return document.documentElement.scrollWidth") <= 420
