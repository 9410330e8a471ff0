"""Comparison of reports with golden files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.results import Golden

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return a function that compares a text with a golden file, or writes the file with `--update-golden`."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path.name}; look at the report, then run with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
