"""Runs on many load machines: Ray nodes in separate namespaces load a real server together, or fail.

All tests share one cluster, since starting it takes longest. Some tests share a run. The last tests end hosts, so their
order matters.
"""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import median

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab, descendants_of, is_root
from costof.programs.server import Place
from tests.slow.hosts_runs import (
    COMMANDS,
    STUDY,
    WHERE,
    Outcome,
    Running,
    begun,
    costof,
    engines,
    files_of_ray,
    holders_on,
    left,
    memory_holds,
    paced,
    run_on_head,
    running,
    target,
)
from tests.slow.ray_nodes import CLIENTS_PORT, TMP, Cluster, a_cluster
from tests.support.programs import eventually
from tests.support.redis import RunningServer

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="hosts of their own are namespaces, which only root can make"),
    pytest.mark.skipif(ROOT.is_relative_to(TMP), reason="nodes have a /tmp each, which hides these sources"),
]

LOADS = ["load-1", "load-2", "load-3"]
#: The maximum time between the first operations of any two hosts. By plan they are at most 0.7 ms apart.
TOGETHER_NS = 5_000_000
#: The duration of a command, in seconds. It is longer than the test, so the command ends only if costof kills it.
LONG = "123456789"


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Cluster]:
    """Start the cluster for all tests here. The monotonic clock of load-2 is 10 s ahead of the other clocks."""
    with a_cluster(lab, far="load-3", ahead="load-2") as running:
        yield running


@pytest.fixture(scope="module")
def server(lab: Lab, cluster: Cluster) -> Iterator[RunningServer]:
    address = cluster.server.a_address
    authority = Authority(lab.folder / "certificates")
    server = RunningServer(Place(lab, cluster.server.a, authority, ["rsa-2048"], lambda: address))
    with contextlib.closing(server):
        server.start()
        (cluster.head.folder / "ca.pem").write_bytes(server.ca_file.read_bytes())
        for node in cluster.nodes.values():
            (node.folder / "password").write_text(server.password.get_secret_value())
        yield server


@pytest.fixture(scope="module")
def study(cluster: Cluster) -> Path:
    return _study(cluster, "paced", paced(3000.0), 0.1)


@pytest.fixture(scope="module")
def long_study(cluster: Cluster) -> Path:
    """Return the file of a study whose slices last 2 s, so a host that starts late misses only a small part."""
    return _study(cluster, "long", paced(3000.0), 2.0)


@dataclass
class Near:
    """A finished run on all hosts, without added delays on their links.

    `holders` are processes whose files in /proc showed the password. `gets` is the server's count of GETs.
    """

    outcome: Outcome
    holders: set[str]
    gets: int


@pytest.fixture(scope="module")
def refused(cluster: Cluster) -> Iterator[subprocess.Popen[str]]:
    """Start `doctor` with a wrong token in the background, since Ray takes long to reject it. Yield the process."""
    (cluster.head.folder / "wrong").write_text("0" * 64)
    with costof(cluster, "doctor", "--hosts", "auto", RAY_AUTH_TOKEN_PATH="/tmp/wrong") as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def near(cluster: Cluster, server: RunningServer, study: Path, refused: subprocess.Popen[str]) -> Near:
    secret = server.password.get_secret_value().encode()
    server.ask("CONFIG", "RESETSTAT")
    with running(cluster, server, "near", study, "--rounds", "33") as run:
        run.wait_for_rounds(2)
        # The engine has the password in its memory, which shows that the search works.
        assert all(memory_holds(pid, secret) for node in cluster.loads for pid in engines(node))
        holders = {name for node in cluster.nodes.values() for name in holders_on(node, secret)}
        outcome = run.ends()
    return Near(outcome, holders, int(server.ask("INFO", "commandstats")["cmdstat_get"]["calls"]))


def test_costof_doctor_lists_the_hosts(cluster: Cluster) -> None:
    status, output = run_on_head(cluster, "doctor", "--hosts", "auto")
    assert status == 0, output
    assert [name for name in LOADS if f"{name}: " in output] == LOADS


def test_dry_run_lists_the_hosts_and_starts_nothing(cluster: Cluster, server: RunningServer, study: Path) -> None:
    status, output = run_on_head(cluster, "run", "/tmp/paced.toml", "--profile", "quick", *target(server), "--dry-run")
    assert status == 0
    hosts = [line.split()[1] for line in output.splitlines() if line.startswith("host ")]
    assert hosts == [f"{name}," for name in LOADS]
    assert output.count("query 4 workers") == 3
    assert not any(left(node) for node in cluster.loads)


def test_operations_of_a_measurement_are_the_sum_over_all_hosts(near: Near) -> None:
    outcome = near.outcome
    assert outcome.status == 0, outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    for record in outcome.slices:
        assert [part.host for part in record.hosts] == LOADS
        measured = sum(part.operations for part in record.hosts)
        assert measured == record.answer.operations
        assert not measured or measured == record.answer.phases["operation"].count


def test_server_counts_the_operations_of_all_hosts(near: Near) -> None:
    measured = sum(record.answer.operations for record in near.outcome.slices)
    # A host abandons operations that have no answer a second after the slice. The server may nevertheless have counted
    # them.
    abandoned = sum(error.count for record in near.outcome.slices for error in record.answer.errors)
    # The server also counts GETs that are not measured: one that checks the account's permission, and one by each of
    # the 12 workers on its new connection before each slice.
    assert 0 <= near.gets - (1 + 12 * len(near.outcome.slices) + measured) <= abandoned


def test_clock_offset_of_ten_seconds_on_a_host_is_corrected(near: Near) -> None:
    for record in near.outcome.slices:
        offsets = [part.clock_offset_ns / 1e9 for part in record.hosts]
        assert [round(offset) for offset in offsets] == [0, 10, 0]
    for each in zip(*(record.hosts for record in near.outcome.slices), strict=True):
        assert sum(part.operations for part in each) > 0
        # At least one slice must start in time. On a busy machine some slices start late; with uncorrected clocks all
        # slices would.
        assert min(part.late_ns for part in each) < 1e9


def test_all_hosts_start_a_measurement_at_one_instant(
    near: Near, cluster: Cluster, server: RunningServer, study: Path
) -> None:
    outcomes = [near.outcome]

    def begin_together() -> bool:
        begun_ns = [[part.first_ns for part in record.hosts] for record in outcomes[-1].slices]
        differences = [max(firsts) - min(firsts) for firsts in begun_ns if None not in firsts]
        print(sorted(round(each / 1e6, 2) for each in differences))
        if len(differences) >= 100 and median(differences) < TOGETHER_NS:
            return True
        # Repeat the run if a host of a busy machine starts late.
        with running(cluster, server, f"together{len(outcomes)}", study, "--rounds", "33") as run:
            outcomes.append(run.ends())
        return False

    eventually("hosts that begin together", begin_together)


def test_ray_stores_no_password(near: Near, cluster: Cluster, server: RunningServer) -> None:
    assert not near.holders
    secret = server.password.get_secret_value().encode()
    assert not [path for node in cluster.nodes.values() for path in files_of_ray(node) if secret in path.read_bytes()]


def test_run_leaves_no_process_on_any_host_and_no_data_on_the_server(
    near: Near, cluster: Cluster, server: RunningServer
) -> None:
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))
    assert not server.all_keys()


def test_wrong_token_for_the_ray_cluster_is_reported(refused: subprocess.Popen[str]) -> None:
    out, err = refused.communicate()
    assert refused.returncode == 1
    assert "it rejects this machine's token" in out
    assert "Traceback" not in err


def test_run_through_the_ray_client_measures_on_all_hosts_and_leaves_nothing_behind(
    cluster: Cluster, server: RunningServer, long_study: Path
) -> None:
    by_client = ["--hosts", f"ray://{cluster.head.address}:{CLIENTS_PORT}"]
    with running(cluster, server, "by-client", long_study, *by_client, "--rounds", "2") as run:
        outcome = run.ends()
    assert outcome.status in {0, 3}, outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    for record in outcome.slices:
        assert [part.host for part in record.hosts] == LOADS
        assert sum(part.operations for part in record.hosts) == record.answer.operations > 0
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))


#: A program that makes the cluster report another Python version until it is stopped.
OTHER_PYTHON = """
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


def test_host_with_another_python_version_is_rejected(cluster: Cluster) -> None:
    pipe = subprocess.PIPE
    other = cluster.command(sys.executable, "-c", OTHER_PYTHON, stdin=pipe, stdout=pipe)
    assert other.stdout is not None
    assert other.stdout.readline() == "changed\n"
    try:
        status, output = run_on_head(cluster, "doctor", "--hosts", "auto")
    finally:
        other.communicate("\n")
    assert status == 1
    assert f"Python {platform.python_version()}" in output
    assert "Python 3.13.0" in output


def test_host_without_costof_runs_the_engine_but_cannot_measure_commands(
    cluster: Cluster, server: RunningServer, long_study: Path
) -> None:
    bare, sources = cluster.nodes["load-3"], str(ROOT / "costof")
    (bare.folder / "nothing").mkdir()
    subprocess.run(bare.inside("mount", "--bind", "/tmp/nothing", sources), check=True)
    try:
        with running(cluster, server, "bare", long_study, "--rounds", "2") as run:
            outcome = run.ends()
        status, output = run_on_head(cluster, "versus", *WHERE, "true", "true")
    finally:
        subprocess.run(bare.inside("umount", sources), check=True)
    assert outcome.status in {0, 3}, outcome.out + outcome.err
    assert all(part.operations > 0 for record in outcome.slices for part in record.hosts)
    assert status == 1
    assert "load-3 cannot measure: commands need costof" in output
    assert "on every host, and it has no costof" in output


def test_commands_are_measured_on_many_hosts(cluster: Cluster, server: RunningServer) -> None:
    token = secrets.token_hex(16)
    text = COMMANDS.replace("ADDRESS", server.address).replace("TOKEN_OF_A_LEVEL", token)
    (cluster.head.folder / "own.toml").write_text(text)
    server.ask("CONFIG", "RESETSTAT")
    words = ["run", "/tmp/own.toml", "--profile", "quick", "--rounds", "3", "--load", "300/s", *WHERE]
    with begun(cluster, "own", *words) as run:
        run.wait_for_rounds(2)
        # Search only command lines, because the study puts the secret into the environment of the measured command.
        holders = [name for node in cluster.nodes.values() for name in holders_on(node, token.encode(), ["cmdline"])]
        outcome = run.ends()
    # Three rounds are too few for an answer.
    assert outcome.status in {0, 3}, outcome.out + outcome.err
    assert not holders
    files = [path for node in cluster.nodes.values() for path in files_of_ray(node)]
    held = [path for path in files if any(each in path.read_bytes() for each in (token.encode(), _password(server)))]
    assert not held
    for record in outcome.slices:
        assert [part.host for part in record.hosts] == LOADS
        assert record.answer.figures["rate"] == fsum(part.figures["rate"] for part in record.hosts)
        assert record.answer.operations == sum(part.operations for part in record.hosts)
        # The load is 300 a second. For each of the three hosts, `{rate}` is a third of it.
        assert "requested: 100" in record.answer.evidence["output"]
    gets = sum(part.figures["gets"] * part.operations for record in outcome.slices for part in record.hosts)
    assert gets == int(server.ask("INFO", "commandstats")["cmdstat_get"]["calls"])
    assert "are means over the hosts" in " ".join((outcome.folder / "report.md").read_text().split())
    eventually("the end of runners and actors", lambda: not any(left(node) for node in cluster.loads))


def test_costof_versus_on_hosts_leaves_no_process_if_it_is_killed(cluster: Cluster) -> None:
    with begun(cluster, "killed", "versus", *WHERE, *[f"sleep {LONG}"] * 2) as run:
        eventually("commands", lambda: all(node.pids_of(LONG) for node in cluster.loads))
        for pid in descendants_of(run.process.pid):
            os.kill(pid, signal.SIGKILL)
        eventually("the end", lambda: not any(left(node) or node.pids_of(LONG) for node in cluster.loads))


def _study(cluster: Cluster, name: str, pace: str, seconds: float) -> Path:
    path = cluster.head.folder / f"{name}.toml"
    path.write_text(STUDY.replace("PACE", pace).replace("SECONDS", str(seconds)))
    return path


def _password(server: RunningServer) -> bytes:
    return server.password.get_secret_value().encode()


def test_crash_of_ray_leaves_a_partial_report(cluster: Cluster, server: RunningServer, study: Path) -> None:
    with running(cluster, server, "crashed", study, "--rounds", "50") as run:
        run.wait_for_rounds(4)
        of_run = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in descendants_of(run.process.pid)}
        (reaching,) = (pid for pid, words in of_run.items() if "instruments.hosts.population" in words)
        os.kill(reaching, signal.SIGSEGV)
        outcome = run.ends()
    assert outcome.status == 3, outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    assert "the process that controls the hosts stopped: it ended with status -11" in " ".join(outcome.out.split())
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))


def test_report_names_a_slow_distant_host_and_a_host_whose_engine_was_killed(
    cluster: Cluster, server: RunningServer
) -> None:
    # Even a busy machine keeps up with this low rate, so that no waiting operations hide the distance.
    seldom = _study(cluster, "seldom", paced(60.0), 0.5)
    with cluster.far("load-3"):
        with running(cluster, server, "far", seldom, "--rounds", "14") as run:
            run.wait_for_rounds(10)
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


def test_error_names_a_host_that_does_not_answer(cluster: Cluster, server: RunningServer, study: Path) -> None:
    with running(cluster, server, "silent", study, "--rounds", "50") as run:
        run.wait_for_rounds(4)
        with cluster.cut("load-2"):
            outcome = run.ends()
    assert outcome.status == 3, outcome.out + outcome.err
    assert [(lost.host, lost.rest) for lost in outcome.lost] == [("load-2", None)]
    # Once the host is reachable again, costof's processes there end by themselves.
    eventually("the end of engines and actors", lambda: not any(left(node) for node in cluster.loads))


def test_run_continues_without_a_dead_host_if_enough_hosts_remain(
    cluster: Cluster, server: RunningServer, study: Path
) -> None:
    with running(cluster, server, "died", study, "--rounds", "50", "--hosts-least", "2") as run:
        run.wait_for_rounds(2)
        cluster.kill("load-3")
        outcome = run.ends()
    assert outcome.status in {0, 3}, outcome.err
    assert [(lost.host, lost.rest) for lost in outcome.lost] == [("load-3", 2)]
    # Ray's own message about the dead node must not appear in the output.
    assert "raylet" not in outcome.out + outcome.err
    assert [part.host for part in outcome.slices[-1].hosts] == LOADS[:2]
