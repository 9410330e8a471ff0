"""Runs labs in separate processes, records what they create on the machine, and checks that all of it is removed."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof.lab.host import FOLDER
from costof.lab.lab import descendants_of
from tests.support.processes import alive
from tests.support.programs import eventually

ROOT = Path(__file__).parents[2]
CGROUPS = Path("/sys/fs/cgroup")


@dataclass
class LabProcess:
    """A process that runs a lab and printed `message` (JSON). `pids` and `paths` are what the lab has created."""

    process: subprocess.Popen[bytes]
    message: dict[str, Any]
    pids: set[int]
    paths: set[Path]

    def stands(self) -> bool:
        return all(map(alive, self.message.get("started", self.pids))) and all(path.exists() for path in self.paths)

    def assert_gone(self) -> None:
        # Nothing has to be ended here: the process that forwards packets on the simulated links is a child of the run
        # and ends when its input ends, and network devices end with their namespaces.
        eventually("the end of its processes", lambda: not any(map(alive, self.pids)))
        eventually("the end of its hosts and folders", lambda: not any(path.exists() for path in self.paths))


@contextlib.contextmanager
def lab_process(*arguments: str) -> Iterator[LabProcess]:
    """Run a Python program that prints a line after its lab's start, and ends when its input ends."""
    # The path is short enough for Unix sockets.
    with (
        tempfile.TemporaryDirectory(prefix="ct-", ignore_cleanup_errors=True) as folder,
        subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": folder},
        ) as process,
    ):
        assert process.stdout is not None
        message = json.loads(process.stdout.readline())
        pids = {*descendants_of(process.pid), *message.get("pids", [])}
        paths = {*Path(folder).iterdir(), *map(Path, message.get("paths", [])), *_namespaces(pids), *_cgroups(pids)}
        yield LabProcess(process, message, pids, paths)
        process.kill()


def left_by_kill_9(*arguments: str) -> dict[str, Any]:
    """Kill a lab with SIGKILL, and return the message that the lab printed before.

    `arguments` are for `python`. The test fails if something of the lab is missing before the kill, or left after it.
    """
    with lab_process(*arguments) as lab:
        assert lab.pids
        assert lab.paths
        assert lab.stands()
        lab.process.kill()
        lab.assert_gone()
        return lab.message


def _namespaces(pids: set[int]) -> set[Path]:
    """Return the files of the processes' network namespaces, except this process's own."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes.add(Path(f"/proc/{pid}/ns/net").stat().st_ino)
    inodes -= {Path("/proc/self/ns/net").stat().st_ino}
    return {path for path in FOLDER.glob("*") if path.stat().st_ino in inodes}


def _cgroups(pids: set[int]) -> set[Path]:
    """Return the cgroup folders of the processes, except this process's own."""
    groups = {group for pid in pids for group in _groups(pid)} - _groups(os.getpid())
    places = [CGROUPS, *CGROUPS.glob("*/")]
    return {place / group for place in places for group in groups if (place / group / "cgroup.procs").exists()}


def _groups(pid: int) -> set[str]:
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        return {line.split(":", 2)[2].lstrip("/") for line in lines}
    return set()
