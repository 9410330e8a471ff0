"""An arm that was not what it says is thrown out, whichever end notices."""

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
SEEN = {"connections": 50, "handshakes": 50, "resumed": 0, "protocol": "TLSv1.3", "key": "rsa-2048", "verified": True}
SEEN_PLAIN = {"connections": 50, "protocol": None}


def answer(operations: int = 50, **evidence: Any) -> SliceAnswer:
    return answer_of(Slice(operations, 1.0, {}, {}, evidence), "wire_connect", "tls")


def moved(connections: int, shared: bool = False, **tls: int) -> Counters:
    return Counters(connections, {f"TLSv1.{name[1:]}": count for name, count in tls.items()}, shared)


def seen(**changes: Any) -> dict[str, Any]:
    return {**SEEN, **changes}


@pytest.mark.parametrize(
    ("asked", "evidence", "counters", "told"),
    [
        (TLS, SEEN, moved(51, v3=51), None),
        (PLAIN, SEEN_PLAIN, moved(50, v3=1), None),
        # The client notices.
        (TLS, seen(protocol=None), moved(50, v3=50), "did not speak TLS"),
        (TLS, seen(protocol="TLSv1.2"), moved(50, v3=50), "TLSv1.2"),
        (TLS, seen(key="rsa-4096"), moved(50, v3=50), "rsa-4096"),
        (TLS, seen(verified=False), moved(50, v3=50), "did not verify"),
        (TLS, seen(resumed=3), moved(50, v3=50), "3 of 50 handshakes were resumed"),
        (RESUMED, seen(resumed=50), moved(50, v3=50), None),
        (RESUMED, seen(resumed=49), moved(50, v3=50), "49 of 50 handshakes were resumed"),
        (PLAIN, seen(protocol="TLSv1.3"), moved(50), "TLS"),
        # The server notices.
        (TLS, SEEN, moved(20, v3=20), "20 connections of 50"),
        (TLS, SEEN, moved(90, v3=90), "50 were opened"),
        (TLS, SEEN, moved(50, v2=50), "0 connections with TLS 1.3"),
        (PLAIN, SEEN_PLAIN, moved(50, v3=50), "TLS"),
        # Other clients of a target may move its counters too.
        (TLS, SEEN, moved(90, shared=True, v3=90), None),
        (PLAIN, SEEN_PLAIN, moved(90, shared=True, v3=40), None),
        (TLS, SEEN, moved(20, shared=True, v3=20), "20 connections of 50"),
        # A server may count nothing, connections alone, or TLS without its version.
        (TLS, SEEN, Counters(), None),
        (TLS, SEEN, Counters(50), None),
        (TLS, SEEN, Counters(20), "the server counted 20 connections of 50"),
        (TLS, SEEN, Counters(50, {"TLS": 50}), None),
        (TLS, SEEN, Counters(50, {"TLS": 49}), "49"),
    ],
)
def test_a_slice_proves_its_arm_by_both_ends(
    asked: ArmSettings, evidence: dict[str, Any], counters: Counters, told: str | None
) -> None:
    found = mismatch(asked, "wire", answer(**evidence), counters)
    assert found is None if told is None else told in (found or "")


def test_an_application_whose_driver_opens_connections_of_its_own_passes() -> None:
    assert mismatch(TLS, "app", answer(clients=12, connections=24), moved(40, v3=40)) is None


@pytest.mark.parametrize(
    ("suite", "protocol", "cipher", "told"),
    [
        ("tls1.3", "TLSv1.3", "TLS_AES_256_GCM_SHA384", None),
        ("tls1.3", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", "the client spoke TLSv1.2"),
        ("modern", "TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", None),
        ("aes256-sha", "TLSv1.2", "AES256-SHA", None),
        ("aes256-sha", "TLSv1.2", "AES128-SHA", "the cipher was AES128-SHA"),
    ],
)
def test_a_suite_is_what_was_spoken(suite: str, protocol: str, cipher: str, told: str | None) -> None:
    asked = load_study("http-tls-termination").arm_settings({"termination": "balancer", "suite": suite})
    assert mismatch(asked, "wire", answer(**seen(protocol=protocol, cipher=cipher)), Counters()) == told


@pytest.mark.parametrize(("connections", "workers", "passes"), [(450, 200, True), (451, 200, False), (450, 1, False)])
def test_each_worker_may_leave_a_connection_unfinished(connections: int, workers: int, passes: bool) -> None:
    found = mismatch(TLS, "wire", answer(**SEEN), moved(connections, v3=connections), workers=workers)
    assert (found is None) == passes


@pytest.mark.parametrize(("connections", "passes"), [(90, True), (95, False)])
def test_a_connection_that_failed_was_counted_by_the_server_alone(connections: int, passes: bool) -> None:
    failed = answer(**SEEN).model_copy(update={"errors": [error_of("timeout", "late", 40)]})
    assert (mismatch(TLS, "wire", failed, moved(connections, v3=connections)) is None) == passes


@pytest.mark.parametrize(("connections", "workers", "passes"), [(46, 8, True), (44, 8, False), (46, 2, False)])
def test_an_overloaded_server_may_not_have_taken_what_was_unfinished(
    connections: int, workers: int, passes: bool
) -> None:
    used = Phase(count=45, sum_ns=1, sum_squares_ns2=1.0, min_ns=1, max_ns=1, histogram="")
    cut_off = answer(45, **SEEN).model_copy(update={"phases": {"connect": used}})
    assert (mismatch(TLS, "wire", cut_off, moved(connections, v3=connections), workers=workers) is None) == passes


def test_a_slice_without_success_refutes_nothing() -> None:
    assert mismatch(TLS, "wire", answer(operations=0), moved(0)) is None


def test_counters_are_compared_where_both_readings_have_them() -> None:
    assert moved(9, v3=4).since(moved(5, v3=2)) == moved(4, v3=2)
    assert Counters().since(moved(5, v3=2)) == Counters()
    assert Counters(9).since(Counters(5)) == Counters(4)


@pytest.mark.parametrize(
    ("evidence", "counted", "usable", "told"),
    [
        # A counter that stands still, or TLS that ends before the server.
        (SEEN, Counters(50, {"TLS": 0}, True), Counters(50, None, True), "none of the first 50 TLS connections"),
        ({"connections": 50}, Counters(0, {"TLS": 0}, True), Counters(), "none of the first 50 connections"),
        # Some were counted: then the others are missing, which is no fault of the counter's.
        (SEEN, Counters(50, {"TLS": 1}, True), Counters(50, {"TLS": 1}, True), None),
        # A client that does not say that it spoke TLS may not have done so; nobody counts where nothing was opened.
        ({"connections": 50}, Counters(50, {"TLS": 0}, True), Counters(50, {"TLS": 0}, True), None),
        ({"connections": 0}, Counters(0, {"TLS": 0}, True), Counters(0, {"TLS": 0}, True), None),
    ],
)
def test_a_target_whose_counter_counts_nothing_is_measured_by_the_clients_evidence(
    evidence: dict[str, Any], counted: Counters, usable: Counters, told: str | None
) -> None:
    access = Access("mysql://u:p@db.example/")
    service = TargetService(access, SysbenchTarget(access, "mysql-transport", "a-run", 1))
    assert service.trusted_counters(answer(**evidence), counted) == usable
    warnings = service.warnings()
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
