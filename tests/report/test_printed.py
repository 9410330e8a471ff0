"""The report on paper, by a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.report import write_reports
from costof.report.printed import find_browser, print_pdf
from tests.report.results import mongodb
from tests.support.browser import program

#: Of a PDF, each page is an object of its own (ISO 32000-1, 7.7.3.3).
PAGE = re.compile(rb"/Type\s*/Page\b")


def test_a_report_is_printed_whole(tmp_path: Path) -> None:
    program("chromium")
    write_reports(mongodb(), tmp_path)
    print_pdf(find_browser(), tmp_path / "report.html", tmp_path / "report.pdf")
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert printed.rstrip().endswith(b"%%EOF")
    assert len(PAGE.findall(printed)) > 1


def test_without_a_browser_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CostofError) as refused:
        find_browser()
    assert refused.value.problem is ErrorText.NO_BROWSER


@pytest.mark.parametrize(
    ("script", "why"),
    [("echo it is broken >&2; exit 3", "it ended with status 3: it is broken"), ("exit 0", "it wrote nothing")],
)
def test_a_browser_that_prints_nothing_leaves_nothing(script: str, why: str, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\n{script}\n")
    browser.chmod(0o755)
    with pytest.raises(CostofError, match=why):
        print_pdf(str(browser), tmp_path / "report.html", tmp_path / "report.pdf")
    assert [*tmp_path.iterdir()] == [browser]
