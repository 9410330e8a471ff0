"""Golden files: what a report looked like when somebody last looked at it and agreed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.results import Golden

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(name, text)` compares with the file of that name, or writes it with `--update-golden`."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path.name}; look at the report, then run with --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check
