"""What becomes of the HTTP lab: a balancer or the origin that dies, no root, two of them at once, kill -9."""

from __future__ import annotations

import pytest

from costof.lab.program import Counters
from costof.services.http.lab import HttpLab
from costof.study.arms import PlannedArm
from tests.support.kill_9 import left_by_kill_9
from tests.support.programs import eventually
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

BOTH = "balancer=haproxy,nginx"
EVERYWHERE = "termination=none,balancer,reencrypt,backend,direct"


def counted(lab: HttpLab, arm: PlannedArm) -> Counters:
    (address,) = lab.endpoint(arm).service.addresses
    return lab.counters(address)


def test_a_balancer_that_dies_costs_its_arms_and_the_origin_the_run() -> None:
    plan = plan_of("http-tls-termination", "quick", "termination=none,balancer,direct", BOTH)
    with HttpLab(plan) as lab:
        lab._lab.kill("haproxy")
        eventually("the notice", lambda: lab._lab.dead() != [])
        for arm in plan.arms:
            died = arm.levels["balancer"] == "haproxy" and arm.levels["termination"] != "direct"
            reason = lab.lost(arm)
            assert (reason is not None) == died
            assert reason is None or "the balancer haproxy ended" in reason
            moved = counted(lab, arm)
            assert (moved == Counters()) == died
        assert lab.lost() is None
        lab._origin._process.kill()
        eventually("the notice", lambda: lab.lost() is not None)
        assert "origin ended" in (lab.lost() or "")
        direct = next(arm for arm in plan.arms if arm.levels["termination"] == "direct")
        assert counted(lab, direct) == Counters()


@pytest.mark.usefixtures("no_hosts")
def test_without_hosts_balancers_stand_on_loopback_without_a_share() -> None:
    plan = plan_of("http-tls-termination", "quick", EVERYWHERE, BOTH, "balancer_cpu=0.25,1")
    with HttpLab(plan) as lab:
        for arm in plan.arms:
            lab.arrange(arm)
            assert lab.prefix(arm) == []
            assert lab.prove(arm, "start")
            assert lab.lost(arm) is None
        assert lab.throttled_seconds() == {}
        (caution,) = lab.cautions()
        assert "haproxy and nginx had no CPU share" in caution
        assert "loopback" in lab.describe().topology


def test_two_labs_at_once_do_not_meet() -> None:
    plan = plan_of("http-tls-termination", "quick", "termination=none,balancer")
    with HttpLab(plan) as one, HttpLab(plan) as other:
        for lab in (one, other):
            before = [counted(each, plan.arms[2]) for each in (one, other)]
            assert lab.prove(plan.arms[2], "start")["TLS at the balancer"].startswith("TLSv1.3")
            after = [counted(each, plan.arms[2]) for each in (one, other)]
            moved = [now.since(then).connections for now, then in zip(after, before, strict=True)]
            assert moved == [2 * (each is lab) for each in (one, other)]
        assert not set(one.process_ids.values()) & set(other.process_ids.values())


RUN = """
import json, sys
from costof.services.http.lab import HttpLab
from costof.study.plan import Options, resolve
from costof.study.library import load_study
plan = resolve(load_study("http-tls-termination"), Options(settings=["termination=none", "balancer=haproxy,nginx"]))
with HttpLab(plan) as lab:
    hosts = [lab._chain.client, lab._chain.last, *lab._chain.middle.values()]
    paths = [str(folder) for host in hosts if host.cpu_share for folder in host.cpu_share.folders]
    paths += [str(host.namespace) for host in hosts if host.namespace]
    told = {"pids": list(lab.process_ids.values()), "paths": [str(lab._lab.folder), *paths]}
    print(json.dumps(told), flush=True)
    sys.stdin.read()
"""


def test_nothing_is_left_after_kill_9() -> None:
    left_by_kill_9("-c", RUN)
