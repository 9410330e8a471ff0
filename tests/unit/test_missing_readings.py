"""Runs that lack a reading of the servers' CPU time in some rounds: it is missing there, and not 0."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costof.report import analyse
from costof.report.result import Result
from costof.results.ledger import SLICES, Ledger
from costof.study.load import LoadAsked
from tests.fake_run import Truth, fake_run
from tests.support.small_plans import plan_of
from tests.truths.at_load import AtLoad
from tests.truths.mongodb_tls import MongodbTruth

ROUNDS = 8


def without_servers_cpu(ledger: Ledger, rounds: int) -> Ledger:
    """As if the first rounds had been measured without --server-cpu."""
    path = ledger.folder / SLICES
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        if record["record"] == "slice" and record["round"] < rounds:
            record["server_cpu_seconds"] = {}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ledger


def at_load(folder: Path, lacking: int, carried: float = 1.0) -> Result:
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=LoadAsked("300/s", "20"))
    return analyse(without_servers_cpu(fake_run(folder / "run", plan, AtLoad(carried), rounds=ROUNDS), lacking))


@pytest.mark.parametrize("lacking", [0, 3, 6])
def test_cores_of_servers_are_of_the_rounds_that_have_them(tmp_path: Path, lacking: int) -> None:
    found = {each.who: each for each in at_load(tmp_path, lacking).sections.load.cores}
    # 300 connections a second, of 0.61 and 1.86 ms of the servers' CPU time.
    assert found["servers"].without.value == pytest.approx(0.183, rel=0.05)
    assert found["servers"].used.value == pytest.approx(0.558, rel=0.05)
    assert found["servers"].used.rounds == ROUNDS - lacking
    assert found["client"].used.rounds == ROUNDS


def test_cores_of_servers_are_unknown_where_one_round_has_them(tmp_path: Path) -> None:
    result = at_load(tmp_path, ROUNDS - 1)
    assert {each.who for each in result.sections.load.cores} == {"client"}
    assert "the servers' CPU time is not known here" in " ".join(sentence.text for sentence in result.answer)


@pytest.mark.parametrize("lacking", [0, 3, 7])
def test_the_servers_that_a_load_needs_are_of_the_rounds_that_have_them(tmp_path: Path, lacking: int) -> None:
    (overloaded,) = (
        each for each in at_load(tmp_path, lacking, carried=0.5).sections.load.carried if not each.all_of_them
    )
    assert overloaded.server_cores_needed == pytest.approx(0.558, rel=0.05)


def test_the_servers_that_a_load_needs_are_unknown_without_any_reading(tmp_path: Path) -> None:
    found = at_load(tmp_path, ROUNDS, carried=0.5).sections.load.carried
    assert {each.server_cores_needed for each in found} == {None}


@pytest.mark.parametrize("lacking", [0, 3, 6, 7])
def test_cpu_of_an_operation_is_of_the_slices_that_have_it(tmp_path: Path, lacking: int) -> None:
    ledger = fake_run(tmp_path / "run", plan_of("redis-tls", "quick", "transport=plain,tls"), Truth(), rounds=ROUNDS)
    whole = {(each.workload, each.arm): each.seconds_per_1000 for each in analyse(ledger).cpu}
    for cpu in analyse(without_servers_cpu(ledger, lacking)).cpu:
        server = cpu.seconds_per_1000["server"]
        assert server == pytest.approx(whole[cpu.workload, cpu.arm]["server"], rel=0.05)


@pytest.mark.parametrize("lacking", [3, 7, 8])
def test_the_cost_model_takes_no_missing_reading_for_nothing(tmp_path: Path, lacking: int) -> None:
    ledger = fake_run(tmp_path / "run", plan_of("mongodb-tls", "quick"), MongodbTruth(), rounds=ROUNDS)
    whole = {(each.protection, each.operation): each.cpu_ms for each in analyse(ledger).sections.cost_model.extras}
    result = analyse(without_servers_cpu(ledger, lacking))
    for each in result.sections.cost_model.extras:
        assert each.cpu_ms.low <= each.cpu_ms.value <= each.cpu_ms.high
        if lacking == 3:
            assert each.cpu_ms.rounds == ROUNDS - lacking
            assert each.cpu_ms.low <= whole[each.protection, each.operation].value <= each.cpu_ms.high
