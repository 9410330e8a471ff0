"""The report as PDF, printed by a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.report import write_reports
from costof.report.printed import find_browser, print_pdf
from tests.report.results import mongodb
from tests.support.browser import program

#: The object of a page in a PDF (ISO 32000-1, 7.7.3.3).
PAGE = re.compile(rb"/Type\s*/Page\b")


def test_pdf_has_all_pages(tmp_path: Path) -> None:
    program("chromium")
    write_reports(mongodb(), tmp_path)
    print_pdf(find_browser(), tmp_path / "report.html", tmp_path / "report.pdf")
    printed = (tmp_path / "report.pdf").read_bytes()
    assert printed.startswith(b"%PDF-")
    assert printed.rstrip().endswith(b"%%EOF")
    assert len(PAGE.findall(printed)) > 1


def test_printing_a_report_without_a_browser_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CostofError) as caught:
        find_browser()
    assert caught.value.message is ErrorText.NO_BROWSER


@pytest.mark.parametrize(
    ("script", "reason"),
    [("echo it is broken >&2; exit 3", "it ended with status 3: it is broken"), ("exit 0", "it wrote nothing")],
)
def test_browser_that_fails_to_print_leaves_no_pdf_file(script: str, reason: str, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\n{script}\n")
    browser.chmod(0o755)
    with pytest.raises(CostofError, match=reason):
        print_pdf(str(browser), tmp_path / "report.html", tmp_path / "report.pdf")
    assert [*tmp_path.iterdir()] == [browser]
