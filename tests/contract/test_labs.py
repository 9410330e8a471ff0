"""Tests of every lab: how it ends, how it runs without root, and which arms fail if a process is killed."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import pytest

from costof.lab.lab import is_root
from costof.lab.program import Counters
from costof.services.open import open_service
from tests.support.engines import WORKLOADS, Engines
from tests.support.kill_9 import lab_process, left_by_kill_9
from tests.support.programs import eventually
from tests.support.services import FIREWALL, HTTP, HTTP_WORKLOADS
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers


needs_root = pytest.mark.skipif(not is_root(), reason="hosts and CPU shares take root")
SERVICE = "service-mtls"


@needs_root
@pytest.mark.parametrize("lab", ["mysql", "http"])
def test_lab_leaves_no_process_or_file_after_kill_9(lab: str) -> None:
    """Kill a lab with links and tunnels, and one with CPU limits. The same process cleans up after all labs."""
    left_by_kill_9("-m", "tests.support.services", lab)


@pytest.mark.slow
@needs_root
def test_lab_that_ends_leaves_another_lab_running() -> None:
    opened = ("-m", "tests.support.services", "redis")
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
        ("redis-tls", ["transport=plain,tls,stunnel-both", "distance=lan"], ""),
        ("postgres-pooling", ["path=plain,transaction-both", "pooler_cpu=0.5", "pool_size=5"], "the pooler"),
        (
            "http-tls-termination",
            ["termination=none,balancer,reencrypt,backend,direct", "balancer=haproxy,nginx", "balancer_cpu=0.25,1"],
            "haproxy and nginx",
        ),
    ],
)
def test_lab_without_network_namespaces_runs_on_loopback_and_warns_about_missing_cpu_limits(
    study: str, settings: list[str], without_share: str
) -> None:
    plan = plan_of(study, "quick", *settings)
    with open_service(plan, None, "run") as lab:
        for arm in plan.arms:
            lab.arrange(arm)
            assert lab.prefix(arm) == []
            entrances = {"tunnel", "pool", "sidecars"} & arm.settings.lab.keys()
            assert bool(lab.collect_evidence(arm, "start")) == (bool(entrances) or study == HTTP.study)
            assert lab.failure_reason(arm) is None
        assert "loopback" in lab.describe().topology
        assert "link" not in lab.cpu_seconds()
        assert lab.throttled_seconds() == {}
        warnings = [warning for warning in lab.warnings() if "had no CPU limit" in warning]
        assert bool(warnings) == bool(without_share)
        assert all(f"{without_share} had no CPU limit" in warning for warning in warnings)


@dataclass(frozen=True)
class Deaths:
    """A lab, and the arms that must fail if its processes are killed.

    `entrances` has the processes in front of the server, which are killed one after the other. The arms that then fail
    are named by their level of the main factor: `{"stunnel": ("stunnel-server",)}` means that killing stunnel makes the
    arm 'stunnel-server' fail. In the end `server` is killed, and the whole run must fail.
    """

    study: str
    settings: tuple[str, ...]
    entrances: dict[str, tuple[str, ...]]
    server: str


DEATHS = [
    Deaths(
        "mysql-transport",
        ("transport=plain,ssh-aes256-ctr,ssh-aes256-gcm", "distance=lan", "records=200"),
        # sshd has a separate process for each open tunnel, so no arm fails if the listening process is killed.
        {"ssh-aes256-ctr-lan": ("ssh-aes256-ctr",), "sshd": ()},
        "mariadb",
    ),
    Deaths(
        "redis-tls",
        ("transport=plain,tls,stunnel-server,stunnel-both", "records=200"),
        {"stunnel-lan": ("stunnel-both",), "stunnel": ("stunnel-server",)},
        "redis",
    ),
    Deaths(
        "postgres-pooling",
        ("path=plain,tls,transaction-client", "pool_size=5", "records=200"),
        {"pgbouncer-rsa-2048-1": ("transaction-client",)},
        "postgres",
    ),
    Deaths(
        SERVICE,
        ("path=direct,pair-mtls,one-proxy", "program=envoy"),
        {"envoy-client-lan": ("pair-mtls",), "envoy-server": ("one-proxy", "pair-mtls")},
        "origin",
    ),
    Deaths(
        "http-tls-termination",
        ("termination=none,balancer,direct", "balancer=haproxy"),
        {"haproxy": ("none", "balancer")},
        "origin",
    ),
    Deaths(
        "http-firewall",
        ("firewall=off,detection,on", "request=json-1kb"),
        {"nginx-2-on-1": ("on",)},
        "origin",
    ),
]


@pytest.mark.parametrize("deaths", DEATHS, ids=lambda deaths: deaths.study)
def test_arms_fail_if_their_proxy_or_tunnel_dies_and_the_run_fails_if_its_server_dies(deaths: Deaths) -> None:
    plan = plan_of(deaths.study, "quick", *deaths.settings)
    workloads = HTTP_WORKLOADS if deaths.study in (HTTP.study, FIREWALL.study, SERVICE) else WORKLOADS
    with open_service(plan, None, "run") as lab, Engines(plan, lab, workloads) as engines:
        lab.prepare(plan.arms[:1], engines.load)
        failed: set[str] = set()
        for process, levels in deaths.entrances.items():
            affected = [arm for arm in plan.arms if arm.levels[plan.study.main_factor] in levels]
            kill(lab.process_ids[process])
            eventually("notice of it", lambda affected=affected: all(lab.failure_reason(arm) for arm in affected))
            assert all(f"{process} ended" in (lab.failure_reason(arm) or "") for arm in affected)
            assert lab.failure_reason() is None
            failed.update(arm.name for arm in affected)
            for arm in plan.arms:
                assert (lab.failure_reason(arm) is not None) == (arm.name in failed)
                if arm.name not in failed:
                    lab.arrange(arm)
                answer = engines.slice(arm, "connect", 3)
                assert answer.operations == (0 if arm.name in failed else 3)
                assert {error.error_class for error in answer.errors} <= {"refused", "reset", "closed"}
        kill(lab.process_ids[deaths.server])
        eventually("notice of the server", lambda: lab.failure_reason() is not None)
        assert f"{deaths.server} ended" in (lab.failure_reason() or "")
        if deaths.study == HTTP.study:
            # `Counters()` has no counts (None). Counts of 0 would mean that the dead server had no connections.
            assert {lab.counters(engines.server(arm)) == Counters() for arm in plan.arms} == {True}


def kill(pid: int) -> None:

    (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)
