"""Tests of measuring how long a flush to disk takes, and of choosing a folder that is on a disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from costof.lab.flushes import FEWEST_IN_PART, PARTS, folder_on_disk, is_in_memory, measure_flush


@pytest.mark.parametrize("appends", [False, True])
def test_measuring_flushes_leaves_no_file(tmp_path: Path, appends: bool) -> None:
    measured = measure_flush(tmp_path, appends, 0.02)
    assert measured.flushes >= PARTS * FEWEST_IN_PART
    assert 0 < measured.median_ms <= measured.p99_ms
    assert measured.mean_ms > 0
    assert measured.error_ms > 0
    assert " on " in measured.file_system
    assert list(tmp_path.iterdir()) == []


def test_folder_on_a_file_system_in_memory_is_not_used_to_measure_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_in_memory(Path("/dev/shm"))
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    assert folder_on_disk() in {"/tmp", "/var/tmp"}
