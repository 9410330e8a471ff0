"""The report of chained replication: six tables, trees in words and as a picture, advice."""

from __future__ import annotations

import re

import pytest
from report_sample import Golden, drawn
from rich.cells import cell_len
from test_report_terminal import printed

from costof.report import analyse, render_markdown
from costof.report.result import Result
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
    section = re.search(r'<section id="sync_tree".*?</section>', drawn(published), flags=re.DOTALL)
    assert section is not None
    wide, _ = re.findall(r"<svg.*?</svg>", section[0], flags=re.DOTALL)
    # Three sizes as a star, three as a chain, and what MongoDB chose at 15 nodes.
    assert len(re.findall(r">\s*\d+ members: [a-z ]+<", wide)) == 7
    assert len(re.findall(r">\s*R8\s*<", wide)) == 3
    assert "as star: no difference: same tree" in section[0]
