"""Many load machines: real Ray nodes in namespaces of their own ask a real server as one population, and fail as such.

Runs are shared: each is looked at for all that it shows. The last ones end hosts, in this order.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab, is_root
from costof.ledger.ledger import Ledger, LostRecord, SliceRecord
from costof.programs.redis.server import PORT, TLS_PORT, USER
from costof.programs.server import Place
from tests.integration.conftest import COSTOF
from tests.support.programs import eventually
from tests.support.ray_nodes import STARTING_CORES, Cluster, Node, a_cluster
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
        """Hosts that the report calls slower than the others."""
        result = json.loads((self.folder / "result.json").read_text())
        return [each["host"] for each in result["sections"]["hosts"]["slower"]]


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
    process = costof(
        cluster, "run", f"/tmp/{study.name}", "--profile", "quick", *target(server), *words, "--out", f"/tmp/{name}"
    )
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


ENGINE = "costof-engine"
#: First operations of all hosts are apart by no more; the schedule alone has them 0.7 ms apart.
TOGETHER_NS = 5_000_000


def engines(node: Node) -> list[int]:
    return node.pids_of(ENGINE)


def left(node: Node) -> list[str]:
    """What a run may not leave on a host: its engine, its actor, files in memory and others."""
    processes = [
        " ".join(words) for pid, words in node.processes().items() if "ray::" in words[0] or pid in engines(node)
    ]
    found = [each for each in processes if "Agent" not in each]
    for pid in node.processes():
        with contextlib.suppress(OSError):
            found += [name for each in Path(f"/proc/{pid}/fd").iterdir() if "memfd:" in (name := str(each.readlink()))]
    logs = node.folder / "ray"
    shared = Path(f"/proc/{node.init}/root/dev/shm")
    return found + [
        str(path) for folder in (node.folder, shared) for path in folder.rglob("*costof*") if logs not in path.parents
    ]


def memory_holds(pid: int, secret: bytes) -> bool:
    """Whether it stands in what a process may write to, its part of the object store included."""
    page = os.sysconf("SC_PAGESIZE")
    process = Path(f"/proc/{pid}")
    with (process / "mem").open("rb", 0) as memory, (process / "pagemap").open("rb", 0) as pages:
        for line in (process / "maps").read_text().splitlines():
            span, rights, *_ = line.split()
            low, high = (int(each, 16) // page for each in span.split("-"))
            if not rights.startswith("rw"):
                continue
            # A page that nobody has touched would be made by looking at it.
            there = np.frombuffer(os.pread(pages.fileno(), (high - low) * 8, low * 8), np.uint64) >> np.uint64(63)
            edges = np.flatnonzero(np.diff(there.astype(np.int8), prepend=0, append=0)) + low
            for first, last in edges.reshape(-1, 2).tolist():
                with contextlib.suppress(OSError):
                    if secret in os.pread(memory.fileno(), (last - first) * page, first * page):
                        return True
    return False


def holders_on(node: Node, secret: bytes) -> Iterator[str]:
    """Processes that show it to others, and parts of Ray that have it in memory: what `ray list` tells is there."""
    for pid, words in node.processes().items():
        shown = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
        of_ray = any(
            each in word for each in ("gcs_server", "raylet", "ray::HostActor", "ray.util.client") for word in words
        )
        if secret in shown or (of_ray and memory_holds(pid, secret)):
            yield f"{node.name}: {' '.join(words)[:100]}"


@dataclass
class Near:
    """A run of all hosts side by side, what was seen of it meanwhile, and what the server had counted."""

    outcome: Outcome
    holders: set[str]
    gets: int


@pytest.fixture(scope="module")
def near(cluster: Cluster, server: Standing, study: Path) -> Near:
    secret = server.password.get_secret_value().encode()
    server.ask("CONFIG", "RESETSTAT")
    with running(cluster, server, "near", study, "--rounds", "33") as run:
        run.wait_for_rounds(2)
        # The instrument shows that what is there is found.
        assert all(memory_holds(pid, secret) for node in cluster.loads for pid in engines(node))
        holders = {name for node in cluster.nodes.values() for name in holders_on(node, secret)}
        outcome = run.ends()
    return Near(outcome, holders, int(server.ask("INFO", "commandstats")["cmdstat_get"]["calls"]))


def test_hosts_are_listed_before_anything_is_started(cluster: Cluster, server: Standing, study: Path) -> None:
    status, said = told(cluster, "run", "/tmp/paced.toml", "--profile", "quick", *target(server), "--dry-run")
    assert status == 0
    assert [line.split()[1] for line in said.splitlines() if line.startswith("host ")] == [f"{name}," for name in LOADS]
    assert said.count("query 4 workers") == 3
    assert not any(left(node) for node in cluster.loads)


def test_a_run_of_many_hosts_has_one_answer(near: Near) -> None:
    outcome = near.outcome
    assert outcome.status == 0, outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    for piece in outcome.slices:
        assert [part.host for part in piece.hosts] == LOADS
        assert (
            sum(part.operations for part in piece.hosts)
            == piece.answer.operations
            == piece.answer.phases["operation"].count
        )


def test_the_server_has_counted_the_operations_that_the_hosts_say(near: Near) -> None:
    measured = sum(piece.answer.operations for piece in near.outcome.slices)
    # One looks whether the account may; and before each slice each worker does one on the connection that it opens.
    assert near.gets == 1 + 12 * len(near.outcome.slices) + measured


def test_a_clock_ten_seconds_off_does_no_harm(near: Near) -> None:
    for piece in near.outcome.slices:
        offsets = [part.clock_offset_ns / 1e9 for part in piece.hosts]
        assert [round(offset) for offset in offsets] == [0, 10, 0]
    assert near.outcome.slower == []


def test_hosts_begin_together(near: Near) -> None:
    apart = [max(firsts) - min(firsts) for each in near.outcome.slices if (firsts := [p.first_ns for p in each.hosts])]
    print(sorted(round(each / 1e6, 2) for each in apart))
    assert len(apart) >= 100
    # A busy machine wakes one late now and then.
    assert median(apart) < TOGETHER_NS


def test_no_password_stands_where_ray_keeps_things(near: Near, cluster: Cluster, server: Standing) -> None:
    assert not near.holders
    secret = server.password.get_secret_value().encode()
    for node in cluster.nodes.values():
        logs = [path for path in (node.folder / "ray").rglob("*") if path.is_file()]
        assert logs
        assert not [path for path in logs if secret in path.read_bytes()]


def test_nothing_is_left_on_any_host(near: Near, cluster: Cluster, server: Standing) -> None:
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))
    assert not server.all_keys()


def test_a_wrong_token_is_refused(cluster: Cluster, server: Standing, study: Path) -> None:
    (cluster.head.folder / "wrong").write_text("0" * 64)
    status, said = told(cluster, "doctor", "--hosts", "auto", RAY_AUTH_TOKEN_PATH="/tmp/wrong")
    assert status == 1
    assert "token" in said


def test_another_python_is_refused(cluster: Cluster) -> None:
    """Ray itself refuses a node whose Python is not the cluster's; a command meets what the cluster says of itself."""
    say = """
import json, ray
from ray.experimental import internal_kv as kv
ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
key, space = b"CLUSTER_METADATA", b"cluster"
usual = kv._internal_kv_get(key, namespace=space)
kv._internal_kv_put(key, json.dumps(json.loads(usual) | {"python_version": "3.13.0"}).encode(), namespace=space)
print("changed", flush=True)
input()
kv._internal_kv_put(key, usual, namespace=space)
"""
    other = cluster.command(sys.executable, "-c", say, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == "changed\n"
    try:
        status, said = told(cluster, "doctor", "--hosts", "auto")
    finally:
        other.communicate("\n")
    assert status == 1
    assert "3.13.0" in said


def test_what_each_host_has_is_told_to_a_client_from_elsewhere(cluster: Cluster) -> None:
    status, said = told(cluster, "doctor", "--hosts", cluster.client_address)
    assert status == 0, said
    assert [name for name in LOADS if f"{name}: " in said] == LOADS


def test_a_host_far_away_is_named_and_one_whose_engine_dies(cluster: Cluster, server: Standing, study: Path) -> None:
    with cluster.far("load-3"):
        with running(cluster, server, "far", study, "--rounds", "8") as run:
            run.wait_for_rounds(6)
            os.kill(engines(cluster.nodes["load-1"])[0], signal.SIGKILL)
            outcome = run.ends()
        assert outcome.status == 3
        assert [(lost.host, lost.rest) for lost in outcome.lost] == [("load-1", None)]
        assert "load-1" in outcome.out
        assert outcome.slower == ["load-3"]
        eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))
        resumed = costof(cluster, "run", "--resume", "/tmp/far", *target(server))
        again = Running(resumed, outcome.folder).ends()
    assert again.status == 0, again.err
    assert again.slower == ["load-3"]


def test_a_host_with_a_third_of_the_cpu_is_named_and_one_that_dies_is_done_without(
    cluster: Cluster, server: Standing
) -> None:
    closed = cluster.head.folder / "closed.toml"
    closed.write_text(STUDY.replace("PACE", "").replace("SECONDS", "0.5"))
    with running(cluster, server, "slow", closed, "--rounds", "8", "--hosts-least", "2") as run:
        run.wait_for_rounds(1)
        # Little enough to be a limit on a busy machine too.
        for node in cluster.loads:
            node.host.resize(0.04 if node.name == "load-2" else 0.12)
        run.wait_for_rounds(5)
        cluster.kill("load-3")
        outcome = run.ends()
    assert outcome.status == 0, outcome.err
    assert [(lost.host, lost.rest) for lost in outcome.lost] == [("load-3", 2)]
    assert "load-3 was lost" in outcome.out
    # Ray has news of it, too.
    assert "raylet" not in outcome.out + outcome.err
    assert "load-2" in outcome.slower
    assert [part.host for part in outcome.slices[-1].hosts] == LOADS[:2]
    for node in cluster.loads:
        node.host.resize(STARTING_CORES)


def test_a_silent_host_is_named(cluster: Cluster, server: Standing, study: Path) -> None:
    with running(cluster, server, "silent", study, "--rounds", "50") as run:
        run.wait_for_rounds(4)
        with cluster.cut("load-2"):
            outcome = run.ends()
    assert outcome.status == 3, outcome.out + outcome.err
    assert [(lost.host, lost.rest) for lost in outcome.lost] == [("load-2", None)]
    # Reached again, what the run had there ends.
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads[:2]))
