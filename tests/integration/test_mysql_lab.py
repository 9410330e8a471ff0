"""The lab of the MySQL study: every transport, key and distance works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costof.services.server.lab import ServerLab, keys_to_show
from costof.services.server.tunnels import tunnel_cipher
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import ArmSettings
from tests.support.engines import Engines

pytestmark = pytest.mark.servers

FAILING = "failing"
EVERY_TRANSPORT = "transport=" + ",".join(load_study("mysql-transport").factors["transport"].levels)


def plan_for(*settings: str, profile: str = "quick") -> Plan:
    return resolve(load_study("mysql-transport"), Options(profile=profile, settings=["records=200", *settings]))


def arm_of(plan: Plan, transport: str, distance: str = "lan") -> PlannedArm:
    return next(
        arm
        for arm in plan.arms
        if not arm.replicate and (arm.levels["transport"], arm.levels["distance"]) == (transport, distance)
    )


@pytest.fixture(scope="module")
def every_level() -> Iterator[tuple[Plan, ServerLab, Engines]]:
    suites = "suite=" + ",".join(load_study("mysql-transport").factors["suite"].levels)
    keys = "key=rsa-1024,rsa-2048,ecdsa-p256"
    plan = plan_for(EVERY_TRANSPORT, suites, keys, "distance=lan")
    failing = {"name": FAILING, "settings": ArmSettings(lab={"tunnel": "no-such-cipher"})}
    arms = [*plan.arms, arm_of(plan, "ssh-aes256-cbc").model_copy(update=failing)]
    plan = plan.model_copy(update={"arms": arms})
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[:1], engines.load)
        yield plan, lab, engines


def test_connections_of_every_arm_use_its_tls_settings_or_its_ssh_tunnel(
    every_level: tuple[Plan, ServerLab, Engines],
) -> None:
    plan, lab, engines = every_level
    combinations, tunnels = set(), set()
    for arm in [arm for arm in plan.arms if arm.name != FAILING]:
        lab.arrange(arm)
        evidence = engines.slice(arm, "connect", 5).evidence
        assert evidence["connections"] == 5
        if cipher := tunnel_cipher(arm):
            assert cipher.startswith(arm.levels["transport"].removeprefix("ssh-"))
            assert lab.collect_evidence(arm, "start") == {"tunnel cipher": cipher, "tunnel compression": "none"}
            tunnels.add(cipher)
        if arm.levels["transport"] != "tls":
            assert evidence["protocol"] is None
            continue
        suite = arm.levels["suite"]
        assert (evidence["key"], evidence["verified"]) == (arm.levels["key"], True)
        assert evidence["protocol"] == ("TLSv1.3" if suite == "modern" else "TLSv1.2")
        assert evidence["cipher"] == ("TLS_AES_256_GCM_SHA384" if suite == "modern" else suite.upper())
        combinations.add((suite, arm.levels["key"]))
    # The modern suite works with all three keys, and each of the two old suites with the two RSA keys.
    assert len(combinations) == 3 + 2 * 2
    assert len(tunnels) == 4


def test_tunnel_connections_and_cpu_time_are_counted(
    every_level: tuple[Plan, ServerLab, Engines],
) -> None:
    plan, lab, engines = every_level
    arm = arm_of(plan, "ssh-aes256-cbc")
    server = engines.server(arm)
    counted, used = lab.counters(server), lab.cpu_seconds()
    assert engines.slice(arm, "connect", 20).operations == 20
    increase, now = lab.counters(server).since(counted), lab.cpu_seconds()
    assert increase.connections == 20
    assert increase.tls_connections == {"TLS": 0}
    assert set(now) == {"server", "ssh", "sshd"}
    assert all(now[role] > used[role] for role in now)


def test_failure_of_a_tunnel_affects_only_the_arm_that_uses_it(every_level: tuple[Plan, ServerLab, Engines]) -> None:
    plan, lab, engines = every_level
    failing = next(arm for arm in plan.arms if arm.name == FAILING)
    assert "no-such-cipher" in (lab.failure_reason(failing) or "")
    assert lab.collect_evidence(failing, "start") == {}
    error = engines.ready[FAILING].error
    assert error is not None
    assert error.error_class == "refused"
    assert lab.failure_reason() is None
    assert engines.ready["ssh-aes256-ctr"].error is None


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ([], "rsa-2048"),
        (["rsa-1024"], "rsa-1024"),
        (["ecdsa-p256"], "ecdsa-p256"),
        # A server with several keys starts with the default key, rsa-2048, which every client accepts.
        (["rsa-1024", "ecdsa-p256"], "rsa-2048"),
    ],
)
def test_first_certificate_key_of_a_mysql_server_is_one_that_every_client_accepts(keys: list[str], first: str) -> None:
    shown = keys_to_show(keys)
    assert shown[0] == first
    assert set(shown) == {first, *keys}
