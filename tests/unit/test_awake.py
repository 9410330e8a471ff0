"""Whether cores sleep is asked for and told."""

from __future__ import annotations

from pathlib import Path

from costof.run.machine import cores_awake


def test_the_request_is_held_while_it_lasts(tmp_path: Path) -> None:
    request = tmp_path / "cpu_dma_latency"
    request.touch()
    with cores_awake(request) as told:
        assert request.read_bytes() == b"\0\0\0\0"
        assert told.startswith("kept awake")


def test_where_it_is_not_allowed_the_run_goes_on_and_says_so(tmp_path: Path) -> None:
    with cores_awake(tmp_path / "no" / "such" / "device") as told:
        assert told.startswith("may sleep")
