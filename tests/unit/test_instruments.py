"""What an instrument is told of a study's workloads, and of the data that it is to load."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from costof.datasets import tpcc
from costof.errors import CostofError
from costof.messages.answers import Ready, SliceAnswer
from costof.messages.plan import Workload
from costof.messages.process import Instrument
from costof.results.ledger import Ledger
from costof.run.instruments import LOAD, Instruments, _check_library, _grouped, load_workload
from costof.services import Service
from costof.study.arms import PlannedArm
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


class OneHost:
    """Stands for a service whose clients are all in one place."""

    def prefix(self, arm: PlannedArm) -> list[str]:
        return []


def groups(plan: Plan, folder: Path) -> list[tuple[str, list[str]]]:
    """Of the engines: with which library, and the arms of each."""
    instruments = Instruments(plan, cast(Service, OneHost()), Ledger.create(plan, folder))
    grouped = _grouped(plan.arms, partial(instruments._surroundings, "wire"))
    return [(surroundings.library, [arm.name for arm in arms]) for surroundings, arms in grouped]


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each library, beside the one that is installed."""
    for library in ("", "-openssl-3.5", "-aws-lc"):
        (tmp_path / f"costof-engine{library}").touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(tmp_path / "costof-engine"))


@pytest.mark.usefixtures("engines")
def test_all_arms_of_one_library_share_an_engine_their_control_among_them(tmp_path: Path) -> None:
    assert groups(plan_of("postgres-tls"), tmp_path / "0") == [("", ["plain", "plain-twin", "tls"])]
    assert groups(plan_of("postgres-tls", "quick", "tls_library=installed,aws-lc"), tmp_path / "1") == [
        ("", ["plain", "plain-twin", "tls"]),
        ("aws-lc", [f"{arm}@tls_library-aws-lc" for arm in ("plain", "plain-twin", "tls")]),
    ]


def test_an_engine_that_is_not_built_is_missed_before_any_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "costof-engine"
    engine.touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(engine))
    with pytest.raises(CostofError, match=r"TLS library aws-lc; `make tls-libraries` builds it"):
        instruments_of(plan_of("redis-tls", "quick", "tls_library=aws-lc"), tmp_path / "run")


@pytest.mark.parametrize(
    ("asked", "runs", "is_it"),
    [
        ("openssl-3.5", {"OpenSSL": "3.5.5"}, True),
        ("openssl-3.5", {"OpenSSL": "3.50.1"}, False),
        ("openssl-3.5", {"OpenSSL": "3.0.19"}, False),
        ("aws-lc", {"AWS-LC": "1.73.0"}, True),
        ("aws-lc", {"OpenSSL": "3.0.19"}, False),
        ("installed", {"OpenSSL": "3.0.19"}, True),
    ],
)
def test_an_engine_must_run_the_library_that_its_arms_ask_for(asked: str, runs: dict[str, str], is_it: bool) -> None:
    arms = plan_of("mongodb-tls", "quick", f"tls_library={asked}").protected
    ready = Ready(instrument="costof-engine", versions=runs, arms=[])
    with nullcontext() if is_it else pytest.raises(CostofError, match="says that it runs OpenSSL 3"):
        _check_library(ready, arms)
