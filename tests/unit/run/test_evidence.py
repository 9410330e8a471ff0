"""Tests of evidence from client and server that a slice had its arm's settings."""

from __future__ import annotations

from typing import Any

import pytest

from costof.lab.program import Counters
from costof.messages.answers import Phase, SliceAnswer
from costof.programs.access import Access
from costof.programs.mariadb.target import SysbenchTarget
from costof.run.evidence import mismatch
from costof.services.target import TargetService
from costof.study.library import load_study
from costof.study.schema import ArmSettings
from tests.fake_run import Slice, answer_of, error_of

STUDY = load_study("mongodb-tls")
PLAIN = STUDY.arm_settings({"transport": "plain"})
TLS_LEVELS = {"transport": "tls", "tls_version": "1.3", "key": "rsa-2048", "verify": "full", "resumption": "off"}
TLS = STUDY.arm_settings(TLS_LEVELS)
RESUMED = STUDY.arm_settings({**TLS_LEVELS, "resumption": "on"})
EVIDENCE = {
    "connections": 50,
    "handshakes": 50,
    "resumed": 0,
    "protocol": "TLSv1.3",
    "key": "rsa-2048",
    "verified": True,
}
PLAIN_EVIDENCE = {"connections": 50, "protocol": None}


def answer(operations: int = 50, **evidence: Any) -> SliceAnswer:
    return answer_of(Slice(operations, 1.0, {}, {}, evidence), "wire_connect", "tls")


def increase(connections: int, shared: bool = False, **tls: int) -> Counters:
    return Counters(connections, {f"TLSv1.{name[1:]}": count for name, count in tls.items()}, shared)


def tls_evidence(**changes: Any) -> dict[str, Any]:
    return {**EVIDENCE, **changes}


@pytest.mark.parametrize(
    ("settings", "evidence", "counters", "message"),
    [
        (TLS, EVIDENCE, increase(51, v3=51), None),
        (PLAIN, PLAIN_EVIDENCE, increase(50, v3=1), None),
        # The evidence of the client differs from the settings of the arm.
        (TLS, tls_evidence(protocol=None), increase(50, v3=50), "did not use TLS"),
        (TLS, tls_evidence(protocol="TLSv1.2"), increase(50, v3=50), "TLSv1.2"),
        (TLS, tls_evidence(verified=False), increase(50, v3=50), "did not verify"),
        (TLS, tls_evidence(resumed=3), increase(50, v3=50), "3 of 50 handshakes were resumed"),
        (RESUMED, tls_evidence(resumed=49), increase(50, v3=50), "49 of 50 handshakes were resumed"),
        (PLAIN, tls_evidence(protocol="TLSv1.3"), increase(50), "TLS"),
        # The counters of the server differ from the evidence of the client.
        (TLS, EVIDENCE, increase(20, v3=20), "only 20 of 50 connections"),
        (TLS, EVIDENCE, increase(90, v3=90), "the client opened 50"),
        (TLS, EVIDENCE, increase(50, v2=50), "only 0 of 50 connections with TLS 1.3"),
        (PLAIN, PLAIN_EVIDENCE, increase(50, v3=50), "TLS"),
        # The counters of a target may also include connections of other clients, but not fewer than the arm made.
        (TLS, EVIDENCE, increase(90, shared=True, v3=90), None),
        (PLAIN, PLAIN_EVIDENCE, increase(90, shared=True, v3=40), None),
        (TLS, EVIDENCE, increase(20, shared=True, v3=20), "only 20 of 50 connections"),
        # Some servers count nothing, some only connections, and some TLS connections without a version.
        (TLS, EVIDENCE, Counters(), None),
        (TLS, EVIDENCE, Counters(20), "the server counted only 20 of 50 connections"),
        (TLS, EVIDENCE, Counters(50, {"TLS": 50}), None),
        (TLS, EVIDENCE, Counters(50, {"TLS": 49}), "49"),
    ],
)
def test_evidence_that_contradicts_the_settings_of_the_arm_is_reported_as_a_mismatch(
    settings: ArmSettings, evidence: dict[str, Any], counters: Counters, message: str | None
) -> None:
    reason = mismatch(settings, "wire", answer(**evidence), counters)
    assert reason is None if message is None else message in (reason or "")


def test_server_may_count_several_connections_for_each_client_of_an_application_driver() -> None:
    assert mismatch(TLS, "app", answer(clients=12, connections=24), increase(40, v3=40)) is None


@pytest.mark.parametrize(
    ("suite", "protocol", "cipher", "message"),
    [
        ("tls1.3", "TLSv1.3", "TLS_AES_256_GCM_SHA384", None),
        ("tls1.3", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "the client used TLSv1.2"),
        ("modern", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", None),
        ("aes256-sha", "TLSv1.2", "AES256-SHA", None),
        ("aes256-sha", "TLSv1.2", "AES128-SHA", "the cipher was AES128-SHA"),
    ],
)
def test_cipher_suite_that_differs_from_the_suite_of_the_arm_is_reported_as_a_mismatch(
    suite: str, protocol: str, cipher: str, message: str | None
) -> None:
    settings = load_study("http-tls-termination").arm_settings({"termination": "balancer", "suite": suite})
    assert mismatch(settings, "wire", answer(**tls_evidence(protocol=protocol, cipher=cipher)), Counters()) == message


@pytest.mark.parametrize(("connections", "workers", "passes"), [(450, 200, True), (451, 200, False), (450, 1, False)])
def test_server_may_count_unfinished_connections_of_each_worker(connections: int, workers: int, passes: bool) -> None:
    reason = mismatch(TLS, "wire", answer(**EVIDENCE), increase(connections, v3=connections), workers=workers)
    assert (reason is None) == passes


@pytest.mark.parametrize(("connections", "passes"), [(90, True), (95, False)])
def test_server_may_also_count_connections_that_failed(connections: int, passes: bool) -> None:
    failed = answer(**EVIDENCE).model_copy(update={"errors": [error_of("timeout", "late", 40)]})
    assert (mismatch(TLS, "wire", failed, increase(connections, v3=connections)) is None) == passes


@pytest.mark.parametrize(("connections", "workers", "passes"), [(46, 8, True), (44, 8, False), (46, 2, False)])
def test_server_may_count_one_connection_less_per_worker_than_the_client(
    connections: int, workers: int, passes: bool
) -> None:
    used = Phase(count=45, sum_ns=1, sum_squares_ns2=1.0, min_ns=1, max_ns=1, histogram="")
    cut_off = answer(45, **EVIDENCE).model_copy(update={"phases": {"connect": used}})
    assert (mismatch(TLS, "wire", cut_off, increase(connections, v3=connections), workers=workers) is None) == passes


def test_measurement_without_operations_needs_no_evidence_of_tls() -> None:
    assert mismatch(TLS, "wire", answer(operations=0), increase(0)) is None


def test_increase_of_a_counter_is_unknown_if_one_of_its_two_readings_is_missing() -> None:
    assert increase(9, v3=4).since(increase(5, v3=2)) == increase(4, v3=2)
    assert Counters().since(increase(5, v3=2)) == Counters()
    assert Counters(9).since(Counters(5)) == Counters(4)


@pytest.mark.parametrize(
    ("evidence", "counted", "usable", "warning"),
    [
        # A counter that never changes is ignored: it is broken, or TLS ends at a proxy in front of the server.
        (EVIDENCE, Counters(50, {"TLS": 0}, True), Counters(50, None, True), "none of the first 50 TLS connections"),
        ({"connections": 50}, Counters(0, {"TLS": 0}, True), Counters(), "none of the first 50 connections"),
        # A counter that has changed works, so the other 49 connections were without TLS.
        (EVIDENCE, Counters(50, {"TLS": 1}, True), Counters(50, {"TLS": 1}, True), None),
        # A counter of 0 is right if the client did not use TLS or made no connections.
        ({"connections": 50}, Counters(50, {"TLS": 0}, True), Counters(50, {"TLS": 0}, True), None),
        ({"connections": 0}, Counters(0, {"TLS": 0}, True), Counters(0, {"TLS": 0}, True), None),
    ],
)
def test_server_counter_that_never_changes_is_ignored_with_a_warning(
    evidence: dict[str, Any], counted: Counters, usable: Counters, warning: str | None
) -> None:
    access = Access("mysql://u:p@db.example/")
    service = TargetService(access, SysbenchTarget(access, "mysql-transport", "a-run", 1))
    assert service.trusted_counters(answer(**evidence), counted) == usable
    warnings = service.warnings()
    assert len(warnings) == (warning is not None)
    assert warning is None or warning in warnings[0]
