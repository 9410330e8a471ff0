"""The lab of the chained-replication study on real MongoDB members: sync trees, CPU shares, and failing members.

The sync tree says which member replicates from which other member. The study's arms differ in the tree's shape.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

import pymongo
import pytest
from pymongo.errors import PyMongoError

from costof.lab.cpu_share import limits
from costof.lab.lab import is_root
from costof.messages.answers import SliceAnswer
from costof.services import Judgement, Observation
from costof.services.replication.lab import ArmLabSettings, ReplicationLab
from costof.services.replication.shape import NotArrangedError
from costof.study.arms import PlannedArm
from tests.support.programs import HANGS_SECONDS, eventually
from tests.support.small_plans import arms_by_shape, replication_plan

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(not is_root(), reason="separate hosts and CPU shares need root"),
]
WRITES = 200
NOTHING = SliceAnswer.model_construct(elapsed_ns=1, operations=0)


@pytest.fixture(scope="module")
def seven() -> Iterator[ReplicationLab]:
    plan = replication_plan("nodes=7", "sync=star,chain,tree-2,natural", "node_cpu=0.5", "write_concern=1")
    with ReplicationLab(plan) as lab:
        lab.arms = arms_by_shape(plan)  # type: ignore[attr-defined]
        yield lab


def write(lab: ReplicationLab, arm: PlannedArm, count: int = WRITES) -> SliceAnswer:
    """Write records over the administrator's connection. Return the answer that the engine would give about them."""
    collection = lab._sets[ArmLabSettings.from_arm(arm).nodes].shaped._set.admin("primary")["ycsb"]["usertable"]
    concern = lab.endpoint(arm).service.write_concern
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


def arranged(lab: ReplicationLab, arm: PlannedArm) -> Observation:
    """Give the replica set the shape that the arm needs, with retries on a busy machine. Return its counters."""
    read: list[Observation] = []

    def is_in_shape() -> bool:
        lab.arrange(arm)
        read.append(lab.observe(arm))
        return lab.judge(arm, read[-1], read[-1], NOTHING).mismatch is None

    eventually(f"the shape of {arm.name}", is_in_shape)
    return read[-1]


def measure_slice(lab: ReplicationLab, arm: PlannedArm, *, caught_up: bool = False) -> Judgement:
    """Measure a slice. Return its judgement: the reason to discard it, if any, and the servers' figures.

    With `caught_up`, first wait until all members have replicated the records.
    """
    lab.arrange(arm)
    before = lab.observe(arm)
    answer = write(lab, arm)
    if caught_up:
        settings = ArmLabSettings.from_arm(arm)
        lab._sets[settings.nodes].shaped.catch_up(settings.shape)
    return lab.judge(arm, before, lab.observe(arm), answer)


def good_slice(lab: ReplicationLab, arm: PlannedArm, *, caught_up: bool = False) -> Judgement:
    """Measure slices until one is not discarded, and return its judgement.

    A slice is discarded if the members of a busy machine do not form the arm's replication tree in time.
    """
    judged: list[Judgement] = []

    def is_good() -> bool:
        with suppress(NotArrangedError):
            judged.append(measure_slice(lab, arm, caught_up=caught_up))
            return judged[-1].mismatch is None
        return False

    eventually(f"a good slice of {arm.name}", is_good)
    return judged[-1]


def discard_reason(judged: Judgement) -> str:
    assert judged.mismatch is not None
    return judged.mismatch


@pytest.mark.slow
def test_members_of_a_chain_choose_their_sources_again_for_the_natural_shape() -> None:
    plan = replication_plan("nodes=3", "sync=chain,natural", "node_cpu=1", "write_concern=1")
    with ReplicationLab(plan) as lab:
        arms = arms_by_shape(plan)
        assert arranged(lab, arms["chain"]).tree["hidden"] == "secondary-1"
        # In such a small set MongoDB itself chooses the star.
        assert arranged(lab, arms["natural"]).tree["hidden"] == "primary"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "hops", "direct"),
    [
        ("chain", 3, 1),
        ("tree-2", 2, 2),
        ("star", 1, 6),
        ("natural", None, None),
    ],
)
def test_replication_tree_keeps_its_shape_during_writes(
    seven: ReplicationLab, shape: str, hops: int | None, direct: int | None
) -> None:
    judged = good_slice(seven, seven.arms[shape], caught_up=True)  # type: ignore[attr-defined]
    assert judged.facts["tree"].startswith("primary: ")
    assert judged.figures["hops_to_majority"] == (hops or judged.figures["hops_to_majority"])
    # Each member that replicates directly from the primary fetches every record from it once.
    fetched = judged.figures["oplog_bytes_sent"]
    assert fetched > 800
    assert direct is None or direct * 800 < fetched < direct * 2500
    assert judged.figures["primary_cpu"] > 0
    assert 0 <= judged.figures["replication_lag_ms"] <= judged.figures["replication_lag_max_ms"]


@pytest.mark.slow
def test_measurement_whose_replication_tree_differs_from_the_tree_of_the_arm_is_discarded(
    seven: ReplicationLab,
) -> None:
    arms: dict[str, PlannedArm] = seven.arms  # type: ignore[attr-defined]
    observed = arranged(seven, arms["chain"])
    judged = seven.judge(arms["star"], observed, observed, write(seven, arms["star"], 1))
    assert "the sync tree was 'primary: secondary-1; secondary-1: secondary-2;" in discard_reason(judged)


@pytest.mark.slow
def test_each_member_has_the_cpu_limit_of_the_arm_and_cpu_time_is_counted_by_role(seven: ReplicationLab) -> None:
    arm = seven.arms["star"]  # type: ignore[attr-defined]
    arranged(seven, arm)
    before = seven.cpu_seconds()
    write(seven, arm, 50)
    used = seven.cpu_seconds()
    assert used["primary"] > before["primary"]
    assert {"primary", "secondaries", "hidden"} <= used.keys()
    assert seven.throttled_seconds().keys() == {"primary", "secondaries", "hidden"}
    share = seven._nodes.hosts["7-primary"].cpu_share
    assert share is not None
    # The members have the CPU share of the arm (0.5). While the replica set was formed, they had a larger share.
    for name, value in limits(share.hierarchies.version, 0.5, share.period_us).items():
        assert (share.hierarchies.limit / share.group / name).read_text().strip() == value
    for folder in share.folders:
        assert str(seven.process_ids["7-primary"]) in (folder / "cgroup.procs").read_text().split()


@pytest.mark.slow
def test_written_records_are_dropped_between_measurements_once_they_exceed_the_maximum(
    seven: ReplicationLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = seven.arms["star"]  # type: ignore[attr-defined]
    monkeypatch.setattr("costof.services.replication.lab.MAX_RECORDS", 10)
    arranged(seven, arm)
    write(seven, arm, 20)
    arranged(seven, arm)
    replica_set = seven._sets[7].shaped._set

    def counted() -> dict[str, int | PyMongoError]:
        return replica_set.run_on_all(lambda member, client: client["ycsb"]["usertable"].estimated_document_count())

    # Repeat the count if a busy member does not respond in time.
    eventually("nothing left", lambda: set(counted().values()) == {0})


@pytest.mark.slow
def test_stepped_down_primary_becomes_primary_again(seven: ReplicationLab) -> None:
    arm = seven.arms["chain"]  # type: ignore[attr-defined]
    before = arranged(seven, arm)
    primary = seven._sets[7].shaped._set.admin("primary").admin
    primary.command("replSetStepDown", 2 * HANGS_SECONDS, secondaryCatchUpPeriodSecs=HANGS_SECONDS)

    def failure() -> str:
        return discard_reason(seven.judge(arm, before, seven.observe(arm), NOTHING))

    # On a busy machine the lab may first report another member, whose answer was late.
    eventually("word of it", lambda: failure() == "primary is in state SECONDARY")
    eventually("another primary", lambda: seven.observe(arm).primary not in (None, "primary"))
    good_slice(seven, arm)
    assert any("elected another primary once" in warning for warning in seven.warnings())


def test_arms_of_a_replica_set_fail_if_one_of_its_members_is_killed() -> None:
    plan = replication_plan("nodes=3", "sync=star", "node_cpu=1", "write_concern=1")
    with ReplicationLab(plan) as lab:
        arm = plan.controls[0]
        assert lab.failure_reason(arm) is None
        before = lab.observe(arm)
        os.kill(lab.process_ids["3-secondary-1"], signal.SIGKILL)
        eventually("notice", lambda: lab.failure_reason(arm) is not None)
        # A run continues after the loss of a member. Its next slice reports which arms can no longer be measured.
        lab.arrange(arm)
        discard_reason(lab.judge(arm, before, lab.observe(arm), NOTHING))
        assert "secondary-1" in (lab.failure_reason(arm) or "")
        assert lab.failure_reason() == lab.failure_reason(arm)


@pytest.mark.slow
def test_replica_set_of_fifteen_members_forms() -> None:
    plan = replication_plan("nodes=15", "sync=star", "write_concern=1", "node_cpu=0.5")
    with ReplicationLab(plan) as lab:
        judged = good_slice(lab, plan.controls[0])
        assert judged.figures["hops_to_majority"] == 1
        assert len(lab.process_ids) == 15
