"""The report of column encryption: the published tables, and where the loss goes."""

from __future__ import annotations

import re

import pytest
from report_sample import Golden, drawn, with_sections
from rich.cells import cell_len
from test_report_html import without_pictures
from test_report_terminal import printed

from costof.report import analyse, render_markdown
from costof.report.result import Result
from tests.unit.tpcc_ledger import NAME, tpcc_ledger, tpcc_plan


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("published") / "run"
    result = analyse(tpcc_ledger(folder, tpcc_plan("published"), rounds=6))
    return result.model_copy(update={"run": f"2026-01-01T00-00-00-{NAME}"})


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Result:
    result = analyse(tpcc_ledger(tmp_path_factory.mktemp("quick") / "run", tpcc_plan(), rounds=6))
    return result.model_copy(update={"run": f"2026-01-01T00-00-00-{NAME}"})


def test_terminal_looks_as_agreed(quick: Result, golden: Golden) -> None:
    golden("encryption-terminal-100.txt", printed(quick, 100))


def test_markdown_looks_as_agreed(published: Result, golden: Golden) -> None:
    golden("encryption.md", render_markdown(published))


@pytest.mark.parametrize("width", [50, 80, 140])
def test_no_line_is_wider_than_the_console(published: Result, width: int) -> None:
    assert max(map(cell_len, printed(published, width).splitlines())) <= width


def test_the_page_says_where_the_loss_goes(quick: Result) -> None:
    page = without_pictures(drawn(quick))
    section = re.search(r'<section id="breakdown".*?</section>', page, flags=re.DOTALL)
    assert section is not None
    assert "driver (client)" in section[0]
    assert "the gateway&#39;s presence" in section[0]
    assert page.count("by terminals</caption>") == 3


def test_it_is_no_section_of_other_studies(quick: Result) -> None:
    page = drawn(with_sections(quick, breakdown=None))
    assert 'id="breakdown"' not in page
