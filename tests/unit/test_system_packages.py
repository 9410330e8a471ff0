"""Programs that are unpacked from packages are unpacked again when there is a newer version of the package."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.cli import doctor
from costof.lab.program import unpacked_from

SCRIPT = Path(__file__).parents[2] / "scripts" / "system-packages"
FILES = {
    "openssh-server": "usr/sbin/sshd",
    "mariadb-server": "usr/lib/mysql/plugin/auth_ed25519.so",
    "haproxy": "usr/sbin/haproxy",
    "nginx": "usr/sbin/nginx",
    "libnginx-mod-stream": "usr/lib/nginx/modules/ngx_stream_module.so",
    "redis-tools": "usr/bin/redis-check-rdb",
    "stunnel4": "usr/bin/stunnel4",
    "pgbouncer": "usr/sbin/pgbouncer",
}
#: Under which names they are unpacked, where those are others.
NAMES = {"redis-check-rdb": "redis-server", "stunnel4": "stunnel"}


def _is_installed(path: str) -> bool:
    name = NAMES.get(Path(path).name)
    return shutil.which(name) is not None if name else Path("/", path).exists()


WANTED = {package: path for package, path in FILES.items() if not _is_installed(path)}

pytestmark = [
    pytest.mark.skipif(not WANTED, reason="all of them are installed on this machine"),
    pytest.mark.skipif(not Path("/usr/bin/dpkg-deb").exists(), reason="no Debian"),
]

# apt and dpkg as this machine would be: everything installed that is installed, and an archive of our own.
STUBS = {
    "id": "echo 0",
    "python3": "exit 0",
    "dpkg-query": "echo installed",
    "apt-cache": """shift
for package; do
    printf '%s:\\n  Installed: (none)\\n  Candidate: %s\\n' "$package" "$(cat "$ARCHIVE/version")"
done""",
    "apt-get": """echo "$*" >>"$ARCHIVE/asked"
case "$*" in
*download*) for package; do :; done
    [ -e "$ARCHIVE/$package.deb" ] && cp "$ARCHIVE/$package.deb" . ;;
esac""",
}


CONTROL = "Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: x\nDescription: x\n"


def unpacked_names() -> set[str]:
    return {NAMES.get(name, name) for name in (Path(path).name for path in WANTED.values())}


@dataclass
class Machine:
    folder: Path

    @property
    def unpacked(self) -> Path:
        return self.folder / "unpacked"

    def publish(self, version: str) -> None:
        """An archive with this version of every package; each file holds the version."""
        archive = self.folder / "archive"
        (archive / "version").write_text(version + "\n")
        for package, path in WANTED.items():
            tree = self.folder / "tree" / version / package
            for name, text in (
("DEBIAN/control", CONTROL.format(package=package, version=version)),
                (path, f"{version}\n"),
            ):  # fmt: skip
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                (tree / name).write_text(text)
            (tree / path).chmod(0o755)
            command = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, archive / f"{package}.deb"]
            subprocess.run(command, check=True, capture_output=True)

    def run(self) -> tuple[list[str], str]:
        """What apt-get was asked, and what the script said."""
        asked = self.folder / "archive" / "asked"
        asked.write_text("")
        stubs = f"{self.folder / 'stubs'}:{os.environ['PATH']}"
        environment = {"PATH": stubs, "ARCHIVE": str(self.folder / "archive"), "COSTOF_UNPACKED": str(self.unpacked)}
        done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, check=True)
        return asked.read_text().splitlines(), done.stdout + done.stderr

    def a_day_passes(self) -> None:
        os.utime(self.unpacked / "looked", (0, 0))

    def contents(self) -> set[str]:
        return {(self.unpacked / name).read_text().strip() for name in unpacked_names()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    (tmp_path / "archive").mkdir()
    (tmp_path / "stubs").mkdir()
    for name, body in STUBS.items():
        (tmp_path / "stubs" / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / "stubs" / name).chmod(0o755)
    made.publish("1:1.0-1")
    made.run()
    return made


def test_what_is_up_to_date_costs_no_request(machine: Machine) -> None:
    assert machine.contents() == {"1:1.0-1"}
    assert machine.run() == ([], "")


def test_a_newer_version_is_unpacked_in_place_of_the_older_within_a_day(machine: Machine) -> None:
    machine.publish("1:1.0-2+deb12u1")
    assert machine.run() == ([], "")
    machine.a_day_passes()
    asked, _ = machine.run()
    assert asked[0] == "update -qq"
    assert sum("download" in each for each in asked) == len(WANTED)
    assert machine.contents() == {"1:1.0-2+deb12u1"}
    assert machine.run() == ([], "")
    assert {path.name for path in machine.unpacked.iterdir()} == unpacked_names() | {"versions", "looked"}


def test_where_there_is_nothing_newer_a_day_costs_one_look(machine: Machine) -> None:
    machine.a_day_passes()
    assert machine.run() == (["update -qq"], "")
    assert machine.run() == ([], "")


def test_what_was_unpacked_before_versions_were_kept_is_unpacked_again(machine: Machine) -> None:
    (machine.unpacked / "versions").unlink()
    asked, _ = machine.run()
    assert sum("download" in each for each in asked) == len(WANTED)


def test_without_the_archive_the_older_stays(machine: Machine) -> None:
    machine.publish("2")
    machine.a_day_passes()
    for package in WANTED:
        (machine.folder / "archive" / f"{package}.deb").unlink()
    _, said = machine.run()
    assert said.count("could not be fetched; the older") == len(WANTED)
    assert machine.contents() == {"1:1.0-1"}
    assert " 2" not in (machine.unpacked / "versions").read_text()


def test_the_doctor_names_versions_and_what_has_none(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    package, path = next(iter(WANTED.items()))
    monkeypatch.setattr(doctor, "unpacked_from", lambda: unpacked_from(machine.unpacked))
    (finding,) = (each for each in doctor.examine() if each.what == "unpacked")
    assert finding.good
    assert f"{Path(path).name} of {package} 1:1.0-1" in finding.detail
    versions = machine.unpacked / "versions"
    versions.write_text("".join(versions.read_text().splitlines(keepends=True)[1:]))
    (finding,) = (each for each in doctor.examine() if each.what == "unpacked")
    assert not finding.good
    assert finding.detail.startswith(f"{Path(path).name} in ")
    assert "sudo scripts/system-packages" in finding.detail


def test_nothing_unpacked_is_no_finding(tmp_path: Path) -> None:
    assert unpacked_from(tmp_path / "none") == {}
