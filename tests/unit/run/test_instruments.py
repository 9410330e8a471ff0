"""What instruments are told of a study's workloads and data, and which arms share one; stand-ins answer for engines."""

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


class Somewhere:
    """Stands for a service whose clients are all in one place."""

    def prefix(self, arm: object) -> list[str]:
        return []

    def refusal_reason(self, arm: object) -> None:
        return None

    def endpoint(self, arm: object) -> Endpoint:
        return Endpoint(service=ServiceSettings(protocol="none", addresses=[]))


class StandIn:
    """An instrument that can measure every arm: what it was told, and what it was asked to load."""

    def __init__(self, versions: dict[str, str], failing: bool = False) -> None:
        self.versions, self.failing = versions, failing
        self.loaded: list[tuple[str, int]] = []

    def plan(self, plan: InstrumentPlan) -> Ready:
        self.told = plan
        arms = [ReadyArm(name=arm.name, server="h:1", error=None) for arm in plan.arms]
        return Ready(instrument="costof-engine", versions=self.versions, arms=arms)

    def slice(self, number: int, arm: str, workload: str, operations: int, *_: object) -> SliceAnswer:
        self.loaded.append((workload, operations))
        errors = [error_of("server", "disk full")] if self.failing else []
        return answer_of(Slice(operations, 1.0, {}, {}, {}, errors=errors), workload, arm)


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[StandIn]:
    """Those that are started, the installed one and one of each library."""
    started: list[StandIn] = []

    def engine(prefix: object, library: str = "") -> AbstractContextManager[StandIn]:
        started.append(StandIn(VERSIONS[library]))
        return nullcontext(started[-1])

    for library in VERSIONS:
        (tmp_path / f"costof-engine{library and '-'}{library}").touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(tmp_path / "costof-engine"))
    monkeypatch.setattr(module, "engine", engine)
    monkeypatch.setattr(module, "application", lambda *_: nullcontext(StandIn({})))
    return started


def started(plan: Plan, folder: Path, number: int = 0) -> Instruments:
    found = Instruments(plan, cast(Service, Somewhere()), Ledger(folder), number)
    with ExitStack() as stack:
        found.start(stack)
    return found


def told(plan: Plan, folder: Path, engines: list[StandIn]) -> dict[str, Workload]:
    started(plan, folder)
    return {each.name: each for each in engines[-1].told.workloads}


def test_transactions_go_to_the_engine_with_their_terminals_and_isolation(
    tmp_path: Path, engines: list[StandIn]
) -> None:
    settings = ["encrypted=0,20", "terminals=8,16", "isolation=serializable,read-committed"]
    found = told(plan_of("mysql-column-encryption", "quick", *settings), tmp_path, engines)
    assert found.pop(LOAD) == Workload(name=LOAD, kind="tpcc", workers=4, tpcc={"phase": "load", "warehouses": 1})
    assert {each.kind for each in found.values()} == {"tpcc"}
    assert {(each.workers, each.tpcc["isolation"]) for each in found.values()} == {
        (terminals, isolation) for terminals in (8, 16) for isolation in ("serializable", "read-committed")
    }
    assert all(each.tpcc["phase"] == "run" and not each.tpcc["keying"] for each in found.values())


def test_other_studies_load_records(tmp_path: Path, engines: list[StandIn]) -> None:
    found = told(plan_of("mysql-transport"), tmp_path, engines)
    assert found[LOAD] == load_workload() == Workload(name=LOAD, kind="load", workers=4)
    assert found["query_1"].tpcc is None


def test_each_share_of_reads_is_a_workload_of_its_own_for_the_engine(tmp_path: Path, engines: list[StandIn]) -> None:
    plan = plan_of("mongodb-chained-replication", "quick", "read_share=0,0.5", "nodes=3", "write_concern=1")
    found = told(plan, tmp_path, engines)
    assert found.keys() == {"write", "write read_share 0.5"}
    mixed = found["write read_share 0.5"].ycsb
    assert found["write"].ycsb == {"phase": "load"}
    assert (mixed["phase"], mixed["insert_proportion"], mixed["read_proportion"]) == ("run", 0.5, 0.5)


def test_each_start_of_the_servers_draws_anew_what_instruments_draw(tmp_path: Path, engines: list[StandIn]) -> None:
    plan = plan_of("mysql-transport")
    for number in range(3):
        started(plan, tmp_path, number)
    assert [each.told.seed for each in engines] == [plan.seed + number for number in range(3)]


@pytest.mark.parametrize(
    ("study", "operations"), [("mysql-column-encryption", tpcc.load_operations(1)), ("mysql-transport", 10_000)]
)
def test_all_of_the_data_is_loaded_or_the_run_ends(
    study: str, operations: int, tmp_path: Path, engines: list[StandIn]
) -> None:
    plan = plan_of(study)
    found = started(plan, tmp_path)
    found.load(plan.arms[0])
    assert engines[0].loaded == [(LOAD, operations)]
    engines[0].failing = True
    with pytest.raises(CostofError, match="disk full"):
        found.load(plan.arms[0])


def test_all_arms_of_one_library_share_an_engine_their_control_among_them(
    tmp_path: Path, engines: list[StandIn]
) -> None:
    started(plan_of("postgres-tls", "quick", "tls_library=installed,aws-lc"), tmp_path)
    installed, other = ((each.versions, [arm.name for arm in each.told.arms]) for each in engines)
    assert installed == (VERSIONS[""], ["plain", "plain-copy", "tls"])
    arms = [f"{arm}@tls_library-aws-lc" for arm in ("plain", "plain-copy", "tls")]
    assert other == (VERSIONS["aws-lc"], arms)


@pytest.mark.parametrize(
    ("asked", "runs"),
    [("openssl-3.5", {"OpenSSL": "3.50.1"}), ("openssl-3.5", {"OpenSSL": "3.0.19"}), ("aws-lc", {"OpenSSL": "3.0.19"})],
)
def test_an_engine_must_run_the_library_that_its_arms_ask_for(
    asked: str, runs: dict[str, str], tmp_path: Path, engines: list[StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of("redis-tls", "quick", f"tls_library={asked}")
    started(plan, tmp_path)
    monkeypatch.setitem(VERSIONS, asked, runs)
    with pytest.raises(CostofError, match="says that it runs OpenSSL 3"):
        started(plan, tmp_path)


def test_an_engine_that_is_not_built_is_missed_before_any_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "costof-engine").touch(mode=0o755)
    monkeypatch.setenv("COSTOF_ENGINE", str(tmp_path / "costof-engine"))
    nothing = cast(Any, None)
    with pytest.raises(CostofError, match=r"TLS library aws-lc; `make tls-libraries` builds it"):
        Instruments(plan_of("redis-tls", "quick", "tls_library=aws-lc"), nothing, nothing)
