"""Pages quote the published runs as the current analysis reports them. `python -m manual quote` updates the pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from costof.report.result import Result
from costof.studies import study_names
from costof.study.library import load_study
from manual.__main__ import PICTURE, PICTURED
from manual.picture import picture
from manual.reports import DOCS, QUOTED, pages_that_quote, results, update_quotes


@cache
def kept() -> dict[str, Result]:
    return results()


def test_each_study_has_a_published_run_that_is_complete() -> None:
    assert sorted(kept()) == study_names()
    assert [name for name, result in kept().items() if result.partial] == []


@pytest.mark.parametrize("page", pages_that_quote(), ids=lambda page: page.name)
def test_documentation_page_quotes_the_current_analysis_of_the_published_run(page: Path) -> None:
    assert page.read_text() == update_quotes(page.read_text(), kept())


def test_each_study_has_a_documentation_page_that_quotes_its_published_run() -> None:
    pages = {page.stem: page.read_text() for page in (DOCS / "studies").glob("*.md")}
    assert sorted(pages) == study_names()
    quoted = {name: [(kind, study) for _, kind, study, _ in QUOTED.findall(text)] for name, text in pages.items()}
    assert quoted == {name: [("answer", name), ("run", name)] for name in study_names()}


def test_title_of_each_study_page_is_the_question_of_the_study() -> None:
    titles = {page.stem: page.read_text().partition("\n")[0] for page in (DOCS / "studies").glob("*.md")}
    assert titles == {name: f"# {load_study(name).title}" for name in study_names()}


def test_published_picture_matches_the_published_run() -> None:
    assert PICTURE.read_text() == picture(kept()[PICTURED])


def test_published_results_contain_no_paths_of_the_measuring_machine() -> None:
    """Such a path would also contain the name of a user."""
    text = "".join(result.model_dump_json() for result in kept().values())
    assert re.findall(r"/(?:home|root|work)/[\w./-]*", text) == []
