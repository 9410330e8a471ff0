"""The report of chained replication: six tables, trees in words and as a picture, advice."""

from __future__ import annotations

import re

import pytest
from report_sample import Golden
from rich.cells import cell_len
from test_report_terminal import printed

from costof.analysis import analyse
from costof.analysis.result import Result
from costof.report import render_markdown
from costof.report.html import SECTIONS, environment
from costof.report.pictures.trees import trees
from costof.report.reading import Reading
from tests.unit.replication_ledger import replication_ledger, replication_plan


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("published") / "run"
    result = analyse(replication_ledger(folder, replication_plan("published"), rounds=6))
    return result.model_copy(update={"run": "2026-01-01T00-00-00-mongodb-chained-replication"})


def test_terminal_looks_as_agreed(published: Result, golden: Golden) -> None:
    golden("replication-terminal-100.txt", printed(published, 100))


def test_markdown_looks_as_agreed(published: Result, golden: Golden) -> None:
    golden("replication.md", render_markdown(published))


@pytest.mark.parametrize("width", [50, 80, 140])
def test_no_line_is_wider_than_the_console(published: Result, width: int) -> None:
    assert max(map(cell_len, printed(published, width).splitlines())) <= width


def test_every_tree_is_drawn_once_and_named_by_arm(published: Result) -> None:
    reading = Reading(published)
    picture = trees(reading)
    assert picture is not None
    # Three sizes as a star, three as a chain, and what MongoDB chose at 15 nodes.
    assert len(re.findall(r">\s*\d+ members: [a-z ]+<", picture.wide)) == 7
    assert len(re.findall(r">\s*R8\s*<", picture.wide)) == 3
    section = next(each for each in SECTIONS if each.name == "trees")
    assert section.shown(reading, {})
    page = environment().get_template("report.html.j2")
    text = page.render(reading=reading, result=published, pictures={"trees": picture}, sections=[section])
    assert "as star: no difference: same tree" in text
    assert text.count("<svg") == 2
