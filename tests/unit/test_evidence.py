"""An arm that was not what it says is thrown out, whichever end notices."""

from __future__ import annotations

from typing import Any

import pytest

from costof.lab.program import Counters
from costof.messages.answers import ClassifiedError, Phase, SliceAnswer
from costof.programs.access import Access
from costof.programs.mariadb.target import OwnSysbench
from costof.run.evidence import mismatch
from costof.services.target import OwnService
from costof.study.library import load_study

STUDY = load_study("mongodb-tls")
PLAIN = STUDY.asked({"transport": "plain"})
TLS_LEVELS = {"transport": "tls", "tls_version": "1.3", "key": "rsa-2048", "verify": "full", "resumption": "off"}
TLS = STUDY.asked(TLS_LEVELS)
SEEN = {"connections": 50, "handshakes": 50, "resumed": 0, "protocol": "TLSv1.3", "key": "rsa-2048", "verified": True}


def answer(operations: int = 50, **evidence: Any) -> SliceAnswer:
    return SliceAnswer(
        id=1,
        arm="tls",
        workload="wire_connect",
        started_unix_ns=0,
        elapsed_ns=1,
        operations=operations,
        errors=[],
        phases={},
        cpu_ns={},
        peak_memory_bytes=0,
        evidence=evidence,
    )


def moved(connections: int, shared: bool = False, **tls: int) -> Counters:
    return Counters(connections, {f"TLSv1.{name[1:]}": count for name, count in tls.items()}, shared)


def test_an_arm_that_is_what_it_says_passes() -> None:
    assert mismatch(TLS, "wire", answer(**SEEN), moved(51, v3=51)) is None
    assert mismatch(PLAIN, "wire", answer(connections=50, protocol=None), moved(50, v3=1)) is None
    assert mismatch(TLS, "app", answer(clients=12, connections=24), moved(40, v3=40)) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"protocol": None}, "did not speak TLS"),
        ({"protocol": "TLSv1.2"}, "TLSv1.2"),
        ({"key": "rsa-4096"}, "rsa-4096"),
        ({"verified": False}, "did not verify"),
        ({"resumed": 3}, "3 of 50 handshakes were resumed"),
    ],
)
def test_the_client_notices(change: dict[str, Any], told: str) -> None:
    found = mismatch(TLS, "wire", answer(**{**SEEN, **change}), moved(50, v3=50))
    assert found is not None
    assert told in found


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
    asked = load_study("http-tls-termination").asked({"termination": "balancer", "suite": suite})
    seen = answer(**{**SEEN, "protocol": protocol, "cipher": cipher})
    assert mismatch(asked, "wire", seen, Counters()) == told


def test_a_plain_arm_that_spoke_tls_is_thrown_out() -> None:
    assert mismatch(PLAIN, "wire", answer(connections=50, protocol="TLSv1.3"), moved(50)) is not None
    assert mismatch(PLAIN, "wire", answer(connections=50, protocol=None), moved(50, v3=50)) is not None


def test_resumption_must_have_happened() -> None:
    on = STUDY.asked({**TLS_LEVELS, "resumption": "on"})
    assert mismatch(on, "wire", answer(**{**SEEN, "resumed": 50}), moved(50, v3=50)) is None
    assert (
        mismatch(on, "wire", answer(**{**SEEN, "resumed": 49}), moved(50, v3=50)) == "49 of 50 handshakes were resumed"
    )


@pytest.mark.parametrize(
    ("counters", "told"),
    [
        (moved(20, v3=20), "20 connections of 50"),
        (moved(90, v3=90), "50 were opened"),
        (moved(50, v2=50), "0 connections with TLS 1.3"),
    ],
)
def test_the_server_notices(counters: Counters, told: str) -> None:
    found = mismatch(TLS, "wire", answer(**SEEN), counters)
    assert found is not None
    assert told in found


def test_other_clients_of_a_target_may_move_its_counters_too() -> None:
    assert mismatch(TLS, "wire", answer(**SEEN), moved(90, shared=True, v3=90)) is None
    assert mismatch(PLAIN, "wire", answer(connections=50, protocol=None), moved(90, shared=True, v3=40)) is None
    assert mismatch(TLS, "wire", answer(**SEEN), moved(20, shared=True, v3=20)) is not None


def test_a_server_that_does_not_tell_leaves_the_clients_side() -> None:
    assert mismatch(TLS, "wire", answer(**SEEN), Counters()) is None


def test_a_server_may_count_connections_alone_or_tls_without_its_version() -> None:
    assert mismatch(TLS, "wire", answer(**SEEN), Counters(50)) is None
    assert mismatch(TLS, "wire", answer(**SEEN), Counters(20)) == "the server counted 20 connections of 50"
    assert mismatch(TLS, "wire", answer(**SEEN), Counters(50, {"TLS": 50})) is None
    assert mismatch(TLS, "wire", answer(**SEEN), Counters(50, {"TLS": 49})) is not None


def test_each_worker_may_leave_a_connection_unfinished() -> None:
    assert mismatch(TLS, "wire", answer(**SEEN), moved(450, v3=450), workers=200) is None
    assert mismatch(TLS, "wire", answer(**SEEN), moved(451, v3=451), workers=200) is not None
    assert mismatch(TLS, "wire", answer(**SEEN), moved(450, v3=450), workers=1) is not None


def test_a_connection_that_failed_was_counted_by_the_server_alone() -> None:
    failed = answer(**SEEN).model_copy(
        update={"errors": [ClassifiedError.model_validate({"class": "timeout", "detail": "late", "count": 40})]}
    )
    assert mismatch(TLS, "wire", failed, moved(90, v3=90)) is None
    assert mismatch(TLS, "wire", failed, moved(95, v3=95)) is not None


def test_a_slice_without_success_refutes_nothing() -> None:
    assert mismatch(TLS, "wire", answer(operations=0), moved(0)) is None


def test_counters_since() -> None:
    before, after = moved(5, v3=2), moved(9, v3=4)
    assert after.since(before) == moved(4, v3=2)
    assert Counters().since(before) == Counters()
    assert Counters(9).since(Counters(5)) == Counters(4)


def test_an_overloaded_server_may_not_have_taken_what_was_unfinished() -> None:
    used = Phase(count=45, sum_ns=1, sum_squares_ns2=1.0, min_ns=1, max_ns=1, histogram="")
    cut_off = answer(45, **SEEN).model_copy(update={"phases": {"connect": used}})
    assert mismatch(TLS, "wire", cut_off, moved(46, v3=46), workers=8) is None
    assert mismatch(TLS, "wire", cut_off, moved(44, v3=44), workers=8) is not None
    assert mismatch(TLS, "wire", cut_off, moved(46, v3=46), workers=2) is not None


@pytest.mark.parametrize(
    ("evidence", "counted", "usable", "told"),
    [
        # A counter that stands still, or TLS that ends before the server.
        (SEEN, Counters(50, {"TLS": 0}, True), Counters(50, None, True), "none of the first 50 TLS connections"),
        ({"connections": 50}, Counters(0, {"TLS": 0}, True), Counters(), "none of the first 50 connections"),
        # Some were counted: then the others are missing, which is no fault of the counter's.
        (SEEN, Counters(50, {"TLS": 1}, True), Counters(50, {"TLS": 1}, True), None),
        # A client that does not say that it spoke TLS may not have done so, and nobody counts where nothing was opened.
        ({"connections": 50}, Counters(50, {"TLS": 0}, True), Counters(50, {"TLS": 0}, True), None),
        ({"connections": 0}, Counters(0, {"TLS": 0}, True), Counters(0, {"TLS": 0}, True), None),
    ],
)
def test_a_target_whose_counter_counts_nothing_is_measured_by_the_clients_evidence(
    evidence: dict[str, Any], counted: Counters, usable: Counters, told: str | None
) -> None:
    access = Access("mysql://u:p@db.example/")
    service = OwnService(access, OwnSysbench(access, "mysql-transport", "a-run", 1))
    assert service.usable(answer(**evidence), counted) == usable
    warnings = service.cautions()
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]
