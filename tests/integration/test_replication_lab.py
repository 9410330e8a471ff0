"""The lab of chained replication on real members: shapes held under writes, shares, and members that fail."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
import pytest
from pymongo.errors import PyMongoError

from costof.errors import CostofError, Problem
from costof.ipc.process import SliceAnswer
from costof.lab import network
from costof.lab.cpu_share import limits
from costof.lab.lab import Lab, is_root
from costof.lab.round_trips import tcp_round_trip_ms
from costof.services import Judgement
from costof.services.replication import nodes
from costof.services.replication.lab import ReplicationLab, Setting
from costof.services.replication.nodes import Distances, Group, NodeNetwork
from costof.study.arms import PlannedArm
from tests.support.kill_9 import left_by_kill_9
from tests.support.programs import HANGS_SECONDS, SHORTER_MS, eventually
from tests.support.small_plans import arms_by_shape, plan_for

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="hosts of their own and shares take root"),
]
WRITES = 200
ATTEMPTS = 3


@pytest.fixture(scope="module")
def seven() -> Iterator[ReplicationLab]:
    plan = plan_for("nodes=7", "sync=star,chain,tree-2,natural", "node_cpu=0.5", "write_concern=1")
    with ReplicationLab(plan) as lab:
        lab.arms = arms_by_shape(plan)  # type: ignore[attr-defined]
        yield lab


def write(lab: ReplicationLab, arm: PlannedArm, count: int = WRITES) -> SliceAnswer:
    """Records by the administration's own connection: it needs no way into the hosts."""
    collection = lab._sets[Setting.of(arm).nodes].shaped._set.admin("primary")["ycsb"]["usertable"]
    concern = lab.endpoint(arm)["service"]["write_concern"]
    collection = collection.with_options(write_concern=pymongo.WriteConcern(concern))
    started, begun = time.time_ns(), time.monotonic_ns()
    for _ in range(count):
        collection.insert_one({"field": "x" * 1000})
    return SliceAnswer(
        id=1,
        arm=arm.name,
        workload="write",
        started_unix_ns=started,
        elapsed_ns=time.monotonic_ns() - begun,
        operations=count,
        errors=[],
        phases={},
        cpu_ns={},
        peak_memory_bytes=1,
        evidence={},
    )


def take_slice(lab: ReplicationLab, arm: PlannedArm, attempts: int = ATTEMPTS) -> Judgement:
    """As a run does: a set that does not come into shape in time spoils a slice, and the next is taken."""
    for _ in range(attempts):
        lab.arrange(arm)
        before = lab.observe(arm)
        answer = write(lab, arm)
        judged = lab.judge(arm, before, lab.observe(arm), answer)
        if judged.mismatch is None:
            break
    return judged


@pytest.mark.parametrize(
    ("shape", "hops", "direct"), [("chain", 3, 1), ("tree-2", 2, 2), ("star", 1, 6), ("natural", None, None)]
)
def test_a_shape_holds_while_records_are_written(
    seven: ReplicationLab, shape: str, hops: int | None, direct: int | None
) -> None:
    judged = take_slice(seven, seven.arms[shape])  # type: ignore[attr-defined]
    assert judged.mismatch is None
    assert judged.facts["tree"].startswith("primary: ")
    assert judged.figures["hops_to_majority"] == (hops or judged.figures["hops_to_majority"])
    # Each follower of the primary fetches every record from it once, but for those it lags behind at the end.
    fetched = judged.figures["oplog_bytes_sent"]
    assert fetched > 800
    assert direct is None or direct * 800 < fetched < direct * 2500
    assert judged.figures["primary_cpu"] > 0
    assert 0 <= judged.figures["replication_lag_ms"] <= judged.figures["replication_lag_max_ms"]


def test_a_slice_under_another_tree_is_thrown_out(seven: ReplicationLab) -> None:
    arms: dict[str, PlannedArm] = seven.arms  # type: ignore[attr-defined]
    seven.arrange(arms["chain"])
    observed = seven.observe(arms["chain"])
    judged = seven.judge(arms["star"], observed, observed, write(seven, arms["star"], 1))
    assert judged.mismatch is not None
    assert "the tree was 'primary: secondary-1; secondary-1: secondary-2;" in judged.mismatch


def test_members_have_shares_and_roles_their_time(seven: ReplicationLab) -> None:
    arm = seven.arms["star"]  # type: ignore[attr-defined]
    seven.arrange(arm)
    before = seven.cpu_seconds()
    write(seven, arm, 50)
    used = seven.cpu_seconds()
    assert used["primary"] > before["primary"]
    assert {"primary", "secondaries", "hidden"} <= used.keys()
    assert seven.held_back_seconds().keys() == {"primary", "secondaries", "hidden"}
    share = seven._network.share("7-primary")
    assert share is not None
    # Resized from what the set was formed in.
    for name, value in limits(share.hierarchies.version, 0.5).items():
        assert (share.hierarchies.limit / share.group / name).read_text().strip() == value
    for folder in share.folders:
        assert str(seven.process_ids["7-primary"]) in (folder / "cgroup.procs").read_text().split()


def test_data_does_not_grow_without_bound(seven: ReplicationLab, monkeypatch: pytest.MonkeyPatch) -> None:
    arm = seven.arms["star"]  # type: ignore[attr-defined]
    monkeypatch.setattr("costof.services.replication.lab.MOST_RECORDS", 10)
    seven.arrange(arm)
    write(seven, arm, 20)
    seven.arrange(arm)
    shaped = seven._sets[7].shaped
    counted = shaped._set.ask_all(lambda member, client: client["ycsb"]["usertable"].estimated_document_count())
    assert set(counted.values()) == {0}


def test_a_primary_that_steps_down_is_made_primary_again(seven: ReplicationLab) -> None:
    arm = seven.arms["chain"]  # type: ignore[attr-defined]
    seven.arrange(arm)
    before = seven.observe(arm)
    shaped = seven._sets[7].shaped
    shaped._set.admin("primary").admin.command("replSetStepDown", 60, secondaryCatchUpPeriodSecs=10)
    answer = SliceAnswer.model_construct(elapsed_ns=1, operations=0)
    assert seven.judge(arm, before, seven.observe(arm), answer).mismatch == "primary is in SECONDARY"
    eventually("another primary", lambda: seven.observe(arm).primary not in (None, "primary"))
    assert take_slice(seven, arm).mismatch is None
    assert any("deposed 1 times" in caution for caution in seven.cautions())


def test_a_member_that_is_killed_costs_its_set_alone() -> None:
    plan = plan_for("nodes=3", "sync=star", "node_cpu=1", "write_concern=1")
    with ReplicationLab(plan) as lab:
        arm = plan.controls[0]
        assert lab.lost_arm(arm) is None
        before = lab.observe(arm)
        os.kill(lab.process_ids["3-secondary-1"], signal.SIGKILL)
        eventually("notice", lambda: lab.lost_arm(arm) is not None)
        # The run goes on to its next turn, and says then which arms have gone.
        lab.arrange(arm)
        judged = lab.judge(arm, before, lab.observe(arm), SliceAnswer.model_construct(elapsed_ns=1, operations=0))
        assert judged.mismatch is not None
        assert "secondary-1" in (lab.lost_arm(arm) or "")
        assert lab.lost() == lab.lost_arm(arm)


def test_a_member_in_initial_sync_spoils_slices_until_it_has_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costof.services.replication.shape.PATIENCE_SECONDS", 3)
    monkeypatch.setattr("costof.programs.mongod.replica_set.ANSWER_SECONDS", 2)
    plan = plan_for("nodes=3", "sync=star", "node_cpu=1", "write_concern=1")
    with ReplicationLab(plan) as lab:
        arm = plan.controls[0]
        assert take_slice(lab, arm).mismatch is None
        before = lab.observe(arm)
        answer = write(lab, arm, 50)
        with resynchronising(lab, "3-secondary-1"):
            judged = lab.judge(arm, before, lab.observe(arm), answer)
            assert judged.mismatch is not None
            assert judged.mismatch.startswith("secondary-1 cannot be asked: in STARTUP2")
            # Its set is not lost: slices go on being taken, and thrown out.
            assert lab.lost_arm(arm) is None
            assert "in STARTUP2" in (take_slice(lab, arm, attempts=1).mismatch or "")
        eventually("its copy", lambda: lab.observe(arm).fault("primary") is None)
        assert take_slice(lab, arm).mismatch is None


@contextmanager
def resynchronising(lab: ReplicationLab, name: str) -> Iterator[None]:
    """A member that has lost its data and hangs in initial sync meanwhile, as MongoDB's own tests make it."""
    process = lab._lab.processes[name]
    argv = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode().split("\0")[:-1]
    hang = 'failpoint.initialSyncHangBeforeCopyingDatabases={"mode": "alwaysOn"}'
    replica_set = lab._sets[3].shaped._set
    member = next(each for each in replica_set.members if name.endswith(each.name))
    data = replica_set._folder(member.name)
    lab._lab.stop(name)
    shutil.rmtree(data)
    data.mkdir(mode=0o700)
    lab._lab.spawn(name, process.role, [*argv, "--setParameter", hang], host=member.host)
    key = (lab._lab.folder / "3-keyfile").read_text()
    socket = quote(str(data / "mongodb-27017.sock"), safe="")
    # Without users of its own it knows the set's key (Internal/Membership Authentication).
    system = {"username": "__system", "password": key, "authSource": "local", "authMechanism": "SCRAM-SHA-256"}
    with pymongo.MongoClient(
        f"mongodb://{socket}", directConnection=True, serverSelectionTimeoutMS=500, **system
    ) as by:
        eventually("initial sync", lambda: _state(by) == "STARTUP2")
        # The others know by their heartbeats, and it is they who are asked.
        primary = replica_set.admin(replica_set.primary.name).admin

        def known() -> bool:
            members = primary.command("replSetGetStatus")["members"]
            return {each["name"]: each["stateStr"] for each in members}[member.address] == "STARTUP2"

        eventually("the others' notice", known)
        yield
        by.admin.command("configureFailPoint", "initialSyncHangBeforeCopyingDatabases", mode="off")


def _state(client: pymongo.MongoClient[dict[str, Any]]) -> str | None:
    try:
        status = client.admin.command("replSetGetStatus")
    except PyMongoError:
        return None
    return next(str(member["stateStr"]) for member in status["members"] if member.get("self"))


def test_nodes_stand_apart_and_move_without_losing_connections() -> None:
    near, far = Distances(0.1, 0), Distances(5, 20)
    group = Group(["a", "b", "c"], "c", [near, far])
    with Lab() as lab, NodeNetwork(lab, 1, [group], cores=2) as standing:
        measured = {link.name: link.median_ms for link in standing.links() if link.method == "TCP_INFO"}
        # A busy machine makes packets later and never earlier, and hardly all of them.
        medians = [measured[f"nodes at {at}"] for at in ("0.1 ms", "5 ms", "5 ms, far member 20 ms further")]
        assert all(median >= asked - SHORTER_MS for median, asked in zip(medians, (0, 5, 25), strict=True))
        standing.move(group, near)
        assert quickest_ms(standing, "b") < 5 - SHORTER_MS
        standing.move(group, far)
        assert 5 - SHORTER_MS <= quickest_ms(standing, "b") < 25 - SHORTER_MS
        assert 25 - SHORTER_MS <= quickest_ms(standing, "c") < 45
        standing.move(group, near)
        with standing.hosts["a"].socket() as listener, standing.hosts["b"].socket() as client:
            listener.bind((standing.addresses["a"], 0))
            listener.listen()
            client.settimeout(HANGS_SECONDS)
            client.connect(listener.getsockname())
            server, peer = listener.accept()
            assert peer[0] == standing.addresses["b"]
            standing.move(group, far)
            with server:
                client.sendall(b"still here")
                assert server.recv(10) == b"still here"


def quickest_ms(standing: NodeNetwork, node: str) -> float:
    """Of twenty handshakes with node a."""
    found = []
    with standing.hosts["a"].socket() as listener:
        listener.bind((standing.addresses["a"], 0))
        listener.listen(20)
        for _ in range(20):
            with standing.hosts[node].socket() as client:
                client.settimeout(HANGS_SECONDS)
                client.connect(listener.getsockname())
                found.append(tcp_round_trip_ms(client))
    return min(found)


def test_without_root_nodes_are_on_loopback_and_distance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (network, nodes):
        monkeypatch.setattr(module, "is_root", lambda: False)
    with Lab() as lab:
        with NodeNetwork(lab, 1, [Group(["a", "b", "c"], "c", [Distances(0.1, 0)])], cores=2) as near:
            assert len(set(near.addresses.values())) == 3
            assert all(address.startswith("127.") for address in near.addresses.values())
            assert not near.shares
        with (
            pytest.raises(CostofError, match="a round trip of 5 ms between nodes needs root") as refused,
            NodeNetwork(lab, 1, [Group(["a", "b", "c"], "c", [Distances(5, 0)])], cores=2),
        ):
            pass
        assert refused.value.problem is Problem.NEEDS_ROOT


RUN = """
import json, sys
from costof.services.replication.lab import ReplicationLab, Setting
from costof.services.replication.lab import ReplicationLab
from tests.support.small_plans import plan_for
with ReplicationLab(plan_for("nodes=3", "sync=star", "node_cpu=1", "round_trip_ms=1", "write_concern=1")) as lab:
    hosts = [lab._network.client, *lab._network.hosts.values()]
    paths = [f"/run/netns/{host.namespace}" for host in hosts] + [str(lab._lab.folder)]
    paths += [str(folder) for host in hosts if host.cpu_share for folder in host.cpu_share.folders]
    pids = [*lab.process_ids.values(), *lab._network.process_ids()]
    print(json.dumps({"pids": pids, "paths": paths}), flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_after_kill_9() -> None:
    assert len(left_by_kill_9("-c", RUN)["pids"]) == 4


def test_a_set_of_fifteen_forms() -> None:
    plan = plan_for("nodes=15", "sync=star", "write_concern=1", "node_cpu=0.5")
    with ReplicationLab(plan) as lab:
        judged = take_slice(lab, plan.controls[0])
        assert judged.mismatch is None
        assert judged.figures["hops_to_majority"] == 1
        assert len(lab.process_ids) == 15
