"""Tests of releases: a JAR is fetched from the configured repository, and unpacked only if it has the pinned hash."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.fetch import fetch
from costof.cli.run import run
from costof.errors import EXIT_USAGE, CostofError, ErrorText
from costof.lab.download import FetchError
from costof.lab.releases import (
    REPOSITORY_VARIABLE,
    Jar,
    Release,
    copy_if_private,
    find_release,
    unpack_archive,
    unpack_folder,
)
from costof.programs.server import fetchable_releases
from costof.services.open import open_service
from tests.support.downloads import serving
from tests.support.small_plans import plan_of

PROGRAM = b"#!/bin/sh\necho a tool 18.1\n"


def jar_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def jar() -> bytes:
    """A JAR with a compressed tar archive of one program, like the JARs of PostgreSQL releases."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        info = tarfile.TarInfo("bin/tool")
        info.size, info.mode = len(PROGRAM), 0o644
        archive.addfile(info, io.BytesIO(PROGRAM))
    return jar_of({"META-INF/MANIFEST.MF": b"", "tool-linux.txz": packed.getvalue()})


@pytest.fixture
def release(jar: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Release:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pinned = Jar("org.example.tools:a-tool:18.1.0", hashlib.sha256(jar).hexdigest())
    return Release("tool", "18", "18.1", {platform.machine(): pinned}, unpack_archive, "bin/tool", lambda path: "18.1")


@contextmanager
def repository(jar: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with serving({"/maven2/org/example/tools/a-tool/18.1.0/a-tool-18.1.0.jar": jar}) as address:
        monkeypatch.setenv(REPOSITORY_VARIABLE, f"{address}/maven2/")
        yield


def test_release_is_fetched_and_then_located_by_its_version_series(
    release: Release, jar: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CostofError, match="tool@18 has not been fetched; run `costof fetch tool@18`"):
        find_release("18", "tool", {"18": release})
    with repository(jar, monkeypatch):
        release.fetch()
        release.fetch()
    path = find_release("18", "tool", {"18": release})
    assert path.read_bytes() == PROGRAM
    assert os.access(path, os.X_OK)
    assert [each.name for each in release.folder.parent.iterdir()] == ["tool@18.1"], "nothing else is left"
    assert release.locate() == f"18.1 at {path}"


def test_release_with_a_wrong_hash_is_refused_and_leaves_no_file(
    release: Release, jar: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with repository(jar + b"more", monkeypatch), pytest.raises(FetchError, match=r"has SHA-256 \w{64}, not \w{64}"):
        release.fetch()
    assert list(release.folder.parent.iterdir()) == []


def test_release_without_a_file_for_the_version_or_machine_is_reported(
    release: Release, jar: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = replace(release.jars[platform.machine()], coordinates="org.example.tools:a-tool:19.0.0")
    with repository(jar, monkeypatch), pytest.raises(FetchError, match=r"a-tool:19.0.0 could not be fetched from 127"):
        replace(release, jars={platform.machine(): later}).fetch()
    with pytest.raises(FetchError, match=f"tool@18 is packed only for vax, not for {platform.machine()}"):
        replace(release, jars={"vax": later}).fetch()


def test_release_can_be_fetched_from_a_local_repository(
    release: Release, jar: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "repository" / release.jars[platform.machine()].path
    file.parent.mkdir(parents=True)
    file.write_bytes(jar)
    monkeypatch.setenv(REPOSITORY_VARIABLE, f"file://{tmp_path}/repository")
    release.fetch()
    assert release.path.read_bytes() == PROGRAM


def test_only_the_named_files_of_a_folder_are_unpacked(tmp_path: Path) -> None:
    jar = tmp_path / "tool.jar"
    jar.write_bytes(jar_of({"x/tool/bin/toold": b"1", "x/tool/bin/client": b"2", "x/tool/share/sql": b"3", "y": b"4"}))
    unpack_folder("x/tool", "bin/toold", "share/")(jar, tmp_path / "unpacked")
    files = (path for path in (tmp_path / "unpacked").rglob("*") if path.is_file())
    assert {path.name for path in files} == {"toold", "sql"}


def test_users_own_build_of_a_server_is_located_by_the_path_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(PROGRAM)
    with pytest.raises(CostofError) as caught:
        find_release(str(tmp_path), "tool", {})
    assert caught.value.message is ErrorText.NO_PROGRAM_IN_FOLDER
    (tmp_path / "tool").chmod(0o755)
    assert find_release(str(tmp_path), "tool", {}) == (tmp_path / "tool").resolve()


@pytest.mark.parametrize(
    "line",
    [
        "postgres-tls --set server_version=18,/opt/none/bin",
        "postgres-pooling --set server_version=18,/opt/none/bin",
        "mysql-transport --set server_version=11.4,/opt/none/bin --set transport=plain,tls --set distance=lan",
    ],
)
def test_folder_without_the_server_is_refused_before_anything_starts_also_by_a_dry_run(line: str) -> None:
    study, *options = line.split()
    with pytest.raises(CostofError) as dry:
        CliRunner().invoke(run, [study, "--profile", "quick", *options, "--dry-run"], catch_exceptions=False)
    with pytest.raises(CostofError) as real:
        open_service(plan_of(study, "quick", *options[1::2]), None, "a-run")
    assert dry.value.message is real.value.message is ErrorText.NO_PROGRAM_IN_FOLDER
    assert dry.value.exit_status == EXIT_USAGE


def test_error_for_an_unknown_version_lists_the_known_versions(release: Release) -> None:
    with pytest.raises(CostofError, match=r"no tool of version '9' \(choose from: 18, or give the absolute path"):
        find_release("9", "tool", {"18": release})


def test_program_in_a_private_folder_is_copied_so_that_other_users_can_run_it(tmp_path: Path) -> None:
    program = tmp_path / "private" / "release" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    program.write_bytes(PROGRAM)
    (program.parent.parent / "lib.so").write_bytes(b"")
    (tmp_path / "private").chmod(0o700)
    (tmp_path / "folder").mkdir()
    copy = copy_if_private(program, lambda: tmp_path / "folder")
    assert copy.read_bytes() == PROGRAM
    assert (copy.parent.parent / "lib.so").is_file()
    assert copy.parent.stat().st_mode & 0o005 == 0o005


def test_dry_run_of_costof_fetch_lists_the_artifact_of_each_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = sorted(fetchable_releases())
    result = CliRunner().invoke(fetch, [*names, "--dry-run"], catch_exceptions=False)
    lines = dict(zip(names, result.output.splitlines(), strict=True))
    assert lines["postgres@18"].startswith("postgres@18: the Maven artifact io.zonky.test.postgres:embedded-postgres-")
    assert not (tmp_path / "cache").exists()
