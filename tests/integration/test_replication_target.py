"""Runs on a user's own replica set: they do not change it, and report what the user's privileges allow to read."""

from __future__ import annotations

from collections.abc import Iterator

import pymongo
import pytest

from costof.messages.answers import SliceAnswer
from costof.messages.plan import Workload
from costof.programs.access import Access
from costof.services.open import open_service
from costof.services.server.lab import ServerLab
from tests.integration.conftest import PASSWORD
from tests.support.engines import Engines
from tests.support.programs import HANGS_SECONDS, eventually
from tests.support.small_plans import plan_of, replication_plan

pytestmark = pytest.mark.servers
INSERTS = Workload(name="commit", kind="ycsb", workers=1, ycsb={"phase": "load", "field_length": 10})
NOTHING = SliceAnswer.model_construct(elapsed_ns=1, operations=0)


@pytest.fixture(scope="module")
def lab_and_hosts() -> Iterator[tuple[ServerLab, str]]:
    """Start a lab that plays a user's replica set. Yield it with the hosts part of its URL."""
    plan = plan_of("mongodb-tls", "quick", "transport=plain,tls")
    with ServerLab(plan) as lab:
        yield lab, ",".join(lab.endpoint(plan.arms[0]).service.addresses)


def user(lab: ServerLab, name: str, roles: list[str]) -> str:
    everywhere = {"w": 3, "wtimeout": HANGS_SECONDS * 1000}
    admin = lab.server.set.admin("primary").admin
    admin.command("createUser", name, pwd=PASSWORD, roles=roles, writeConcern=everywhere)
    return f"{name}:{PASSWORD}"


def test_replication_tree_of_a_users_replica_set_is_reported_and_left_unchanged(
    lab_and_hosts: tuple[ServerLab, str],
) -> None:
    lab, hosts = lab_and_hosts
    admin: pymongo.MongoClient[dict[str, object]] = lab.server.set.admin("primary")
    configured, databases = admin.admin.command("replSetGetConfig")["config"], set(admin.list_database_names())
    plan = replication_plan(target="mongodb://a-user")
    assert [arm.name for arm in plan.arms] == ["1", "1-copy", "majority"]
    login = user(lab, "sees", ["readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor"])
    with open_service(plan, Access(f"mongodb://{login}@{hosts}/?replicaSet=costof"), "run") as target:
        concerns = [target.endpoint(arm).service.write_concern for arm in plan.arms]
        assert concerns == [1, 1, "majority"]
        target.prepare(plan.controls[:1], lambda arm: pytest.fail("YCSB's load is what is measured"))
        arm = plan.arms[2]
        followed = lambda: len([s for s in target.observe(arm).tree.values() if s]) == 2  # noqa: E731
        eventually("both others to follow", followed)
        observed = target.observe(arm)
        judged = target.judge(arm, observed, observed, NOTHING)
        assert judged.mismatch is None
        assert all(member.address in judged.facts["tree"] for member in lab.server.set.members)
        assert judged.figures["hops_to_majority"] == 1
        assert "replication_lag_ms" in judged.figures
        assert target.warnings() == []
    assert admin.admin.command("replSetGetConfig")["config"] == configured
    assert set(admin.list_database_names()) == databases


def test_run_warns_if_its_user_lacks_the_monitoring_role(
    lab_and_hosts: tuple[ServerLab, str],
) -> None:
    lab, hosts = lab_and_hosts
    plan = replication_plan(target="mongodb://a-user")
    login = user(lab, "blind", ["readWriteAnyDatabase", "dbAdminAnyDatabase"])
    with open_service(plan, Access(f"mongodb://{login}@{hosts}/?replicaSet=costof"), "run") as target:
        target.prepare(plan.controls[:1], lambda arm: None)
        observed = target.observe(plan.controls[0])
        judged = target.judge(plan.controls[0], observed, observed, NOTHING)
        assert (judged.mismatch, judged.facts) == (None, {})
        assert any("clusterMonitor" in warning for warning in target.warnings())


def test_inserts_into_a_users_replica_set_wait_as_their_write_concern_requires(
    lab_and_hosts: tuple[ServerLab, str],
) -> None:
    lab, hosts = lab_and_hosts
    plan = plan_of("mongodb-durability", "quick", "clients=1", target="mongodb://a-user")
    memory, journal, majority = plan.controls[0], *plan.protected
    login = user(lab, "measures", ["readWriteAnyDatabase", "dbAdminAnyDatabase", "clusterMonitor"])
    admin: pymongo.MongoClient[dict[str, object]] = lab.server.set.admin("primary")
    configured, databases = admin.admin.command("replSetGetConfig")["config"], set(admin.list_database_names())
    access = Access(f"mongodb://{login}@{hosts}/?replicaSet=costof")
    with open_service(plan, access, "run") as target, Engines(plan, target, (INSERTS,)) as engines:
        target.prepare(plan.arms, lambda arm: None)
        for arm in (journal, majority, memory):
            engines.slice(arm, "commit", 1, reconnect=True)
            target.finish_counting(arm)
            before = target.observe(arm)
            answer = engines.slice(arm, "commit", 100)
            after = target.observe(arm)
            judged = target.judge(arm, before, after, answer)
            assert (judged.mismatch, answer.operations) == (None, 100)
            assert (judged.figures["flushes"] > 0.9) == (arm is not memory)
        assert "only 0 of 100 inserts with w:majority" in (target.judge(majority, before, after, answer).mismatch or "")
        assert target.warnings() == []
    assert admin.admin.command("replSetGetConfig")["config"] == configured
    assert set(admin.list_database_names()) == databases
