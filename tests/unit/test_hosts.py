"""Several hosts as one instrument: what is asked of them, their answers merged, and what a run says of them."""

from __future__ import annotations

import ast
import hashlib
import math
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.cli.main import COMMANDS
from costof.cli.options import check_hosts, hosts_settings
from costof.errors import CostofError, Problem
from costof.instruments.hosts import actor
from costof.instruments.hosts.actor import HostActor
from costof.instruments.hosts.cluster import _begin, reached
from costof.instruments.hosts.merging import apart, late, merged_answer, merged_ready, unlike
from costof.messages.answers import Phase, PublicKey, Ready, ReadyArm, SliceAnswer
from costof.messages.plan import Arm, HostsSettings, Plan, Share
from costof.messages.process import engine_path
from costof.messages.sealing import sealed
from costof.programs.access import Access
from costof.programs.redis.connection import RedisSettings
from costof.services.open import open_service
from costof.statistics.histogram import Counts, merged
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.fake_hosts import part
from tests.fake_run import Slice, answer_of, error_of


def phase(nanoseconds: list[int]) -> Phase:
    """Of operations that took so long."""
    return Phase(
        count=len(nanoseconds),
        sum_ns=sum(nanoseconds),
        sum_squares_ns2=math.fsum(value**2 for value in nanoseconds),
        min_ns=min(nanoseconds),
        max_ns=max(nanoseconds),
        round_trips=len(nanoseconds),
        bytes_sent=100 * len(nanoseconds),
        bytes_received=300 * len(nanoseconds),
        histogram=Counts.of(nanoseconds).encoded(),
    )


def answer(nanoseconds: list[int], evidence: dict[str, object] | None = None) -> SliceAnswer:
    seen = {"connections": len(nanoseconds), "verified": True, "server": "h:1", **(evidence or {})}
    phases = {"operation": phase(nanoseconds)} if nanoseconds else {}
    found = Slice(len(nanoseconds), 1.0, phases, {"client": 0.5}, seen, counts={"http.status.200": len(nanoseconds)})
    return answer_of(found, "query", "tls")


@given(st.lists(st.lists(st.integers(1, 10**10), max_size=8), min_size=1, max_size=4))
def test_merged_parts_are_the_whole(parts: list[list[int]]) -> None:
    """Whatever was divided how: one machine that had all operations would have told the same."""
    whole, together = answer([*chain(*parts)]), SliceAnswer(**merged_answer([answer(part) for part in parts]))
    assert together.operations == whole.operations
    assert together.count("http.status") == whole.count("http.status")
    assert together.evidence["connections"] == whole.evidence["connections"]
    assert together.phases.keys() == whole.phases.keys()
    for name, one in whole.phases.items():
        merely = together.phases[name]
        assert merely.model_copy(update={"histogram": ""}) == one.model_copy(
            update={"histogram": "", "sum_squares_ns2": pytest.approx(one.sum_squares_ns2, rel=1e-15)}
        )
        ours, theirs = merged([merely.histogram]), merged([one.histogram])
        assert ours.buckets.tolist() == theirs.buckets.tolist()
        assert ours.counts.tolist() == theirs.counts.tolist()


def test_errors_are_added_by_their_class() -> None:
    first, second = (
        answer([10]).model_copy(update={"errors": [error_of("timeout", f"of {name}", count)]})
        for name, count in (("a", 2), ("b", 3))
    )
    assert merged_answer([first, second])["errors"] == [error_of("timeout", "of a", 5)]


def test_hosts_that_saw_another_cipher_are_told() -> None:
    parts = [answer([1], {"cipher": "A"}), answer([1], {"cipher": "B"}), answer([], {"cipher": None})]
    assert unlike(parts) == "hosts saw different things: cipher was A and B"
    assert unlike([parts[0], parts[2]]) is None


def test_what_commands_of_hosts_left_running_is_named_once() -> None:
    parts = [answer([1], {"left_running": names}) for names in (["sleep", "sh"], ["sleep", "java"])]
    assert merged_answer([*parts, answer([1])])["evidence"]["left_running"] == ["sleep", "sh", "java"]


def test_a_host_without_a_worker_takes_no_evidence_away() -> None:
    idle = answer([], {"verified": False, "protocol": None, "server": None})
    found = merged_answer([answer([1], {"protocol": "TLSv1.3"}), idle])["evidence"]
    assert (found["verified"], found["protocol"], found["connections"]) == (True, "TLSv1.3", 1)
    assert not merged_answer([answer([1]), answer([1], {"verified": False})])["evidence"]["verified"]


def test_an_arm_that_one_host_does_not_reach_is_refused_and_the_host_named() -> None:
    def ready(detail: str | None) -> Ready:
        error = None if detail is None else error_of("refused", detail)
        return Ready(
            instrument="costof-engine",
            versions={"OpenSSL": "3.0.19"},
            arms=[ReadyArm(name="tls", server=None if detail else "h:1", error=error)],
        )

    some = merged_ready({"load-1": ready(None), "load-2": ready("no route")}).arms[0]
    assert some.error is not None
    assert (some.server, some.error.detail) == (None, "from load-2: no route")
    everywhere = merged_ready({"load-1": ready("no route"), "load-2": ready("no route")}).arms[0]
    assert everywhere.error is not None
    assert everywhere.error.detail == "no route"
    assert merged_ready({"load-1": ready(None), "load-2": ready(None)}).arms[0].server == "h:1"


def test_whose_engine_waits_otherwise_is_named() -> None:
    def ready(runtime: str) -> Ready:
        return Ready(instrument="costof-engine", versions={}, runtime=runtime, arms=[])

    told = {"load-1": ready("io_uring"), "load-2": ready("epoll"), "load-3": ready("io_uring")}
    assert merged_ready(told).runtime == "io_uring on load-1 and load-3, epoll on load-2"
    assert merged_ready({"load-1": ready("epoll"), "load-2": ready("epoll")}).runtime == "epoll"


def test_a_late_host_and_windows_apart_are_no_population() -> None:
    assert late([part(), part("load-2", 19)]) is None
    assert late([part(), part("load-2", 21)]) == "load-2 began 21 ms after the others"
    assert late([part(ended_ms=100), part("load-2", 4, 100)]) is None
    # One that has done its share of the operations measures no more; one whose last operation was slow is no other.
    assert apart([part(), part("load-2", ended_ms=951)], 200, 1.0) is None
    assert apart([part(), part("load-2", ended_ms=940)], 200, 1.0) == "the hosts measured together for 94% of the slice"
    assert apart([part(), part("load-2", ended_ms=600)], 1000, 1.0) is None
    assert apart([part(), part("load-2", ended_ms=1900)], 1000, 1.0) is None
    # A host that has no worker of a workload ends at once.
    idle = part("load-3", 0, 0, operations=0, first_ns=None)
    assert apart([part(), part("load-2"), idle], 200, 1.0) is None
    assert apart([], 200, 1.0) is late([]) is None


@given(st.integers(1, 200), st.integers(1, 12))
def test_shares_of_workers_unite(workers: int, hosts: int) -> None:
    shares = [Share(host=host, hosts=hosts).workers(workers) for host in range(hosts)]
    assert sum(shares) == workers
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("address", "where", "least", "unauthenticated", "problem"),
    [
        ("h0:6379", [], None, False, Problem.HOSTS_ADDRESS),
        ("auto", ["pool"], None, False, Problem.HOSTS_LABEL),
        (None, ["pool=load"], None, False, Problem.HOSTS_OPTION_UNUSED),
        (None, [], 2, False, Problem.HOSTS_OPTION_UNUSED),
        (None, [], None, True, Problem.HOSTS_OPTION_UNUSED),
    ],
)
def test_what_cannot_be_asked_of_hosts(
    address: str | None, where: list[str], least: int | None, unauthenticated: bool, problem: object
) -> None:
    with pytest.raises(CostofError) as caught:
        hosts_settings(address, where, least, unauthenticated)
    assert caught.value.problem is problem


def test_what_is_asked_of_hosts() -> None:
    assert hosts_settings("ray://h0:10001", ["pool=load", "zone="], 3, False) == HostsSettings(
        address="ray://h0:10001", where=(("pool", "load"), ("zone", "")), least=3
    )
    assert hosts_settings(None, [], None, False) is None


def test_a_gateway_of_this_machine_is_out_of_reach_of_hosts() -> None:
    access = Access("mysql://u:p@h/")
    plan = resolve(load_study("mysql-column-encryption"), Options(target="mysql://u@h/", hosts="auto"))
    with pytest.raises(CostofError, match="the gateway stands on this machine") as caught:
        check_hosts(plan, open_service(plan, access, "a-run"))
    assert caught.value.problem is Problem.HOSTS_CANNOT


def test_another_tls_library_is_not_sent_to_hosts() -> None:
    options = Options(settings=["tls_library=aws-lc"], target="mongodb://u@h/?replicaSet=rs0", hosts="auto")
    plan = resolve(load_study("mongodb-tls"), options)
    service = open_service(plan, Access("mongodb://u:p@h/?replicaSet=rs0"), "a-run")
    with pytest.raises(CostofError, match="TLS by aws-lc"):
        check_hosts(plan, service)


def test_no_command_imports_ray() -> None:
    modules = [where.partition(":")[0] for where, _ in COMMANDS.values()]
    program = (
        "import sys\n"
        + "\n".join(f"import {name}" for name in [*modules, "costof.messages.process", "costof.run.experiment"])
        + "\nprint([name for name in ('ray', 'grpc') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(CostofError, match=r"pip install 'costof\[ray\]'"), reached(HostsSettings(address="auto")):
        pass


def test_a_client_that_ray_fails_to_begin_is_begun_anew() -> None:
    """What ends it in Ray is luck, so a stand-in for Ray fails as often as is said."""

    class Unlucky:
        def __init__(self, failing: int, text: str) -> None:
            self.asked, self.failing, self.text = 0, failing, text

        def init(self, **_: object) -> None:
            self.asked += 1
            if self.asked <= self.failing:
                raise ConnectionAbortedError(self.text)

        def shutdown(self) -> None:
            pass

    unlucky = Unlucky(2, "Initialization failure from server:\nTraceback")
    _begin(unlucky, HostsSettings(address="ray://h0:10001"))
    assert unlucky.asked == 3
    for ray in (Unlucky(3, unlucky.text), Unlucky(1, "another")):
        with pytest.raises(ConnectionAbortedError):
            _begin(ray, HostsSettings(address="ray://h0:10001"))
        assert ray.asked == ray.failing


def test_the_actor_is_of_the_standard_library_alone() -> None:
    """Hosts have nothing else."""
    nodes = [*ast.walk(ast.parse(Path(actor.__file__).read_text()))]
    found = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in found} <= sys.stdlib_module_names


def test_an_actor_runs_the_engine_from_memory_and_opens_a_sealed_plan() -> None:
    engine, host = engine_path().read_bytes(), HostActor()
    try:
        begun = host.start(engine, hashlib.sha256(engine).hexdigest(), b"an authority")
        assert len(begun["files"]) == 1
        plan = Plan(
            share=Share(host=0, hosts=2),
            arms=[Arm(name="plain", service=RedisSettings(addresses=["127.0.0.1:1"]))],
            workloads=[],
        )
        key = PublicKey.model_validate_json(begun["line"])
        told = host.ask(sealed(plan, key), 60.0)
        # That nobody listens there only an engine knows that has read the plan.
        assert b"plain" in told["line"]
        assert {"busy", "steal"} < told.keys()
    finally:
        host.stop()
    assert host.ask(b"{}\n", 1.0) == {"failed": "no instrument runs"}


def test_an_actor_does_not_run_what_has_changed_on_the_way() -> None:
    host = HostActor()
    assert host.start(b"#!/bin/sh\n", "0" * 64) == {"failed": "the engine has arrived damaged"}
    engine = b"#!/no/such/program\n"
    assert "does not run from memory" in host.start(engine, hashlib.sha256(engine).hexdigest())["failed"]
