"""Fixtures and helpers of the tests on real servers: the command as a user runs it, and servers."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab, descendants_of
from costof.results.ledger import SLICES
from tests.support.mongodb import PASSWORD as PASSWORD
from tests.support.mongodb import Standalone, start_standalone
from tests.support.programs import eventually

COSTOF = [sys.executable, "-m", "costof"]
SMALL = ["--profile", "quick", "--set", "records=500"]
SHORT = [str(Path(__file__).with_name("short.toml")), "--profile", "quick"]
#: The number of slices (measured windows) in a round: 2 workloads on 3 arms (plain, an identical copy of plain, and
#: TLS).
SHORT_ROUND = 6


@contextlib.contextmanager
def costof_running(
    run: Path, temporary: Path, *arguments: str, prefix: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run costof in the background, and kill it at the end. `prefix` is a program to start it with, e.g. `["nice"]`."""
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
    """Wait until the run has measured `count` slices. Fail with its output if the run ends before."""
    eventually("measuring", lambda: slices_measured(run) >= count or process.poll() is not None)
    assert slices_measured(run) >= count, process.communicate()


def processes_of(folder: Path) -> dict[int, list[str]]:
    processes = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if any(str(folder) in word for word in words[:1] + words[2:]) and int(entry.name) != os.getpid():
                    processes[int(entry.name)] = words
    return processes


def descendants(pid: int) -> dict[int, list[str]]:
    return {child: _words(child) for child in descendants_of(pid)}


def _words(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return []


def alive(pids: Iterable[int]) -> list[int]:
    """Return the pids of processes that still run. Zombies, which have no command line, are left out."""
    return [pid for pid in pids if _words(pid) not in ([], [""])]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as started:
        yield started


@pytest.fixture(scope="module")
def authority(lab: Lab) -> Authority:
    return Authority(lab.folder / "certificates")


@pytest.fixture(scope="module")
def standalone(lab: Lab, authority: Authority) -> Callable[..., Standalone]:
    """Return a function that starts a `mongod`. It takes a number (for the address) and options of the server."""
    return functools.partial(start_standalone, lab, authority)
