"""The effort to add a study or a report section, in new files: examples are added to a copy of the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.toy.tree import Tree, assert_answered
from tests.truths.http_tls_termination import HttpTruth

pytestmark = pytest.mark.slow

STUDY = "costof/studies/mariadb-tls.toml"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    tree = Tree(tmp_path_factory.mktemp("toys"))
    tree.lay("study")
    tree.lay("section")
    assert tree.touched() == ["costof/report/sections/slices.py", STUDY]
    return tree


@pytest.mark.servers
def test_adding_a_study_needs_one_new_file(tree: Tree, tmp_path: Path) -> None:
    assert "What does TLS cost a client of MariaDB?" in tree.costof("list")
    tree.costof("run", "mariadb-tls", "--profile", "quick", "--rounds", "2", "--out", "run", cwd=tmp_path)
    assert_answered(tmp_path / "run")


def test_adding_a_report_section_needs_one_new_file(tree: Tree, tmp_path: Path) -> None:
    """The new section appears in result.json and in all forms of the report: console, Markdown and HTML page."""
    fake_run(tmp_path / "run", plan_of("http-tls-termination"), HttpTruth(), rounds=5)
    printed = tree.costof("show", "--full", "run", cwd=tmp_path)
    tree.costof("report", "run", cwd=tmp_path)
    written, markdown, page = (
        (tmp_path / "run" / name).read_text() for name in ("result.json", "report.md", "report.html")
    )
    result = json.loads(written)
    slices = result["sections"]["slices"]["slices"]
    assert slices > 0
    assert f"It took {slices} slices." in [sentence["text"] for sentence in result["answer"]]
    assert f"How often     {slices} slices & no more" in printed
    assert f"## How often\n\n- {slices} slices & no more" in markdown
    assert f"<li>{slices} slices &amp; no more</li>" in page
    assert page.index('id="sizing"') < page.index('id="slices"') < page.index('id="ab"')


@pytest.mark.slow
def test_added_report_section_passes_the_tests_of_report_sections(tree: Tree) -> None:
    schema = tree.run("python", "-m", "costof.report")
    (tree.root / "docs" / "result.schema.json").write_text(schema)
    tree.run("python", "-m", "pytest", "tests/contract/test_sections.py", "-k", "schema or slices or names_and_orders")
