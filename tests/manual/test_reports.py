"""The pages say of the runs that are kept what today's analysis says: `python -m manual quote` writes it into them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from costof.report.result import Result
from costof.studies import study_names
from manual.__main__ import PICTURE, PICTURED
from manual.picture import picture
from manual.reports import DOCS, QUOTED, pages_that_quote, results, update_quotes


@cache
def kept() -> dict[str, Result]:
    return results()


def test_each_study_has_a_run_that_answered_with_every_arm_proved() -> None:
    assert sorted(kept()) == study_names()
    assert [name for name, result in kept().items() if result.partial] == []


@pytest.mark.parametrize("page", pages_that_quote(), ids=lambda page: page.name)
def test_page_quotes_the_current_analysis_of_its_run(page: Path) -> None:
    assert page.read_text() == update_quotes(page.read_text(), kept())


def test_each_study_has_a_page_that_quotes_its_run() -> None:
    pages = {page.stem: page.read_text() for page in (DOCS / "studies").glob("*.md")}
    assert sorted(pages) == study_names()
    assert [name for name, text in pages.items() if [study for _, study, _ in QUOTED.findall(text)] != [name]] == []


def test_picture_is_made_from_the_run() -> None:
    assert PICTURE.read_text() == picture(kept()[PICTURED])


def test_the_ledgers_name_nothing_of_the_machine_that_made_them() -> None:
    """A path of it, or its user's name."""
    text = "".join(result.model_dump_json() for result in kept().values())
    assert re.findall(r"/(?:home|root|work)/[\w./-]*", text) == []
