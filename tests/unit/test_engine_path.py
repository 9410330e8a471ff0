"""Where the engine is found: wherever an installer has put it, and where the user says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.messages.process import engine_path

INFO = "costof-1.dist-info"


@pytest.fixture(autouse=True)
def nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a variable nor an engine beside the interpreter."""
    monkeypatch.delenv("COSTOF_ENGINE", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "interpreter" / "python"))


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, record: str) -> None:
    """A package of our name, first on Python's path, whose RECORD lists this."""
    (folder / INFO).mkdir(parents=True)
    (folder / INFO / "METADATA").write_text("Metadata-Version: 2.4\nName: costof\nVersion: 1\n")
    (folder / INFO / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.parametrize(
    ("record", "engine"),
    [
        # `pip install --user`, as a virtual environment: beside the scripts, wherever the interpreter is.
        ("../../../bin/costof-engine,,\n", "bin/costof-engine"),
        # `pip install --target`, which moves it and lists where it was.
        ("../../bin/costof-engine,,\n", "lib/python3/site/bin/costof-engine"),
    ],
)
def test_it_is_where_the_installer_put_it(
    record: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "lib" / "python3" / "site", monkeypatch, record)
    there = program(tmp_path / engine)
    assert engine_path() == there


def test_it_is_the_one_that_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path / "another")
    program(tmp_path / "interpreter" / "costof-engine")
    install(tmp_path / "site", monkeypatch, "")
    assert engine_path() == tmp_path / "interpreter" / "costof-engine"
    monkeypatch.setenv("COSTOF_ENGINE", str(named))
    assert engine_path() == named
    named.unlink()
    with pytest.raises(CostofError, match=r"COSTOF_ENGINE=.*another is no program") as told:
        engine_path()
    assert told.value.problem is Problem.ENGINE_MISSING
