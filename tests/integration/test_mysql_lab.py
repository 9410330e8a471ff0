"""The lab of the MySQL study: every level is what it says, near and far, and nothing is left of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.lab.lab import is_root
from costof.lab.namespace import FOLDER
from costof.services.server.lab import ServerLab, keys_to_show
from costof.services.server.tunnels import cipher_of
from costof.study.arms import PlannedArm
from costof.study.asked import Asked
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.engines import Engines
from tests.support.kill_9 import left_by_kill_9
from tests.support.ordinary_user import ordinary_user
from tests.support.programs import SHORTER_MS, eventually
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
needs_hosts = pytest.mark.skipif(
    not is_root() or not Path("/dev/net/tun").exists(), reason="far clients take root and /dev/net/tun"
)

EVERY_TRANSPORT = "transport=" + ",".join(load_study("mysql-transport").factors["transport"].levels)


def plan_for(*settings: str, profile: str = "quick") -> Plan:
    return resolve(load_study("mysql-transport"), Options(profile=profile, settings=["records=200", *settings]))


def arm_of(plan: Plan, transport: str, distance: str = "lan") -> PlannedArm:
    return next(
        arm
        for arm in plan.arms
        if not arm.twin and (arm.levels["transport"], arm.levels["distance"]) == (transport, distance)
    )


@pytest.fixture(scope="module")
def every_level() -> Iterator[tuple[Plan, ServerLab, Engines]]:
    suites = "suite=" + ",".join(load_study("mysql-transport").factors["suite"].levels)
    keys = "key=rsa-1024,rsa-2048,rsa-4096,ecdsa-p256"
    plan = plan_for(EVERY_TRANSPORT, suites, keys, "distance=lan")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[0], engines.load)
        yield plan, lab, engines


def test_every_arm_negotiates_what_it_says(every_level: tuple[Plan, ServerLab, Engines]) -> None:
    plan, lab, engines = every_level
    seen = set()
    for arm in plan.arms:
        lab.arrange(arm)
        evidence = engines.slice(arm, "connect", 5).evidence
        assert evidence["connections"] == 5
        if arm.levels["transport"] != "tls":
            assert evidence["protocol"] is None
            continue
        suite = arm.levels["suite"]
        assert (evidence["key"], evidence["verified"]) == (arm.levels["key"], True)
        assert evidence["protocol"] == ("TLSv1.3" if suite == "modern" else "TLSv1.2")
        assert evidence["cipher"] == ("TLS_AES_256_GCM_SHA384" if suite == "modern" else suite.upper())
        seen.add((suite, arm.levels["key"]))
    # Four keys for the modern suites; RSA's three for the old ones.
    assert len(seen) == 4 + 2 * 3


def test_a_larger_key_costs_more(every_level: tuple[Plan, ServerLab, Engines]) -> None:
    plan, lab, engines = every_level

    def quickest_ns(key: str) -> int:
        arm = next(a for a in plan.arms if (a.levels.get("suite"), a.levels.get("key")) == ("modern", key))
        lab.arrange(arm)
        return engines.slice(arm, "connect", 50).phases["tls"].min_ns

    large = quickest_ns("rsa-4096")
    eventually("a handshake of the smaller key that nothing held up", lambda: large > 1.5 * quickest_ns("rsa-2048"))


def test_every_tunnel_has_the_cipher_of_its_arm(every_level: tuple[Plan, ServerLab, Engines]) -> None:
    plan, lab, _ = every_level
    tunnels = {arm.levels["transport"]: arm for arm in plan.arms if cipher_of(arm)}
    assert len(tunnels) == 4
    for level, arm in tunnels.items():
        cipher = cipher_of(arm)
        assert cipher.startswith(level.removeprefix("ssh-"))
        assert lab.prove(arm, "start") == {"tunnel cipher": cipher, "tunnel compression": "none"}
        assert lab.lost(arm) is None


def test_a_tunnels_connections_are_the_servers_and_its_cpu_time_its_own(
    every_level: tuple[Plan, ServerLab, Engines],
) -> None:
    plan, lab, engines = every_level
    arm = arm_of(plan, "ssh-aes256-cbc")
    server = engines.server(arm)
    counted, used = lab.counters(server), lab.cpu_seconds()
    assert engines.slice(arm, "connect", 20).operations == 20
    moved, now = lab.counters(server).since(counted), lab.cpu_seconds()
    assert moved.connections == 20
    assert moved.tls_connections == {"TLS": 0}
    assert set(now) == {"server", "ssh", "sshd"}
    assert all(now[role] > used[role] for role in now)


def test_an_arm_that_resumes_does_so_after_any_change_of_the_key() -> None:
    plan = plan_for("transport=plain,tls", "key=rsa-2048,ecdsa-p256", "resumption=on,off", "distance=lan")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[0], engines.load)
        for arm in [*plan.protected, *reversed(plan.protected)]:
            lab.arrange(arm)
            if lab.wants_ticket(arm):
                assert arm.levels["resumption"] == "on"
                assert engines.slice(arm, "connect", 1).operations == 1
            evidence = engines.slice(arm, "connect", 5).evidence
            assert evidence["resumed"] == (5 if arm.levels["resumption"] == "on" else 0), arm.name


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ([], "rsa-2048"),
        (["rsa-1024"], "rsa-1024"),
        (["ecdsa-p256"], "ecdsa-p256"),
        # Several: the server's usual one, which is every client's.
        (["rsa-1024", "rsa-4096"], "rsa-2048"),
        (["rsa-1024", "ecdsa-p256"], "rsa-2048"),
    ],
)
def test_the_first_key_is_one_that_every_client_takes(asked: list[str], first: str) -> None:
    shown = keys_to_show(asked)
    assert shown[0] == first
    assert set(shown) == {first, *asked}


@needs_hosts
def test_the_quick_profiles_lab_has_links_as_long_as_asked_for() -> None:
    plan = plan_of("mysql-transport")
    with ServerLab(plan) as lab:
        links = lab.links()
        for arm in plan.arms:
            assert lab.prefix(arm)
            assert lab.lost(arm) is None
    assert {(link.name, link.method) for link in links} == {
        (name, method) for name in ("lan", "us-us") for method in ("ICMP", "TCP_INFO")
    }
    for link in links:
        # A busy machine makes packets later and never earlier.
        assert link.median_ms >= link.asked_ms - SHORTER_MS


def quickest_ms(engines: Engines, arm: PlannedArm) -> float:
    return engines.slice(arm, "connect", 5).phases["connect"].min_ns / 1e6


@needs_hosts
def test_arms_of_several_distances_take_turns_on_one_server() -> None:
    plan = plan_for("distance=lan,20,40", "transport=plain,tls,ssh-aes256-gcm")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[0], engines.load)
        services = [lab.endpoint(arm).service for arm in plan.arms if arm.levels["transport"] != "ssh-aes256-gcm"]
        assert all(service == services[0] for service in services)
        for distance, milliseconds in (("lan", 0.0), ("20", 20.0), ("40", 40.0)):
            trips = {"plain": 3, "tls": 4, "ssh-aes256-gcm": 2}
            for transport, expected in trips.items():
                arm = arm_of(plan, transport, distance)
                # A tunnel's first round trip ends on its own host. None takes less, and sooner or later one takes no
                # trip more, however busy the machine is.
                quickest = quickest_ms(engines, arm)
                while distance != "lan" and quickest >= (expected + 1) * milliseconds:
                    quickest = quickest_ms(engines, arm)
                assert quickest >= expected * (milliseconds - SHORTER_MS)
        assert lab.cpu_seconds()["link"] > 0


def test_a_tunnel_that_dies_is_lost_alone() -> None:
    plan = plan_for("distance=lan", "transport=plain,ssh-aes256-ctr,ssh-aes256-gcm")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[0], engines.load)
        dying, living = arm_of(plan, "ssh-aes256-ctr"), arm_of(plan, "ssh-aes256-gcm")
        lab._lab.kill("ssh-aes256-ctr-lan")
        eventually("notice of it", lambda: lab.lost(dying) is not None)
        assert "tunnel ssh-aes256-ctr-lan ended" in (lab.lost(dying) or "")
        answer = engines.slice(dying, "connect", 3)
        assert answer.operations == 0
        assert answer.errors[0].error_class in ("refused", "reset", "closed")
        # sshd itself is no longer needed by tunnels that stand.
        lab._lab.kill("sshd")
        eventually("the end of sshd", lambda: bool(lab._lab.processes["sshd"].exit_status))
        for arm in (plan.arms[0], living):
            assert lab.lost(arm) is None
            assert engines.slice(arm, "connect", 3).operations == 3
        assert lab.lost() is None
        lab._lab.kill("mariadb")
        eventually("notice of it", lambda: lab.lost() is not None)
        assert "mariadb ended" in (lab.lost() or "")


def test_a_tunnel_that_cannot_be_opened_is_its_arms_error() -> None:
    plan = plan_for("distance=lan", "transport=plain,ssh-aes256-cbc,ssh-aes256-ctr")
    other = {"asked": Asked(lab={"tunnel": "no-such-cipher"})}
    arms = [arm.model_copy(update=other if arm.name == "ssh-aes256-cbc" else {}) for arm in plan.arms]
    plan = plan.model_copy(update={"arms": arms})
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        broken = arm_of(plan, "ssh-aes256-cbc")
        assert "no-such-cipher" in (lab.lost(broken) or "")
        assert lab.prove(broken, "start") == {}
        error = engines.ready[broken.name].error
        assert error is not None
        assert error.error_class == "refused"
        assert lab.lost() is None
        assert engines.ready["ssh-aes256-ctr"].error is None


def test_two_labs_at_once_do_not_meet() -> None:
    plan = plan_for("transport=plain,tls,ssh-aes256-ctr", "distance=lan")
    with ServerLab(plan) as one, ServerLab(plan) as other:
        for lab in (one, other):
            with Engines(plan, lab) as engines:
                lab.prepare(plan.arms[0], engines.load)
                assert all(engines.slice(arm, "query", 5).operations == 5 for arm in plan.arms)


RUN = """
import json, sys
from costof.services.server.lab import ServerLab
from costof.lab.lab import descendants_of
from costof.study.plan import Options, resolve
from costof.study.library import load_study
plan = resolve(load_study("mysql-transport"), Options(profile="quick", settings=sys.argv[1:]))
with ServerLab(plan) as lab:
    started = list(lab.process_ids.values())
    pids = started + [pid for parent in started for pid in descendants_of(parent)] + lab._star.process_ids()
    hosts = {link.a for link in lab._star._links.values()} | {lab._star.server}
    paths = [str(host.namespace) for host in hosts if host.namespace] + [str(lab._lab.folder)]
    print(json.dumps({"pids": pids, "paths": paths, "prefix": lab.prefix(plan.arms[0])}), flush=True)
    sys.stdin.read()
"""


@needs_hosts
def test_nothing_is_left_after_kill_9() -> None:
    told = left_by_kill_9("-c", RUN)
    # A server, sshd and its sessions, two tunnels, and what carries the far link.
    assert len(told["pids"]) >= 7
    assert sum(path.startswith(str(FOLDER)) for path in told["paths"]) == 3


def without_namespaces(*settings: str) -> subprocess.CompletedProcess[str]:
    """The lab of the quick profile, started and left, by an ordinary user who may make no user namespace."""
    return subprocess.run(
        [*ordinary_user(forbidden=True), sys.executable, "-c", RUN, *settings],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_namespaces_near_clients_are_on_loopback_tunnels_too() -> None:
    done = without_namespaces("distance=lan", EVERY_TRANSPORT)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["prefix"] == []
    assert not any(path.startswith(str(FOLDER)) for path in told["paths"])


def test_without_namespaces_a_far_client_is_refused_with_the_reason() -> None:
    done = without_namespaces("distance=lan,us-us")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "the link 'us-us' needs root" in last
    assert "sudo sysctl user.max_user_namespaces" in last
