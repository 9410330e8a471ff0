"""Many load machines: real Ray nodes in namespaces of their own ask a real server as one population, and fail as hosts do.

Runs are shared: each is looked at for all that it shows. The last ones end hosts, in this order.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab, is_root
from costof.ledger.ledger import Ledger, LostRecord, SliceRecord
from costof.programs.redis.server import PORT, TLS_PORT, USER
from costof.programs.server import Place
from tests.integration.conftest import COSTOF, wait_for_slices
from tests.support.programs import eventually
from tests.support.ray_nodes import Cluster, Node, a_cluster
from tests.support.redis import Standing

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="hosts of their own are namespaces, which only root can make"),
]

LOADS = ["load-1", "load-2", "load-3"]
#: An arm, its twin and its rival.
ROUND = 3
#: All hosts' first instants are within a millisecond.
PACED = "pace = { per_second = 3000.0, arrivals = 'constant' }"
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


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Cluster]:
    """The monotonic clock of load-2 is 10 s ahead of all others, in every run."""
    with a_cluster(lab, far="load-3", ahead="load-2") as standing:
        yield standing


@pytest.fixture(scope="module")
def server(lab: Lab, cluster: Cluster) -> Iterator[Standing]:
    address = cluster.server.a_address
    authority = Authority(lab.folder / "certificates")
    server = Standing.at(Place(lab, cluster.server.a, authority, ["rsa-2048"], lambda: address))
    with contextlib.closing(server):
        server.start()
        (cluster.head.folder / "ca.pem").write_bytes(server.ca_file.read_bytes())
        (cluster.head.folder / "password").write_text(server.password.get_secret_value())
        yield server


@dataclass
class Running:
    """A run on the head, whose /tmp has its folder."""

    process: subprocess.Popen[str]
    folder: Path

    def ends(self) -> Outcome:
        out, err = self.process.communicate()
        return Outcome(self.process.returncode, out, err, self.folder)

    def wait_for_rounds(self, rounds: int) -> None:
        """Of slices, the warm-up's too."""
        eventually("slices", lambda: self.process.poll() is not None or _slices(self.folder) >= rounds * ROUND)
        assert self.process.poll() is None, self.process.communicate()


@dataclass
class Outcome:
    status: int
    out: str
    err: str
    folder: Path

    @property
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
        """Hosts that the report calls slower than the others."""
        result = json.loads((self.folder / "result.json").read_text())
        return [each["host"] for each in result["sections"]["hosts"]["data"]["slower"]]


def _slices(folder: Path) -> int:
    path = folder / "slices.jsonl"
    return path.read_bytes().count(b'"record": "slice"') if path.exists() else 0


@pytest.fixture(scope="module")
def study(cluster: Cluster) -> Path:
    path = cluster.head.folder / "paced.toml"
    path.write_text(STUDY.replace("PACE", PACED).replace("SECONDS", "0.2"))
    return path


def costof(cluster: Cluster, *words: str, **env: str) -> subprocess.Popen[str]:
    """The command on the head, as its user types it."""
    return cluster.command(*COSTOF, *words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def told(cluster: Cluster, *words: str, **env: str) -> tuple[int, str]:
    """What it says at once."""
    process = costof(cluster, *words, **env)
    out, err = process.communicate()
    assert "Traceback" not in err
    return process.returncode, out + err


@contextlib.contextmanager
def running(cluster: Cluster, server: Standing, name: str, study: Path, *words: str) -> Iterator[Running]:
    process = costof(cluster, "run", f"/tmp/{study.name}", "--profile", "quick", *target(server), *words,
                     "--out", f"/tmp/{name}")
    try:
        yield Running(process, cluster.head.folder / name)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def target(server: Standing) -> list[str]:
    url = f"rediss://{USER}@{server.address}:{TLS_PORT}/?plain_port={PORT}"
    where = ["--hosts", "auto", "--hosts-where", "pool=load"]
    return ["--target", url, "--tls-ca", "/tmp/ca.pem", "--allow-plain", "--password-file", "/tmp/password", *where]


def engine_of(node: Node) -> int:
    (pid,) = node.pids_of("costof-engine")
    return pid


def test_try(cluster: Cluster, server: Standing, study: Path) -> None:
    with running(cluster, server, "near", study, "--rounds", "8") as run:
        run.wait_for_rounds(2)
        for node in cluster.loads:
            print(node.name, node.processes())
        outcome = run.ends()
    print(outcome.out, outcome.err, outcome.status)
    import shutil
    shutil.copytree(outcome.folder, "/tmp/hosts-tests/near", dirs_exist_ok=True)
    assert 0
