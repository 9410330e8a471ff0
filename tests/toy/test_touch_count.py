"""The effort to add a report section, in new files: an example is added to a copy of the repository."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.toy.tree import Tree
from tests.truths.http_tls_termination import HttpTruth


@pytest.mark.slow
def test_adding_a_report_section_needs_one_new_file(tmp_path: Path) -> None:
    """The new section appears in result.json and in all forms of the report: console, Markdown and HTML page."""
    tree = Tree(tmp_path / "toys")
    tree.lay("section")
    assert tree.touched() == ["costof/report/sections/slices.py"]
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
