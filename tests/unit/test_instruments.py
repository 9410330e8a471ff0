"""What an instrument is told of a study's workloads, and of the data that it is to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from costof.datasets import tpcc
from costof.errors import CostofError
from costof.ipc.answers import SliceAnswer
from costof.ipc.plan import Workload
from costof.ipc.process import Instrument
from costof.ledger.ledger import Ledger
from costof.run.instruments import LOAD, Instruments, load_workload
from costof.services import Service
from costof.study.plan import Plan
from tests.support.small_plans import plan_of


def instruments_of(plan: Plan, folder: Path) -> Instruments:
    return Instruments(plan, cast(Service, None), Ledger.create(plan, folder))


def test_transactions_go_to_the_engine_with_their_terminals_and_isolation(tmp_path: Path) -> None:
    settings = ["encrypted=0,20", "terminals=8,16", "isolation=serializable,read-committed"]
    plan = plan_of("mysql-column-encryption", "quick", *settings)
    told = {each.name: each for each in instruments_of(plan, tmp_path / "run")._workloads("wire", plan.arms)}
    run = [workload for name, workload in told.items() if name != LOAD]
    assert {workload.kind for workload in run} == {"tpcc"}
    assert {(workload.workers, workload.tpcc["isolation"]) for workload in run} == {
        (terminals, isolation) for terminals in (8, 16) for isolation in ("serializable", "read-committed")
    }
    assert all(workload.tpcc["phase"] == "run" and not workload.tpcc["keying"] for workload in run)
    assert told[LOAD] == Workload(name=LOAD, kind="tpcc", workers=4, tpcc={"phase": "load", "warehouses": 1})


def test_other_studies_load_records_as_before(tmp_path: Path) -> None:
    plan = plan_of("mysql-transport")
    told = {each.name: each for each in instruments_of(plan, tmp_path / "run")._workloads("wire", plan.arms)}
    assert told[LOAD] == load_workload() == Workload(name=LOAD, kind="load", workers=4)
    assert told["query_1"].tpcc is None


def test_each_start_of_the_servers_draws_anew_what_instruments_draw(tmp_path: Path) -> None:
    plan, ledger = plan_of("mysql-transport"), Ledger.create(plan_of("mysql-transport"), tmp_path / "run")
    starts = [Instruments(plan, cast(Service, None), ledger, number) for number in range(3)]
    assert [each._plan_for_instrument("wire", []).seed for each in starts] == [
        plan.seed + number for number in range(3)
    ]


class Loader:
    """Stands for an instrument: what it is asked to load."""

    def __init__(self, failing: bool = False) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._failing = failing

    def slice(self, number: int, arm: str, workload: str, operations: int, seconds: float) -> SliceAnswer:
        self.asked.append((workload, operations))
        errors = [{"class": "server", "count": 1, "detail": "disk full"}] if self._failing else []
        return SliceAnswer.model_validate(
            {
                **{"id": number, "arm": arm, "workload": workload, "started_unix_ns": 0, "elapsed_ns": 1},
                **{"operations": operations, "errors": errors, "phases": {}, "cpu_ns": {}},
                **{"peak_memory_bytes": 0, "evidence": {}},
            }
        )


@pytest.mark.parametrize(
    ("study", "operations"), [("mysql-column-encryption", tpcc.load_operations(1)), ("mysql-transport", 10_000)]
)
def test_all_of_the_data_is_loaded(study: str, operations: int, tmp_path: Path) -> None:
    plan = plan_of(study)
    instruments, loader = instruments_of(plan, tmp_path / "run"), Loader()
    instruments._instruments["wire", plan.arms[0].name] = cast(Instrument, loader)
    instruments.load(plan.arms[0])
    assert loader.asked == [(LOAD, operations)]
    instruments._instruments["wire", plan.arms[0].name] = cast(Instrument, Loader(failing=True))
    with pytest.raises(CostofError, match="disk full"):
        instruments.load(plan.arms[0])
