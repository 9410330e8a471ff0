"""Tests of scripts and files outside the program: unpacking packages, the check before a release, and files for Ray."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from costof import __version__

ROOT = Path(__file__).parents[2]
#: The files that `scripts/system-packages` unpacks, with their packages and new names.
ENTRIES = re.search(r"for entry in (.*?); do", (ROOT / "scripts" / "system-packages").read_text(), re.DOTALL)
assert ENTRIES is not None
FILES = {
    **{path: (package, name or None) for package, path, name in re.findall(r"(\S+):([^\s=]+)=?(\S*)", ENTRIES[1])},
    # The script needs the extension of the newest PostgreSQL.
    **{
        f"usr/lib/postgresql/{folder.name}/lib/pgaudit.so": (f"postgresql-{folder.name}-pgaudit", None)
        for folder in sorted(Path("/usr/lib/postgresql").glob("*"), key=lambda each: float(each.name))[-1:]
    },
}


def is_installed(path: str, name: str | None) -> bool:
    return shutil.which(name) is not None if name else Path("/", path).exists()


WANTED = {path: package for path, (package, name) in FILES.items() if not is_installed(path, name)}
PACKAGES = sorted(set(WANTED.values()))
UNPACKED = {FILES[path][1] or Path(path).name for path in WANTED}
unpacks = pytest.mark.skipif(
    not WANTED or not Path("/usr/bin/dpkg-deb").exists(), reason="no Debian, or all of them are installed"
)
STUBS = {
    "id": "echo 0",
    "python3": "exit 0",
    "dpkg-query": "echo installed",
    "apt-cache": """shift
for package; do
    printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$package" "$(cat "$ARCHIVE/version")"
done""",
    "apt-get": """echo "$*" >>"$ARCHIVE/log"
case "$*" in
*download*) for package; do :; done
    [ -e "$ARCHIVE/$package.deb" ] && cp "$ARCHIVE/$package.deb" . ;;
esac""",
}
CONTROL = "Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"


@dataclass
class Machine:
    """A folder in which scripts/system-packages unpacks packages of an archive, with stand-ins for apt and dpkg."""

    folder: Path

    @property
    def unpacked(self) -> Path:
        return self.folder / "unpacked"

    def publish(self, version: str) -> None:
        """Put this version of every package into the archive; each packaged file contains the version."""
        archive = self.folder / "archive"
        (archive / "version").write_text(version + "\n")
        for package in PACKAGES:
            tree = self.folder / "tree" / version / package
            control = CONTROL.format(package=package, version=version)
            paths = [path for path, each in WANTED.items() if each == package]
            for name, text in {"DEBIAN/control": control, **dict.fromkeys(paths, f"{version}\n")}.items():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(text)
            for path in paths:
                (tree / path).chmod(0o755)
            command = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, archive / f"{package}.deb"]
            subprocess.run(command, check=True, capture_output=True)

    def run(self) -> tuple[list[str], str]:
        """Run scripts/system-packages. Return the arguments of each call of apt-get, and the output of the script."""
        log = self.folder / "archive" / "log"
        log.write_text("")
        stubs = f"{self.folder / 'stubs'}:{os.environ['PATH']}"
        environment = {"PATH": stubs, "ARCHIVE": str(log.parent), "COSTOF_UNPACKED": str(self.unpacked)}
        script = ROOT / "scripts" / "system-packages"
        done = subprocess.run([script], env=environment, capture_output=True, text=True, check=True)
        return log.read_text().splitlines(), done.stdout + done.stderr

    def a_day_passes(self) -> None:
        os.utime(self.unpacked / "looked", (0, 0))

    def contents(self) -> set[str]:
        return {(self.unpacked / name).read_text().strip() for name in UNPACKED}


@pytest.fixture(scope="module")
def usual_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("machine")
    made = Machine(folder)
    (folder / "archive").mkdir()
    (folder / "stubs").mkdir()
    for name, body in STUBS.items():
        (folder / "stubs" / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / "stubs" / name).chmod(0o755)
    made.publish("1:1.0-1")
    made.run()
    return made


@pytest.fixture
def machine(usual_machine: Machine, tmp_path: Path) -> Machine:
    """Return a copy of a machine on which the script has unpacked all packages."""
    return Machine(shutil.copytree(usual_machine.folder, tmp_path / "machine"))


@unpacks
def test_unpacked_package_is_replaced_by_a_newer_version_after_a_day(machine: Machine) -> None:
    assert machine.contents() == {"1:1.0-1"}
    machine.publish("1:1.0-2+deb12u1")
    assert machine.run() == ([], ""), "no request is made within a day of the last one"
    machine.a_day_passes()
    calls, _ = machine.run()
    assert calls[0] == "update -qq"
    assert sum("download" in each for each in calls) == len(WANTED)
    assert machine.contents() == {"1:1.0-2+deb12u1"}
    assert {path.name for path in machine.unpacked.iterdir()} == UNPACKED | {"versions", "looked"}
    machine.a_day_passes()
    assert machine.run() == (["update -qq"], ""), "only one update is made if there is nothing newer"
    assert machine.run() == ([], "")


@unpacks
def test_package_without_a_recorded_version_is_unpacked_again(machine: Machine) -> None:
    (machine.unpacked / "versions").unlink()
    calls, _ = machine.run()
    assert sum("download" in each for each in calls) == len(WANTED)


@unpacks
def test_unpacked_package_is_kept_if_a_newer_version_cannot_be_downloaded(machine: Machine) -> None:
    machine.publish("2")
    machine.a_day_passes()
    for package in PACKAGES:
        (machine.folder / "archive" / f"{package}.deb").unlink()
    _, output = machine.run()
    assert output.count("cannot download a newer") == len(WANTED)
    assert machine.contents() == {"1:1.0-1"}
    assert " 2" not in (machine.unpacked / "versions").read_text()


CHECK = runpy.run_path(str(ROOT / "scripts" / "release_check.py"))


def test_software_bill_of_materials_names_the_openssl_that_is_built() -> None:
    assert list(CHECK["openssl_errors"](ROOT)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("## 1.2.0 (2026-01-31)\n- a\n## 1.1.0 (2026-01-01)\n", None),
        ("## Unreleased\n- a\n## 1.2.0 (2026-01-31)\n", "'Unreleased'"),
        ("## 1.1.0 (2026-01-01)\n", "does not begin with '## 1.2.0"),
        ("# Changelog\n", "does not begin with '## 1.2.0"),
    ],
)
def test_changelog_must_begin_with_the_version_to_release(text: str, expected: str | None) -> None:
    errors = list(CHECK["changelog_errors"](text, "1.2.0"))
    assert len(errors) == (expected is not None)
    assert expected is None or expected in errors[0]


def test_release_check_reports_a_wrong_tag_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "dist").mkdir()
    for name in ("Cargo.toml", "Cargo.lock", "openssl.cdx.json"):
        shutil.copy(ROOT / "engine" / name, tmp_path / "engine")
    (tmp_path / "CHANGELOG.md").write_text("")
    tag, _, files = CHECK["release_errors"](tmp_path, "v9")
    assert tag.endswith(f"but the commit's tag is v9; run: git tag v{__version__}")
    assert files.startswith(f"dist/ contains nothing, not costof-{__version__}-py3-none-manylinux_2_28_aa")


@pytest.mark.skipif(shutil.which("readelf") is None, reason="needs readelf (binutils)")
def test_release_check_reports_an_engine_that_users_could_not_run() -> None:
    errors = list(CHECK["engine_errors"](Path(sys.executable).with_name("costof-engine"), "aarch64"))
    assert errors[0] == "is not for aarch64"
    assert any("libssl.so.3" in error for error in errors), "the engine of `make setup` links the system's OpenSSL"


def test_build_without_rust_fails_with_a_message_and_downloads_nothing(tmp_path: Path) -> None:
    build = (
        "import build_backend as backend; print(backend.get_requires_for_build_wheel()); "
        "backend.prepare_metadata_for_build_wheel('metadata')"
    )
    environment = {"PATH": str(tmp_path), "PYTHONPATH": str(ROOT / "scripts")}
    command = [sys.executable, "-c", build]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("[]\n"), "puccinialin, which fetches Rust"
    assert "Cargo, the Rust package manager, is not installed" in done.stderr


PAGE = (ROOT / "docs" / "many-hosts.md").read_text()
KUBERAY = json.loads((ROOT / "tests" / "vectors" / "kuberay-raycluster.json").read_text())["schema"]
# The schema is read from Ray's files, because importing Ray takes seconds.
RAY_UP = json.loads(Path(str(distribution("ray").locate_file("ray/autoscaler/ray-schema.json"))).read_text())


@pytest.mark.parametrize(("field", "schema", "no_such"), [("kind", KUBERAY, "kind"), ("provider", RAY_UP, "docker")])
def test_cluster_files_in_the_docs_match_the_schemas_of_ray(field: str, schema: dict[str, Any], no_such: str) -> None:
    import yaml

    files = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    (file,) = (each for each in files if field in each)
    jsonschema.validate(file, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**file, no_such: 1}, schema)


def test_docs_about_many_hosts_name_the_pinned_version_of_ray() -> None:
    constraints = (ROOT / "constraints.txt").read_text()
    assert set(re.findall(r"2\.\d+\.\d+", PAGE)) == set(re.findall(r"^ray==(.*)$", constraints, re.MULTILINE))
