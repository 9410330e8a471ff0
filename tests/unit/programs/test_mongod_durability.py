"""Tests of detecting slices (measured windows) whose inserts did not wait as their write concern requires."""

from __future__ import annotations

import pytest

from costof.programs.flushes import FLUSHES, LOG_BYTES
from costof.programs.mongod.connection import MongodbSettings
from costof.programs.mongod.durability import WAITS, read_writes
from tests.fake_run import Slice, answer_of, phase_of

INSERTS = 1000
LOG = {"log sync operations": 12, "log bytes written": 3400}


def settings(write_concern: str | None, journal: bool | None = None) -> MongodbSettings:
    return MongodbSettings(
        addresses=["a:1"], database="d", collection="c", write_concern=write_concern, journal=journal
    )


def counted(flushes: int = 3, **more: float) -> dict[str, float]:
    return {FLUSHES: float(flushes), LOG_BYTES: 300.0 * INSERTS, **more}


@pytest.mark.parametrize(
    ("client", "increases", "shared", "expected"),
    [
        (settings("1", False), counted(inserts_1=INSERTS), False, None),
        (
            settings("1", False),
            counted(inserts_1=0, inserts_majority=INSERTS),
            False,
            "only 0 of 1,000 inserts with w:1",
        ),
        (settings("1", False), counted(INSERTS), False, "1,000 times for 1,000 commits that need no flush"),
        (settings("1", False), counted(INSERTS), True, None),
        (settings("1", True), counted(INSERTS), False, None),
        (settings("1", True), counted(), True, "only 3 times for 1,000 commits"),
        (settings("majority"), counted(INSERTS, **{WAITS: INSERTS}), False, None),
        (settings("majority"), counted(**{WAITS: INSERTS}), False, "only 3 times for 1,000 commits"),
        (settings("majority"), counted(INSERTS, **{WAITS: 7}), True, "only 7 of 1,000 inserts with w:majority waited"),
        (settings("majority", False), counted(**{WAITS: INSERTS}), False, None),
        (settings(None), counted(), False, None),
        (settings("majority"), {}, False, None),
    ],
)
def test_inserts_that_did_not_wait_as_their_write_concern_requires_are_reported_as_a_mismatch(
    client: MongodbSettings, increases: dict[str, float], shared: bool, expected: str | None
) -> None:
    phases = {"operation": phase_of(0.5, INSERTS), "insert": phase_of(0.5, INSERTS)}
    answer = answer_of(Slice(INSERTS, INSERTS * 0.5 / 1e3, phases, {}, {}), "commit", "arm")
    mismatch = client.mismatch(increases, answer, shared)
    assert (mismatch is None) == (expected is None)
    assert (expected or "") in (mismatch or "")


def test_measurement_without_inserts_is_accepted_for_every_write_concern() -> None:
    answer = answer_of(Slice(INSERTS, 1.0, {"operation": phase_of(0.5, INSERTS)}, {}, {}), "query", "arm")
    assert settings("majority").mismatch(counted(inserts_majority=0, **{WAITS: 0}), answer, shared=False) is None


def test_write_concern_that_no_insert_has_used_yet_has_a_count_of_0() -> None:
    status = {
        "wiredTiger": {"log": LOG},
        "metrics": {"getLastError": {"wtime": {"num": 5, "totalMillis": 9}}},
        "opWriteConcernCounters": {"insert": {"wmajority": 4, "wnum": {"3": 2}, "wtag": {}, "none": 1}},
    }
    read = read_writes(status)
    assert (read["inserts_1"], read["inserts_3"], read["inserts_majority"]) == (0, 2, 4)
    assert (read[FLUSHES], read[LOG_BYTES], read[WAITS]) == (12, 3400, 5)


def test_counters_that_the_server_lacks_are_left_out() -> None:
    assert read_writes({"metrics": {}, "connections": {}}) == {}
