"""The engine's memory during a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import costof
from tests.support.small_plans import small_study

from .conftest import SMALL

pytestmark = [pytest.mark.slow, pytest.mark.servers]


def test_memory_of_the_engine_does_not_grow_during_the_run(tmp_path: Path) -> None:
    study = small_study("mongodb-tls", tmp_path)
    done = costof("run", study, *SMALL, "--rounds", "5", "--seed", "1", "--out", "run", cwd=tmp_path)
    # The status is 3 if a busy machine leaves too few rounds for an answer.
    assert done.status in (0, 3), done.err
    records = [json.loads(line) for line in (tmp_path / "run" / "slices.jsonl").read_text().splitlines()]
    slices = [r for r in records if r["record"] == "slice" and r["view"] == "wire"]
    peaks = [r["answer"]["peak_memory_bytes"] for r in slices]
    assert len(peaks) > 20
    assert peaks[-1] - peaks[len(peaks) // 4] < 2 * 2**20
