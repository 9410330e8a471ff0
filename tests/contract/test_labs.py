"""What every lab keeps: nothing is left of it however it ends, it does without hosts, and what dies costs its arms."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

from costof.lab.lab import is_root
from costof.lab.program import Counters
from costof.services.open import open_service
from costof.study.plan import Plan
from tests.support.engines import WORKLOADS, Engines
from tests.support.kill_9 import lab_process, left_by_kill_9
from tests.support.programs import eventually
from tests.support.services import HTTP, HTTP_WORKLOADS, LABS
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers


@pytest.mark.skipif(not is_root(), reason="hosts and CPU shares take root")
@pytest.mark.parametrize("lab", LABS)
def test_nothing_is_left_after_kill_9(lab: str) -> None:
    left_by_kill_9("-m", "tests.support.services", lab)


@pytest.mark.skipif(not is_root(), reason="hosts and CPU shares take root")
@pytest.mark.parametrize("lab", ["mysql", "http"])
def test_of_two_labs_at_once_each_leaves_nothing_and_the_other_alone(lab: str) -> None:
    opened = ("-m", "tests.support.services", lab)
    with lab_process(*opened) as one, lab_process(*opened) as other:
        assert not one.pids & other.pids
        assert not one.paths & other.paths
        for each in (one, other):
            assert each.stands()
        assert one.process.stdin is not None
        one.process.stdin.close()
        one.process.wait()
        one.assert_gone()
        assert other.stands()


@pytest.mark.usefixtures("no_hosts")
@pytest.mark.parametrize(
    ("study", "settings", "without_share"),
    [
        ("mongodb-tls", ["transport=plain,tls"], ""),
        ("mysql-transport", ["transport=plain,tls,ssh-aes256-gcm", "distance=lan"], ""),
        ("redis-tls", ["transport=plain,tls,stunnel-both", "distance=lan"], ""),
        ("postgres-pooling", ["path=plain,tls,transaction-both", "pooler_cpu=0.5,1"], "the pooler"),
        (
            "http-tls-termination",
            ["termination=none,balancer,reencrypt,backend,direct", "balancer=haproxy,nginx", "balancer_cpu=0.25,1"],
            "haproxy and nginx",
        ),
    ],
)
def test_without_hosts_it_stands_on_loopback_without_a_share(
    study: str, settings: list[str], without_share: str
) -> None:
    plan = plan_of(study, "quick", *settings)
    with open_service(plan, None, "run") as lab:
        for arm in plan.arms:
            lab.arrange(arm)
            assert lab.prefix(arm) == []
            entrances = {"tunnel", "pool"} & arm.asked.lab.keys()
            assert bool(lab.prove(arm, "start")) == (bool(entrances) or study == HTTP.study)
            assert lab.lost(arm) is None
        assert "loopback" in lab.describe().topology
        assert "link" not in lab.cpu_seconds()
        assert lab.throttled_seconds() == {}
        found = [caution for caution in lab.cautions() if "had no CPU share" in caution]
        assert bool(found) == bool(without_share)
        assert all(f"{without_share} had no CPU share" in caution for caution in found)


@dataclass(frozen=True)
class Death:
    """`lost` are the arms that end with `process`, by the levels of the study's main factor; `server` ends the run."""

    study: str
    settings: tuple[str, ...]
    process: str
    lost: tuple[str, ...]
    server: str

    def plan(self) -> Plan:
        return plan_of(self.study, "quick", *self.settings)


STUNNELS = ("transport=plain,tls,stunnel-server,stunnel-both", "records=200")
DEATHS = {
    "tunnel": Death(
        "mysql-transport",
        ("transport=plain,ssh-aes256-ctr,ssh-aes256-gcm", "distance=lan", "records=200"),
        "ssh-aes256-ctr-lan",
        ("ssh-aes256-ctr",),
        "mariadb",
    ),
    "sshd": Death(
        "mysql-transport", ("transport=plain,ssh-aes256-ctr", "distance=lan", "records=200"), "sshd", (), "mariadb"
    ),
    "client's stunnel": Death("redis-tls", STUNNELS, "stunnel-lan", ("stunnel-both",), "redis"),
    "server's stunnel": Death("redis-tls", STUNNELS, "stunnel", ("stunnel-server", "stunnel-both"), "redis"),
    "pooler": Death(
        "postgres-pooling",
        ("path=plain,tls,transaction-client,transaction-both", "records=200"),
        "pgbouncer-rsa-2048-1",
        ("transaction-client",),
        "postgres",
    ),
    "balancer": Death(
        "http-tls-termination",
        ("termination=none,balancer,direct", "balancer=haproxy"),
        "haproxy",
        ("none", "balancer"),
        "origin",
    ),
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
def test_what_dies_costs_the_arms_that_need_it_and_a_server_the_run(death: Death) -> None:
    plan = death.plan()
    workloads = HTTP_WORKLOADS if death.study == HTTP.study else WORKLOADS
    with open_service(plan, None, "run") as lab, Engines(plan, lab, workloads) as engines:
        lab.prepare(plan.arms[0], engines.load)
        lost = [arm for arm in plan.arms if arm.levels[plan.study.main_factor] in death.lost]
        kill(lab.process_ids[death.process])
        eventually("notice of it", lambda: all(lab.lost(arm) for arm in lost))
        assert all(f"{death.process} ended" in (lab.lost(arm) or "") for arm in lost)
        assert lab.lost() is None
        for arm in plan.arms:
            assert (lab.lost(arm) is not None) == (arm in lost)
            if arm not in lost:
                lab.arrange(arm)
            answer = engines.slice(arm, "connect", 3)
            assert answer.operations == (0 if arm in lost else 3)
            assert {error.error_class for error in answer.errors} <= {"refused", "reset", "closed"}
        kill(lab.process_ids[death.server])
        eventually("notice of the server", lambda: lab.lost() is not None)
        assert f"{death.server} ended" in (lab.lost() or "")
        if death.study == HTTP.study:
            # No count is read as none.
            assert {lab.counters(engines.server(arm)) == Counters() for arm in plan.arms} == {True}


def kill(pid: int) -> None:
    """End a program, and what it has started."""
    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
