"""Pairs of sidecar proxies in front of a lab's server: their evidence of mutual TLS, and their counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from costof.programs.sidecars.proxy import ConnectionRecord, PassageCounters
from costof.run.evidence import mismatch
from costof.services.server.lab import Readings, ServerLab
from costof.services.server.pairs import (
    CLIENT_NAME,
    CLIENT_ROLE,
    REFUSED,
    SERVER_NAME,
    SERVER_ROLE,
    PairObservation,
    RouteEvidence,
    SidecarSettings,
)
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.engines import Engines
from tests.support.services import HTTP_WORKLOADS
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
EVERY_PATH = "path=direct,pair-mtls,pair,one-proxy,pair-tcp-mtls,pair-tcp"
MUTUAL = SidecarSettings(program="envoy", at_client=True, mutual_tls=True)
SUITE = "TLSv1.3 TLS_AES_256_GCM_SHA384"


@dataclass
class Lab:
    plan: Plan
    service: ServerLab
    engines: Engines

    def arms(self) -> list[PlannedArm]:
        return [arm for arm in self.plan.arms if "sidecars" in arm.settings.lab]

    def arm(self, path: str) -> PlannedArm:
        return next(arm for arm in self.plan.arms if arm.levels["path"] == path)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    settings = (EVERY_PATH, "program=envoy,haproxy", "key=ecdsa-p256", "distance=1")
    plan = plan_of("service-mtls", "quick", *settings)
    with ServerLab(plan) as service, Engines(plan, service, HTTP_WORKLOADS) as engines:
        yield Lab(plan, service, engines)


def test_sidecars_refuse_connections_without_a_certificate(lab: Lab) -> None:
    for arm in lab.arms():
        facts = lab.service.collect_evidence(arm, "start")
        assert lab.service.failure_reason(arm) is None, arm.name
        certificates = {role: facts.get(f"certificate that the {role} saw") for role in (CLIENT_ROLE, SERVER_ROLE)}
        if arm.settings.lab["sidecars"].get("mutual_tls"):
            assert certificates == {CLIENT_ROLE: SERVER_NAME, SERVER_ROLE: CLIENT_NAME}
            assert facts["between the proxies"].startswith("TLSv1.3 TLS_")
            assert facts[f"refused by the {SERVER_ROLE}"] == " and ".join(REFUSED)
        else:
            assert certificates == {CLIENT_ROLE: None, SERVER_ROLE: None}
            assert facts.get("between the proxies", "no TLS") == "no TLS"


@pytest.mark.parametrize("workload", ["connect", "request"])
def test_counters_of_both_sidecars_confirm_the_operations_of_an_arm(lab: Lab, workload: str) -> None:
    for arm in lab.arms():
        lab.service.arrange(arm)
        server = lab.engines.server(arm)
        observed, counted = lab.service.observe(arm), lab.service.counters(server)
        before = lab.service.cpu_seconds()
        answer = lab.engines.slice(arm, workload, 40)
        increase = lab.service.counters(server).since(counted)
        judgement = lab.service.judge(arm, observed, lab.service.observe(arm), answer)
        assert (answer.operations, answer.errors) == (40, [])
        assert (mismatch(arm.settings, "wire", answer, increase, 20), judgement.mismatch) == (None, None)
        handshakes = judgement.counts.get("TLS handshakes between the proxies")
        settings = arm.settings.lab["sidecars"]
        if workload == "connect" and settings.get("mutual_tls") and not settings.get("http"):
            assert handshakes == 40
        used = {role: seconds - before[role] for role, seconds in lab.service.cpu_seconds().items()}
        roles = [SERVER_ROLE, CLIENT_ROLE] if settings.get("at_client") else [SERVER_ROLE]
        assert all(used[role] > 0 for role in roles)


def test_sidecars_log_no_requests_during_measurements(lab: Lab) -> None:
    arm = lab.arm("pair-mtls")
    lab.service.collect_evidence(arm, "start")
    lines = written(lab)
    assert lines > 0
    lab.engines.slice(arm, "request", 40)
    lab.service.collect_evidence(arm, "start")
    assert written(lab) - lines < 20


def written(lab: Lab) -> int:
    logs = lab.service._lab.folder.glob("envoy-*/access.log")
    return sum(len([json.loads(line) for line in log.read_text().splitlines()]) for log in logs)


def test_measurement_with_a_connection_that_a_sidecar_did_not_count_is_discarded(lab: Lab) -> None:
    arm = lab.arm("pair-tcp-mtls")
    lab.service.arrange(arm)
    answer = lab.engines.slice(arm, "connect", 40)
    start, full = Readings(PairObservation(PassageCounters(), PassageCounters())), PassageCounters(40, 0, 40)
    for at_server, at_client, reason in (
        (full, full, None),
        (full, replace(full, connections=39), f"the {CLIENT_ROLE} counted only 39 of 40 connections"),
        (replace(full, connections=39), full, f"the {SERVER_ROLE} counted only 39 of 40 connections"),
        (replace(full, handshakes=39), full, f"the {SERVER_ROLE} counted only 39 of 40 TLS handshakes"),
    ):
        after = Readings(PairObservation(at_server, at_client))
        assert lab.service.judge(arm, start, after, answer).mismatch == reason


def test_database_behind_a_pair_of_sidecars_is_reached_by_mutual_tls() -> None:
    plan = plan_of("redis-tls", "quick", "records=200", "transport=plain,pair-mtls")
    (arm,) = plan.protected
    with ServerLab(plan) as service, Engines(plan, service) as engines:
        service.prepare(plan.arms[:1], engines.load)
        assert service.collect_evidence(arm, "start")["between the proxies"].startswith("TLSv1.3 ")
        service.arrange(arm)
        before = service.observe(arm)
        answer = engines.slice(arm, "connect", 20)
        judgement = service.judge(arm, before, service.observe(arm), answer)
        assert (answer.operations, answer.errors, judgement.mismatch) == (20, [], None)
        assert judgement.counts["TLS handshakes between the proxies"] >= 20


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (RouteEvidence(ConnectionRecord(CLIENT_NAME, "", SUITE), ConnectionRecord("", SERVER_NAME, SUITE), []), None),
        (RouteEvidence(ConnectionRecord("", "", ""), ConnectionRecord("", "", ""), []), "the proxies did not use TLS"),
        (
            RouteEvidence(ConnectionRecord("another", "", SUITE), ConnectionRecord("", SERVER_NAME, SUITE), []),
            f"the {SERVER_ROLE} saw the certificate 'another'",
        ),
        (
            RouteEvidence(ConnectionRecord(CLIENT_NAME, "", SUITE), ConnectionRecord("", "", SUITE), []),
            f"the {CLIENT_ROLE} saw the certificate ''",
        ),
        (
            RouteEvidence(
                ConnectionRecord(CLIENT_NAME, "", SUITE), ConnectionRecord("", SERVER_NAME, SUITE), [REFUSED[1]]
            ),
            f"the {SERVER_ROLE} accepted connections without a certificate",
        ),
    ],
)
def test_evidence_that_contradicts_mutual_tls_is_reported_as_a_mismatch(
    evidence: RouteEvidence, reason: str | None
) -> None:
    assert evidence.mismatch(MUTUAL) == reason
