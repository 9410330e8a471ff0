"""The ledger: nothing lost, nothing secret, nothing written over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.results.ledger import CautionRecord, EndRecord, Ledger
from costof.services.open import shown_urls
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve


@pytest.fixture
def plan() -> Plan:
    study = load_study("mongodb-tls")
    target, _ = shown_urls(study, Access("mongodb://u:hunter2@h/?replicaSet=rs0"))
    return resolve(study, Options(target=target))


def test_a_plan_comes_back_as_it_was(tmp_path: Path, plan: Plan) -> None:
    ledger = Ledger.create(plan, tmp_path / "run")
    assert Ledger.open(tmp_path / "run").plan() == plan
    assert "hunter2" not in (ledger.folder / "plan.json").read_text()


def test_records_survive_a_crash_in_the_middle_of_a_line(tmp_path: Path, plan: Plan) -> None:
    ledger = Ledger.create(plan, tmp_path / "run")
    ledger.append(CautionRecord(text="one"))
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    with (ledger.folder / "slices.jsonl").open("a") as file:
        file.write('{"record": "caution", "te')
    assert [record.record for record in ledger.records()] == ["caution", "end"]


def test_a_line_of_another_version_is_said_so(tmp_path: Path, plan: Plan) -> None:
    ledger = Ledger.create(plan, tmp_path / "run")
    (ledger.folder / "slices.jsonl").write_text(json.dumps({"record": "unheard of"}) + "\n")
    with pytest.raises(CostofError) as caught:
        list(ledger.records())
    assert caught.value.problem is Problem.NOT_A_RUN


def test_nothing_is_written_over(tmp_path: Path, plan: Plan) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(CostofError) as caught:
        Ledger.create(plan, tmp_path)
    assert caught.value.problem is Problem.OUTPUT_EXISTS
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_told(plan: Plan) -> None:
    with pytest.raises(CostofError) as caught:
        Ledger.create(plan, Path("/proc/costof"))
    assert caught.value.problem is Problem.OUTPUT_NOT_WRITABLE


def test_a_run_that_came_to_nothing_leaves_nothing(tmp_path: Path, plan: Plan) -> None:
    ledger = Ledger.create(plan, tmp_path / "run")
    ledger.append(CautionRecord(text="one"))
    ledger.discard()
    assert not (tmp_path / "run").exists()


def test_two_runs_in_one_second_have_folders_of_their_own(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {Ledger.create(plan, None).folder for _ in range(3)}
    assert len(folders) == 3


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(CostofError, match=r"no plan\.json"):
        Ledger.open(tmp_path)


def test_a_ledger_of_another_version_is_said_so(tmp_path: Path, plan: Plan) -> None:
    ledger = Ledger.create(plan, tmp_path / "run")
    path = ledger.folder / "plan.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "ledger_version": 1}))
    with pytest.raises(CostofError) as caught:
        ledger.plan()
    assert caught.value.problem is Problem.OTHER_LEDGER


@pytest.mark.parametrize("text", ["[]", "7", "null", "{", '"text"'])
def test_a_plan_that_is_no_plan_is_told_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(CostofError, match=r"plan\.json cannot be read") as caught:
        Ledger.open(tmp_path).plan()
    assert caught.value.problem is Problem.NOT_A_RUN
