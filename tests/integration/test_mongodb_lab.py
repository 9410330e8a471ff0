"""The lab of the MongoDB study: its users, and clients at a distance, which discover all members."""

from __future__ import annotations

import ipaddress
import subprocess
from pathlib import Path

import pytest

from costof.lab.lab import is_root
from costof.messages.plan import Workload
from costof.messages.process import application
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.engines import Engines, patient_plan
from tests.support.programs import HANGS_SECONDS
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
FAR_MS = 40.0
CONNECTIONS = 6


def plan_for(*settings: str) -> Plan:
    return plan_of("mongodb-tls", "quick", "records=100", *settings)


def session_refresh_ms(lab: ServerLab) -> int:
    primary = lab.server.set.admin("primary").admin
    return int(primary.command("getParameter", 1, logicalSessionRefreshMillis=1)["logicalSessionRefreshMillis"])


def hosts(lab: ServerLab, arm: PlannedArm) -> list[str]:
    return [address.rpartition(":")[0] for address in lab.endpoint(arm).service.addresses]


@pytest.mark.slow
@pytest.mark.skipif(not is_root() or not Path("/dev/net/tun").exists(), reason="far clients take root and /dev/net/tun")
def test_near_and_far_clients_reach_the_addresses_that_replica_set_members_announce() -> None:
    plan = plan_for("transport=plain,tls", f"distance=lan,{FAR_MS:g}")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        assert len({str(hosts(lab, arm)) for arm in plan.arms}) == 1
        assert len({str(lab.prefix(arm)) for arm in plan.arms}) == 2
        assert {link.name for link in lab.links()} == {"lan", f"{FAR_MS:g}ms"}
        lab.prepare(plan.arms[:1], engines.load)
        there = next(lab.prefix(arm) for arm in plan.arms if is_far(plan, arm))
        for arm in plan.arms:
            # Connect with pymongo, because only pymongo connects to the addresses that the members announce.
            before = packets_come_to(there)
            quickest_ms = quickest_by_driver_ms(plan, lab, arm)
            # Each connection brings at least three packets. A few late packets of closed connections may be added.
            assert (packets_come_to(there) - before >= 3 * CONNECTIONS) == is_far(plan, arm), arm.name
            assert quickest_ms >= 3 * FAR_MS or not is_far(plan, arm), arm.name


def is_far(plan: Plan, arm: PlannedArm) -> bool:
    return plan.study.round_trip_ms(arm.levels) == FAR_MS


def packets_come_to(host: list[str]) -> int:
    """Return the number of packets received by a host on all links. `host` is the command prefix for programs on it."""
    output = subprocess.run([*host, "cat", "/proc/net/dev"], capture_output=True, text=True, check=True).stdout
    links = [line.partition(":") for line in output.splitlines()[2:]]
    return sum(int(counts.split()[1]) for name, _, counts in links if name.strip() != "lo")


def quickest_by_driver_ms(plan: Plan, lab: ServerLab, arm: PlannedArm) -> float:
    """Return the shortest time, in ms, that pymongo takes for a new connection and its first operation."""
    with application("mongodb", {}, lab.prefix(arm)) as driver:
        endpoint, workload = lab.endpoint(arm).named(arm.name), Workload(name="connect", kind="connect")
        (ready,) = driver.plan(patient_plan([endpoint], [workload], records=plan.records)).arms
        assert ready.error is None
        answer = driver.slice(1, arm.name, "connect", CONNECTIONS, HANGS_SECONDS)
        assert (answer.operations, answer.errors) == (CONNECTIONS, [])
        return answer.phases["connect_and_first_operation"].min_ns / 1e6


@pytest.mark.slow
def test_mongodb_lab_without_simulated_distance_runs_on_loopback_with_the_tls_of_each_arm() -> None:
    plan = plan_for("transport=tls", "tls_version=1.2,1.3", "key=ecdsa-p256", "verify=full,none")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        assert not any(lab.prefix(arm) for arm in plan.arms)
        assert all(ipaddress.ip_address(host).is_loopback for host in hosts(lab, plan.arms[0]))
        assert "on loopback" in lab.describe().topology
        assert "link" not in lab.cpu_seconds()
        # Regression: after five minutes, members connected to each other with TLS during a slice without TLS.
        assert session_refresh_ms(lab) == 86_400_000
        # Regression: pymongo logged in before its user was created, and the lab hung until the next heartbeat.
        logs = [process.log.read_text(errors="replace") for process in lab._lab.processes.values()]
        assert not any("Authentication failed" in log for log in logs)
        lab.prepare(plan.arms[:1], engines.load)
        for arm in [arm for arm in plan.arms if arm.levels["transport"] == "tls"]:
            lab.arrange(arm)
            version = f"TLSv{arm.levels['tls_version']}"
            server = engines.server(arm)
            before = lab.counters(server)
            answer = engines.slice(arm, "connect", 5)
            evidence, increase = answer.evidence, lab.counters(server).since(before)
            assert (evidence["protocol"], evidence["key"]) == (version, arm.levels["key"])
            assert evidence["verified"] == (arm.levels["verify"] == "full")
            assert answer.phases["tls"].round_trips == 5 * {"TLSv1.2": 2, "TLSv1.3": 1}[version]
            # The member's counter may include connections of other clients.
            assert increase.tls_connections is not None
            assert increase.tls_connections[version] >= 5
