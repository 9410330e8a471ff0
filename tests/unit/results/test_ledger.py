"""Tests of the ledger: crashes and full disks lose no records, and nothing is overwritten."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costof.cli.main import cli
from costof.errors import CostofError, ErrorText
from costof.files import write_whole
from costof.lab.lab import is_root
from costof.programs.access import Access
from costof.results.core import build_core
from costof.results.ledger import PLAN, SLICES, EndRecord, Ledger, WarningRecord
from costof.results.run import read_run
from costof.services.open import shown_urls
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Truth, fake_run
from tests.support.small_plans import plan_of, with_only

NOTE = WarningRecord(text="one")


@pytest.fixture
def plan() -> Plan:
    study = load_study("mongodb-tls")
    target, _ = shown_urls(study, Access("mongodb://u:hunter2@h/?replicaSet=rs0"))
    return resolve(study, Options(target=target))


@pytest.fixture
def ledger(tmp_path: Path, plan: Plan) -> Ledger:
    return Ledger.create(plan, tmp_path / "run")


def test_plan_is_read_back_unchanged_and_without_passwords(ledger: Ledger, plan: Plan) -> None:
    assert Ledger.open(ledger.folder).plan() == plan
    assert "hunter2" not in (ledger.folder / PLAN).read_text()


def test_ledger_line_cut_off_by_a_crash_is_skipped(ledger: Ledger) -> None:
    ledger.append(NOTE)
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    with (ledger.folder / SLICES).open("a") as file:
        file.write('{"record": "warning", "te')
    assert [record.record for record in ledger.records()] == ["warning", "end"]


def test_report_is_made_from_a_ledger_of_version_5(tmp_path: Path) -> None:
    plan = with_only(plan_of("redis-tls", limits=[("GET on open connection", "+10%")]), "wire_query")
    ledger = fake_run(tmp_path / "run", plan, Truth(), rounds=2)
    content = json.loads((ledger.folder / PLAN).read_text())
    lines = [json.loads(line) for line in (ledger.folder / SLICES).read_text().splitlines()]
    for line in lines:
        line.pop("hosts", None)
        line.get("answer", {}).pop("window", None)
    content.pop("hosts")
    levels = [level for factor in content["study"]["factors"].values() for level in factor["levels"].values()]
    settings = [arm["settings"] for arm in content["arms"]]
    use_old_names(content["arms"], baseline="control_arm", twin="replicate", asked="settings")
    use_old_names([*levels, *settings], own="target", seen="evidence", proof="verify")
    use_old_names(content["limits"], said="text")
    (ledger.folder / PLAN).write_text(json.dumps({**content, "ledger_version": 5}))
    (ledger.folder / SLICES).write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert Ledger.open(ledger.folder).plan() == plan
    assert build_core(read_run(Ledger.open(ledger.folder)), "run").rounds == 2


def use_old_names(contents: list[dict[str, Any]], **names: str) -> None:
    for content in contents:
        for old, new in names.items():
            content[old] = content.pop(new)


def test_unknown_kind_of_record_or_version_of_a_ledger_is_an_error(ledger: Ledger) -> None:
    (ledger.folder / SLICES).write_text(json.dumps({"record": "unknown"}) + "\n")
    with pytest.raises(CostofError) as caught:
        list(ledger.records())
    assert caught.value.message is ErrorText.NOT_A_RUN
    path = ledger.folder / PLAN
    path.write_text(json.dumps({**json.loads(path.read_text()), "ledger_version": 4}))
    with pytest.raises(CostofError) as caught:
        ledger.plan()
    assert caught.value.message is ErrorText.OTHER_LEDGER


def test_folder_that_is_not_empty_or_not_writable_is_an_error(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for folder, error in ((tmp_path, ErrorText.OUTPUT_EXISTS), (Path("/proc/costof"), ErrorText.OUTPUT_NOT_WRITABLE)):
        with pytest.raises(CostofError) as caught:
            Ledger.create(plan, folder)
        assert caught.value.message is error
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_discarding_a_ledger_without_measurements_removes_its_folder(ledger: Ledger) -> None:
    ledger.append(NOTE)
    ledger.discard()
    assert not ledger.folder.exists()


def test_runs_started_in_the_same_second_get_different_folders(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len({Ledger.create(plan, None).folder for _ in range(3)}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, r"no plan\.json"), *((text, "cannot be read") for text in ("[]", "null", "{", '"text"'))],
)
def test_folder_without_a_valid_plan_is_an_error(tmp_path: Path, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / PLAN).write_text(text)
    with pytest.raises(CostofError, match=message) as caught:
        Ledger.open(tmp_path).plan()
    assert caught.value.message is ErrorText.NOT_A_RUN


KIB = 1024
HTTP_PLAN = with_only(plan_of("http-tls-termination"), "connection")
needs_root = pytest.mark.skipif(not is_root(), reason="mounting a file system needs root")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "costof-test", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(disk: Path, free: int) -> None:
    """Fill the disk, leaving `free` bytes, a multiple of the page size."""
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4 * KIB))
        except OSError:
            file.truncate(file.tell() - free)


def report(folder: Path) -> None:
    cli.main(["report", str(folder)], standalone_mode=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_run(tmp_path_factory.mktemp("measured") / "run", HTTP_PLAN, Truth(), rounds=2).folder


@needs_root
@pytest.mark.parametrize("fits", [[], ["result.json"], ["result.json", "report.html"]], ids=len)
def test_report_on_a_full_disk_fails_and_leaves_the_earlier_report_unchanged(
    disk: Path, measured: Path, fits: list[str]
) -> None:
    folder = shutil.copytree(measured, disk / "run")
    report(folder)
    pages = sum(-(-(folder / name).stat().st_size // (4 * KIB)) for name in fits)
    names = {"result.json", "report.html", "report.md"}
    for name in names:
        (folder / name).write_text("earlier")
    earlier = contents(folder)
    assert earlier.keys() == contents(measured).keys() | names
    fill(disk, (pages + 1) * 4 * KIB)
    with pytest.raises(CostofError) as caught:
        report(folder)
    assert str(caught.value) == f"cannot write to {folder}: No space left on device; choose another folder with --out"
    assert contents(folder) == earlier, "no partial or temporary files"


@needs_root
def test_complete_records_survive_if_the_disk_fills_up_during_a_run(disk: Path) -> None:
    ledger = fake_run(disk / "run", HTTP_PLAN, Truth(), rounds=2)
    before = len(list(ledger.records()))
    fill(disk, 4 * KIB)
    long_note = WarningRecord(text="x" * 300)

    def append_until_full() -> None:
        for _ in range(1000):
            ledger.append(long_note)

    with pytest.raises(CostofError, match="No space left on device") as caught:
        append_until_full()
    assert caught.value.message is ErrorText.OUTPUT_NOT_WRITABLE
    ledger.discard()
    kept = list(ledger.records())
    assert len(kept) > before
    (disk / "filler").unlink()
    ledger.append(long_note)
    assert list(ledger.records()) == [*kept, long_note], "a resumed run appends after the line that was cut off"


@needs_root
def test_run_whose_plan_does_not_fit_on_the_disk_leaves_no_files(disk: Path) -> None:
    fill(disk, 8 * KIB)
    with pytest.raises(CostofError, match="No space left on device"):
        Ledger.create(HTTP_PLAN, disk / "run")
    assert contents(disk / "run") == {}


def test_write_that_fails_leaves_the_existing_file_unchanged(tmp_path: Path) -> None:
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
