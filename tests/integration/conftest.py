"""What the tests on real servers share: the command as a user calls it, and servers with a fault to point it at."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pymongo
import pytest
from cryptography import x509
from pymongo.errors import PyMongoError

from costof.errors import CostofError
from costof.lab.certificates import Authority, write_private
from costof.lab.lab import Lab
from costof.lab.supervisor import parents
from costof.programs.mongod.binary import find_mongod
from costof.results.ledger import SLICES
from tests.gateway.shop import PEOPLE, RULES, Shop, before, shop_server
from tests.support.programs import HANGS_SECONDS, eventually

COSTOF = [sys.executable, "-m", "costof"]
EXPIRES_SECONDS = 6
SMALL = ["--profile", "quick", "--set", "records=500"]
SHORT = [str(Path(__file__).with_name("short.toml")), "--profile", "quick"]
SHORT_ROUND = 6  # slices: of two workloads over plain, its twin and TLS
PASSWORD = "correct-horse-battery"  # a word that no log, ledger, report or process list may hold


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A TMPDIR of the test's own by which its servers are known. Short, since Unix sockets will lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="ct-"))
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def costof_running(
    run: Path, temporary: Path, *arguments: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """The command in the background; `prefix` comes before it."""
    process = subprocess.Popen(
        [*prefix, *COSTOF, "run", *arguments, "--out", str(run)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def slices_measured(run: Path) -> int:
    path = run / SLICES
    return path.read_bytes().count(b'"record": "slice"') if path.exists() else 0


def wait_for_slices(process: subprocess.Popen[str], run: Path, count: int) -> None:
    _wait(process, lambda: slices_measured(run) >= count)


def wait_for_rounds(process: subprocess.Popen[str], run: Path, rounds: int, slices: int) -> None:
    """Until each of a round's slices has been measured so often and proved its arm: a busy machine spoils some."""
    _wait(process, lambda: len(found := _proved(run)) == slices and min(found.values()) >= rounds)


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """For what a run has measured, or for the end of the run, which then says why."""
    eventually("measuring", lambda: condition() or process.poll() is not None)
    assert condition(), process.communicate()


def _proved(run: Path) -> Counter[tuple[str, str]]:
    path = run / SLICES
    records = (json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n"))
    slices = (
        record for record in records if record["record"] == "slice" and not (record["warm_up"] or record["mismatch"])
    )
    return Counter((each["workload"], each["answer"]["arm"]) for each in slices if each["answer"]["operations"])


def processes_of(folder: Path) -> dict[int, list[str]]:
    """Living processes whose command line names the folder: servers of a lab whose TMPDIR it was."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if any(str(folder) in word for word in words[:1] + words[2:]) and int(entry.name) != os.getpid():
                    found[int(entry.name)] = words
    return found


def descendants(pid: int) -> dict[int, list[str]]:
    """Command lines of the processes that a process has started, and they in turn."""
    known = parents()
    found = {pid}
    while more := {child for child, parent in known.items() if parent in found} - found:
        found |= more
    return {child: _words(child) for child in found - {pid}}


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def alive(pids: Iterable[int]) -> list[int]:
    """Those that still run. A dead one that nobody has waited for has no command line left."""
    return [pid for pid in pids if _words(pid) not in ([], [""])]


@dataclass
class Standalone:
    """A single `mongod` with a user, at `address`."""

    address: str
    ca_file: Path

    @property
    def url(self) -> str:
        return f"mongodb://tester:{PASSWORD}@{self.address}/?authSource=admin"

    def client(self) -> pymongo.MongoClient[dict[str, object]]:
        return pymongo.MongoClient(self.url, tls=True, tlsCAFile=str(self.ca_file), tlsAllowInvalidHostnames=True)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as standing:
        yield standing


@pytest.fixture(scope="module")
def shop(lab: Lab) -> Iterator[Shop]:
    """One gateway for most tests of it."""
    with shop_server(lab) as server, before(lab, server, "rules") as shop:
        yield shop


@pytest.fixture
def usual_rules(shop: Shop) -> None:
    assert shop.reload(RULES + PEOPLE) is None


@pytest.fixture(scope="module")
def authority(lab: Lab) -> Authority:
    return Authority(lab.folder / "certificates")


@pytest.fixture(scope="module")
def standalone(lab: Lab, authority: Authority) -> Callable[..., Standalone]:
    """Start a `mongod` that does TLS as asked; `names` None gives its certificate the right ones."""

    def start(
        number: int,
        tls: str = "preferTLS",
        names: list[str] | None = None,
        expired: bool = False,
        seconds: int = EXPIRES_SECONDS,
    ) -> Standalone:
        host, name = lab.address(number), f"mongod-{number}"
        folder = lab.folder / name
        folder.mkdir(exist_ok=True)
        argv = [str(find_mongod()), "--auth", "--dbpath", str(folder), "--bind_ip", host, "--port", "27017"]
        argv += ["--unixSocketPrefix", str(folder), "--tlsMode", tls, "--wiredTigerCacheSizeGB", "0.25"]
        if tls != "disabled":
            valid = datetime.timedelta(seconds=seconds) if expired else datetime.timedelta(days=1)
            issued = authority.issue(name, "ecdsa-p256", names or [host], valid)
            (certificate,) = x509.load_pem_x509_certificates(issued.read_bytes().split(b"-----END PRIVATE KEY-----")[1])
            private = lab.folder / f"{name}.pem"
            write_private(private, issued.read_bytes())
            argv += ["--tlsCertificateKeyFile", str(private), "--tlsCAFile", str(authority.ca_file)]
            argv += ["--tlsAllowConnectionsWithoutCertificates"]
        process = lab.spawn(name, "server", argv)
        socket = quote(str(folder / "mongodb-27017.sock"), safe="")
        secure = {"tls": True, "tlsAllowInvalidCertificates": True} if tls == "requireTLS" else {}
        bootstrap: pymongo.MongoClient[dict[str, object]]
        with pymongo.MongoClient(
            f"mongodb://{socket}", directConnection=True, serverSelectionTimeoutMS=500, **secure
        ) as bootstrap:

            def answers() -> bool:
                try:
                    bootstrap.admin.command("ping")
                except PyMongoError:
                    return False
                return True

            try:
                lab.wait_until(name, answers, HANGS_SECONDS, process)
            except CostofError:
                # mongod does not start with an expired certificate: a slow machine needs one that is valid for longer.
                if not expired or datetime.datetime.now(datetime.UTC) < certificate.not_valid_after_utc:
                    raise
                lab.stop(name)
                return start(number, tls, names, expired, 2 * seconds)
            bootstrap.admin.command("createUser", "tester", pwd=PASSWORD, roles=["root"])
        if expired:
            # It goes on when its certificate expires.
            end = certificate.not_valid_after_utc
            eventually("the expiry", lambda: datetime.datetime.now(datetime.UTC) > end)
        return Standalone(f"{host}:27017", authority.ca_file)

    return start
