"""A disk that is full: what is there stays whole, and one line says what to do."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from costof.cli.main import cli
from costof.errors import CostofError, Problem
from costof.files import write_whole
from costof.lab.lab import is_root
from costof.results.ledger import CautionRecord, Ledger
from tests.fake_run import Truth, fake_run
from tests.support.small_plans import plan_of

KIB = 1024
PLAN = plan_of("http-tls-termination")
needs_root = pytest.mark.skipif(not is_root(), reason="a file system of its own needs root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of the test's own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "costof-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(disk: Path, free: int) -> None:
    """Leave so many bytes free, in whole pages."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4 * KIB))
        except OSError:
            file.truncate(file.tell() - free)


def report(folder: Path) -> None:
    """As `costof report` does; what goes wrong is raised instead of printed."""
    cli.main(["report", str(folder)], standalone_mode=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(tmp_path_factory.mktemp("measured") / "run", PLAN, Truth(), rounds=2).folder


@needs_root
@pytest.mark.parametrize("free_kib", [0, 16, 200])
def test_a_report_for_which_there_is_no_room_leaves_no_part_of_it(disk: Path, measured: Path, free_kib: int) -> None:
    folder = shutil.copytree(measured, disk / "run")
    fill(disk, free_kib * KIB)
    with pytest.raises(CostofError) as caught:
        report(folder)
    assert str(caught.value) == f"cannot write to {folder}: No space left on device; choose another folder with --out"
    assert contents(folder) == contents(measured), "nothing cut off, nothing aside, and the ledger as it was"


@needs_root
def test_an_earlier_report_stays_whole(disk: Path, measured: Path) -> None:
    folder = shutil.copytree(measured, disk / "run")
    report(folder)
    earlier = contents(folder)
    assert earlier.keys() == contents(measured).keys() | {"result.json", "report.html", "report.md"}
    fill(disk, 16 * KIB)
    with pytest.raises(CostofError, match="No space left on device"):
        report(folder)
    assert contents(folder) == earlier


@needs_root
def test_what_was_measured_stays_when_the_disk_fills_up_in_a_run(disk: Path) -> None:
    ledger = fake_run(disk / "run", PLAN, Truth(), rounds=2)
    measured = len(list(ledger.records()))
    fill(disk, 4 * KIB)
    told = CautionRecord(text="x" * 300)

    def go_on() -> None:
        for _ in range(1000):
            ledger.append(told)

    with pytest.raises(CostofError, match="No space left on device") as caught:
        go_on()
    assert caught.value.problem is Problem.OUTPUT_NOT_WRITABLE
    ledger.discard()
    kept = list(ledger.records())
    assert len(kept) > measured
    (disk / "filler").unlink()
    ledger.append(told)
    assert list(ledger.records()) == [*kept, told], "and a resumed run goes on behind a line that was cut off"


@needs_root
def test_a_run_that_cannot_begin_leaves_no_plan(disk: Path) -> None:
    fill(disk, 8 * KIB)
    with pytest.raises(CostofError, match="No space left on device"):
        Ledger.create(PLAN, disk / "run")
    assert contents(disk / "run") == {}


def test_a_file_that_may_not_grow_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_whole(path, "before")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * KIB, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(path, "x" * 1000 * KIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == {"result.json": b"before"}
