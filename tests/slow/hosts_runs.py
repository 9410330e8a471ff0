"""Helpers to start runs on the head node of a Ray cluster, and to inspect them while they run and afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from costof.programs.redis.lab import PORT, TLS_PORT, USER
from costof.results.ledger import SLICES, Ledger, LostRecord, SliceRecord
from tests.slow.ray_nodes import Cluster, Node
from tests.support.programs import eventually
from tests.support.redis import RunningServer

ENGINE = "costof-engine"
RUNNER = "costof.instruments.commands.runner"
OF_RAY = ("gcs_server", "raylet", "ray::HostActor", "ray.util.client")
WHERE = ("--hosts", "auto", "--hosts-where", "pool=load")
#: The number of slices in a round: the control, its identical copy and the other arm.
ROUND = 3
STUDY = """
title = "What does TLS cost a Redis client?"
question = "How much longer does a GET take?"
protection = "TLS"
service = { kind = "server", program = "redis" }
control = { transport = "plain" }

[factors.transport]
label = "transport"
levels.plain = { label = "plain", transport.kind = "plain" }
levels.tls = { label = "TLS", transport.kind = "tls" }
default = ["plain", "tls"]

[workloads.query]
label = "GETs on standing connections"
view = "wire"
kind = "query"
workers = 12
PACE

[metrics."wire.query"]
label = "GET"
description = "A GET on an open connection."
workload = "query"
phase = "operation"
headline = true
margin = 0.05

[profiles.quick]
description = "a minute at most"
budget = "1m"
precision = 0.05
rounds = [2, 1000]
records = 100
slices.query = { operations = 1000000, seconds = SECONDS }
"""

#: A study of commands that print figures. The commands have two secrets: one in their environment, one in a file on
#: each host.
COMMANDS = r"""
title = "What does a longer answer cost?"
service = "command"
control.count = "few"
[factors.count.levels]
few = { set.count = "100" }
many = { set.count = "300" }
[factors.count.each]
environment.TOKEN = "TOKEN_OF_A_LEVEL"
verify = { run = "hostname", matches = "load-[123]" }
[workloads.get.command]
run = '''
began=$(date +%s%N)
redis-cli -h ADDRESS --user costof --no-auth-warning -r {count} GET nothing >/dev/null
echo "rate: $(({count} * 1000000000 / ($(date +%s%N) - began)))"
echo "gets: {count}, requested: {rate}"
'''
shell = true
seconds = 1
figures.rate = { regex = "rate: ([0-9]+)", unit = "per_second", better = "higher" }
figures.gets = { regex = "gets: ([0-9]+)", unit = "GETs", headline = false }
[secrets]
REDISCLI_AUTH = { file = "/tmp/password" }
"""


def paced(per_second: float) -> str:
    """Return the `pace` line for `STUDY`: this many operations a second, at equal intervals.

    At 3,000 a second, the first operations of all hosts are due within a millisecond.
    """
    return f"pace = {{ per_second = {per_second}, arrivals = 'constant' }}"


@dataclass
class Running:
    """A run of costof in progress on the head node. Its folder is in the node's /tmp."""

    process: subprocess.Popen[str]
    folder: Path

    def ends(self) -> Outcome:
        out, err = self.process.communicate()
        return Outcome(self.process.returncode, out, err, self.folder)

    def wait_for_rounds(self, rounds: int) -> None:
        """Wait until the run has measured this many rounds, including the warm-up. Fail if it ends before."""
        eventually("slices", lambda: self.process.poll() is not None or _slices(self.folder) >= rounds * ROUND)
        assert self.process.poll() is None, self.process.communicate()


@dataclass
class Outcome:
    status: int
    out: str
    err: str
    folder: Path

    @cached_property
    def records(self) -> list[Any]:
        return list(Ledger.open(self.folder).records())

    @property
    def slices(self) -> list[SliceRecord]:
        return [record for record in self.records if isinstance(record, SliceRecord)]

    @property
    def lost(self) -> list[LostRecord]:
        return [record for record in self.records if isinstance(record, LostRecord)]

    @property
    def slower(self) -> list[str]:
        result = json.loads((self.folder / "result.json").read_text())
        return [each["host"] for each in result["sections"]["hosts"]["slower"]]


def _slices(folder: Path) -> int:
    path = folder / SLICES
    return path.read_bytes().count(b'"record": "slice"') if path.exists() else 0


def costof(cluster: Cluster, *words: str, **env: str) -> subprocess.Popen[str]:
    return cluster.command(
        sys.executable, "-m", "costof", *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run_on_head(cluster: Cluster, *words: str, **env: str) -> tuple[int, str]:
    """Run costof on the head node. Return its exit status, and its output with error messages."""
    process = costof(cluster, *words, **env)
    out, err = process.communicate()
    assert "Traceback" not in err
    return process.returncode, out + err


@contextlib.contextmanager
def running(cluster: Cluster, server: RunningServer, name: str, study: Path, *words: str) -> Iterator[Running]:
    with begun(cluster, name, "run", f"/tmp/{study.name}", "--profile", "quick", *target(server), *words) as run:
        yield run


@contextlib.contextmanager
def begun(cluster: Cluster, name: str, *words: str) -> Iterator[Running]:
    """Start costof on the head node with `name` as its run folder. Yield the run, and kill it at the end."""
    process = costof(cluster, *words, "--out", f"/tmp/{name}")
    try:
        yield Running(process, cluster.head.folder / name)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def target(server: RunningServer) -> list[str]:
    url = f"rediss://{USER}@{server.address}:{TLS_PORT}/?plain_port={PORT}"
    return ["--target", url, "--tls-ca", "/tmp/ca.pem", "--allow-plain", "--password-file", "/tmp/password", *WHERE]


def engines(node: Node) -> list[int]:
    return node.pids_of(ENGINE)


def left(node: Node) -> list[str]:
    """Return what a run has left on a host: instruments, Ray actors, and files in memory and on disk."""
    own = {*engines(node), *node.pids_of(RUNNER)}
    processes = [" ".join(words) for pid, words in node.processes().items() if "ray::" in words[0] or pid in own]
    left = [each for each in processes if "Agent" not in each]
    for pid in node.processes():
        with contextlib.suppress(OSError):
            left += [name for each in Path(f"/proc/{pid}/fd").iterdir() if "memfd:" in (name := str(each.readlink()))]
    logs = node.folder / "ray"
    folders = [node.folder, *([Path(f"/proc/{node.init}/root/dev/shm")] if node.init else [])]
    return left + [str(path) for folder in folders for path in folder.rglob("*costof*") if logs not in path.parents]


def memory_holds(pid: int, secret: bytes) -> bool:
    """Return whether the secret is in writable memory of a process, including shared memory of Ray's object store."""
    page = os.sysconf("SC_PAGESIZE")
    process = Path(f"/proc/{pid}")
    with (process / "mem").open("rb", 0) as memory, (process / "pagemap").open("rb", 0) as pages:
        for line in (process / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            low, high = (int(each, 16) // page for each in span.split("-"))
            if not rights.startswith("rw"):
                continue
            # Read only pages that are in memory: reading an untouched page would allocate it.
            there = np.frombuffer(os.pread(pages.fileno(), (high - low) * 8, low * 8), np.uint64) >> np.uint64(63)
            edges = np.flatnonzero(np.diff(there.astype(np.int8), prepend=0, append=0)) + low
            for first, last in edges.reshape(-1, 2).tolist():
                with contextlib.suppress(OSError):
                    if secret in os.pread(memory.fileno(), (last - first) * page, first * page):
                        return True
    return False


def holders_on(node: Node, secret: bytes, shown_by: Sequence[str] = ("cmdline", "environ")) -> Iterator[str]:
    """Yield processes of a node that show a secret in the files `shown_by`, and Ray's processes with it in memory.

    The memory of Ray's processes may appear in `ray list`.
    """
    for pid, words in node.processes().items():
        # A process may have ended since it was listed.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            shown = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in shown_by)
            of_ray = any(each in word for each in OF_RAY for word in words)
            if secret in shown or (of_ray and memory_holds(pid, secret)):
                yield f"{node.name}: {' '.join(words)[:100]}"


def files_of_ray(node: Node) -> list[Path]:
    """Return all files that Ray has written on a node, such as logs. Fail if there are none."""
    files = [path for path in (node.folder / "ray").rglob("*") if path.is_file()]
    assert files
    return files
