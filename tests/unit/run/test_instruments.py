"""Tests of the plans for instruments and of arms that share an instrument, with fake engines."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, cast

import pytest

from costof.datasets import tpcc
from costof.errors import CostofError
from costof.messages.answers import Ready, ReadyArm, SliceAnswer
from costof.messages.plan import Endpoint, ServiceSettings, Workload
from costof.messages.plan import Plan as InstrumentPlan
from costof.results.ledger import Ledger
from costof.run import instruments as module
from costof.run.instruments import LOAD, Instruments, load_workload
from costof.services import Service
from costof.study.plan import Plan
from tests.fake_run import Slice, answer_of, error_of
from tests.support.small_plans import plan_of

VERSIONS = {"": {"OpenSSL": "3.0.19"}, "aws-lc": {"AWS-LC": "1.73.0"}, "openssl-3.5": {"OpenSSL": "3.5.5"}}


class OneHostService:
    def prefix(self, arm: object) -> list[str]:
        return []

    def refusal_reason(self, arm: object) -> None:
        return None

    def endpoint(self, arm: object) -> Endpoint:
        return Endpoint(service=ServiceSettings(protocol="none", addresses=[]))


class FakeInstrument:
    """An instrument that can measure every arm, and records its plan and its loads."""

    def __init__(self, versions: dict[str, str], failing: bool = False) -> None:
        self.versions, self.failing = versions, failing
        self.loaded: list[tuple[str, int]] = []

    def plan(self, plan: InstrumentPlan) -> Ready:
        self.received = plan
        arms = [ReadyArm(name=arm.name, server="h:1", error=None) for arm in plan.arms]
        return Ready(instrument="costof-engine", versions=self.versions, arms=arms)

    def slice(self, number: int, arm: str, workload: str, operations: int, *_: object) -> SliceAnswer:
        self.loaded.append((workload, operations))
        errors = [error_of("server", "disk full")] if self.failing else []
        return answer_of(Slice(operations, 1.0, {}, {}, {}, errors=errors), workload, arm)


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[FakeInstrument]:
    """Replace the engines by fakes, and return the list of the fakes that the test has started.

    There is a fake for the installed engine, and one for each TLS library.
    """
    started: list[FakeInstrument] = []

    def engine(prefix: object, library: str = "") -> AbstractContextManager[FakeInstrument]:
        started.append(FakeInstrument(VERSIONS[library]))
        return nullcontext(started[-1])

    for library in VERSIONS:
        (tmp_path / f"costof-engine{library and '-'}{library}").touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(tmp_path / "costof-engine"))
    monkeypatch.setattr(module, "engine", engine)
    monkeypatch.setattr(module, "application", lambda *_: nullcontext(FakeInstrument({})))
    return started


def started(plan: Plan, folder: Path, number: int = 0) -> Instruments:
    instruments = Instruments(plan, cast(Service, OneHostService()), Ledger(folder), number)
    with ExitStack() as stack:
        instruments.start(stack)
    return instruments


def sent_workloads(plan: Plan, folder: Path, engines: list[FakeInstrument]) -> dict[str, Workload]:
    started(plan, folder)
    return {each.name: each for each in engines[-1].received.workloads}


def test_plan_for_the_engine_has_a_workload_for_each_number_of_terminals_and_isolation_level(
    tmp_path: Path, engines: list[FakeInstrument]
) -> None:
    settings = ["encrypted=0,20", "terminals=8,16", "isolation=serializable,read-committed"]
    workloads = sent_workloads(plan_of("mysql-column-encryption", "quick", *settings), tmp_path, engines)
    assert workloads.pop(LOAD) == Workload(name=LOAD, kind="tpcc", workers=4, tpcc={"phase": "load", "warehouses": 1})
    assert {each.kind for each in workloads.values()} == {"tpcc"}
    assert {(each.workers, each.tpcc["isolation"]) for each in workloads.values()} == {
        (terminals, isolation) for terminals in (8, 16) for isolation in ("serializable", "read-committed")
    }
    assert all(each.tpcc["phase"] == "run" and not each.tpcc["keying"] for each in workloads.values())


def test_plan_for_the_engine_loads_records_if_the_study_has_no_tpcc(
    tmp_path: Path, engines: list[FakeInstrument]
) -> None:
    workloads = sent_workloads(plan_of("mysql-transport"), tmp_path, engines)
    assert workloads[LOAD] == load_workload() == Workload(name=LOAD, kind="load", workers=4)
    assert workloads["query_1"].tpcc is None


def test_plan_for_the_engine_has_a_workload_for_each_read_share(tmp_path: Path, engines: list[FakeInstrument]) -> None:
    plan = plan_of("mongodb-chained-replication", "quick", "read_share=0,0.5", "nodes=3", "write_concern=1")
    workloads = sent_workloads(plan, tmp_path, engines)
    assert workloads.keys() == {"write", "write read_share 0.5"}
    mixed = workloads["write read_share 0.5"].ycsb
    assert workloads["write"].ycsb == {"phase": "load"}
    assert (mixed["phase"], mixed["insert_proportion"], mixed["read_proportion"]) == ("run", 0.5, 0.5)


def test_plan_for_the_engine_has_a_different_seed_for_each_start_of_the_servers(
    tmp_path: Path, engines: list[FakeInstrument]
) -> None:
    plan = plan_of("mysql-transport")
    for number in range(3):
        started(plan, tmp_path, number)
    assert [each.received.seed for each in engines] == [plan.seed + number for number in range(3)]


@pytest.mark.parametrize(
    ("study", "operations"), [("mysql-column-encryption", tpcc.load_operations(1)), ("mysql-transport", 10_000)]
)
def test_run_loads_all_data_of_the_study_and_fails_if_loading_has_errors(
    study: str, operations: int, tmp_path: Path, engines: list[FakeInstrument]
) -> None:
    plan = plan_of(study)
    instruments = started(plan, tmp_path)
    instruments.load(plan.arms[0])
    assert engines[0].loaded == [(LOAD, operations)]
    engines[0].failing = True
    with pytest.raises(CostofError, match="disk full"):
        instruments.load(plan.arms[0])


def test_arms_with_the_same_tls_library_share_an_engine_process(tmp_path: Path, engines: list[FakeInstrument]) -> None:
    started(plan_of("postgres-tls", "quick", "tls_library=installed,aws-lc"), tmp_path)
    installed, other = ((each.versions, [arm.name for arm in each.received.arms]) for each in engines)
    assert installed == (VERSIONS[""], ["plain", "plain-copy", "tls"])
    arms = [f"{arm}@tls_library-aws-lc" for arm in ("plain", "plain-copy", "tls")]
    assert other == (VERSIONS["aws-lc"], arms)


@pytest.mark.parametrize(
    ("library", "versions"),
    [("openssl-3.5", {"OpenSSL": "3.50.1"}), ("openssl-3.5", {"OpenSSL": "3.0.19"}), ("aws-lc", {"OpenSSL": "3.0.19"})],
)
def test_engine_is_refused_if_its_tls_library_differs_from_the_library_of_its_arms(
    library: str,
    versions: dict[str, str],
    tmp_path: Path,
    engines: list[FakeInstrument],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of("redis-tls", "quick", f"tls_library={library}")
    started(plan, tmp_path)
    monkeypatch.setitem(VERSIONS, library, versions)
    with pytest.raises(CostofError, match="reports the library OpenSSL 3"):
        started(plan, tmp_path)


def test_missing_engine_is_reported_before_any_server_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costof-engine").touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(tmp_path / "costof-engine"))
    nothing = cast(Any, None)
    with pytest.raises(CostofError, match="TLS library aws-lc; run `make tls-libraries`"):
        Instruments(plan_of("redis-tls", "quick", "tls_library=aws-lc"), nothing, nothing)
