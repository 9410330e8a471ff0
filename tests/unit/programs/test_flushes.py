"""Tests of detecting slices (measured windows) whose number of disk flushes contradicts the server's configuration."""

from __future__ import annotations

import pytest

from costof.messages.answers import REPORTED
from costof.programs.flushes import FLUSHES, LOG_BYTES, flush_mismatch
from tests.fake_run import Slice, answer_of, phase_of

COMMITS, COMMIT_MS = 1000, 0.5


@pytest.mark.parametrize(
    ("workers", "flushes", "flushes_commits", "expected"),
    [
        (1, 1003, True, None),
        (1, 4, True, "only 4 times for 1,000 commits"),
        (32, 64, True, None),
        (32, 9, True, "only 9 times for 1,000 commits"),
        (1, 4, False, None),
        (32, 24, False, None),
        (1, 1003, False, "1,003 times for 1,000 commits that need no flush"),
        (32, 64, False, "64 times for 1,000 commits that need no flush"),
    ],
)
def test_number_of_flushes_that_contradicts_the_configuration_is_reported_as_a_mismatch(
    workers: int, flushes: int, flushes_commits: bool, expected: str | None
) -> None:
    phases = {"operation": phase_of(COMMIT_MS, COMMITS)}
    measured = Slice(COMMITS, COMMITS * COMMIT_MS / workers / 1e3, phases, {}, {})
    increases = {FLUSHES: float(flushes), LOG_BYTES: 300.0 * COMMITS}
    found = flush_mismatch(increases, answer_of(measured, "commit", "arm"), flushes_commits)
    assert (found is None) == (expected is None)
    assert (expected or "") in (found or "")


def test_number_of_flushes_must_fit_the_number_of_commits_that_a_load_generator_reports() -> None:
    counts = {REPORTED: COMMITS}
    measured = Slice(1, 1.0, {"command": phase_of(1000.0, 1)}, {}, {}, counts=counts)
    answer = answer_of(measured, "client", "arm").model_copy(update={"figures": {"latency_ms": 8.0}})
    for flushes, found in ((COMMITS / 8, None), (COMMITS / 20, "only 50 times for 1,000 commits")):
        mismatch = flush_mismatch({FLUSHES: flushes, LOG_BYTES: 300.0 * COMMITS}, answer, True)
        assert (found or "") in (mismatch or "")
        assert (found is None) == (mismatch is None)


def test_measurement_without_writes_to_the_log_of_the_server_needs_no_flush() -> None:
    measured = Slice(COMMITS, 1.0, {"operation": phase_of(COMMIT_MS, COMMITS)}, {}, {})
    assert flush_mismatch({FLUSHES: 0.0, LOG_BYTES: 120.0}, answer_of(measured, "query", "arm"), True) is None


def test_flushes_in_the_background_of_a_short_measurement_are_no_mismatch() -> None:
    measured = Slice(2, 0.001, {"operation": phase_of(COMMIT_MS, 2)}, {}, {})
    assert flush_mismatch({FLUSHES: 3.0, LOG_BYTES: 600.0}, answer_of(measured, "commit", "arm"), False) is None
