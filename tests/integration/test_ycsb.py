"""YCSB's core workloads on real servers: the table's content afterwards, and the requested operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import pymongo
import pytest
from pymongo.errors import AutoReconnect

from costof.datasets.ycsb import key_name
from costof.lab.lab import Lab
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Arm, ServiceSettings, Workload
from costof.messages.process import engine
from costof.programs.mariadb.lab import DATABASE as MARIADB_DATABASE
from costof.services.server.lab import ServerLab
from tests.support.engines import patient_plan, slices_until_met
from tests.support.programs import HANGS_SECONDS, eventually, log_in, running_mariadb
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

RECORDS = 200
#: The number of operations in each slice that runs while the primary steps down.
STEPPED = 1000
Rows = dict[str, dict[str, bytes]]


@dataclass
class Store:
    """A real server. `make` creates an empty table with a name and a number of fields; `rows` returns its content."""

    make: Callable[[str, int], ServiceSettings]
    rows: Callable[[str], Rows]


@pytest.fixture(scope="module")
def replica_set() -> Iterator[ServerLab]:
    plan = plan_of("mongodb-tls", "quick", "transport=plain")
    with ServerLab(plan) as lab:
        yield lab


def mongodb(lab: ServerLab) -> Store:
    def make(table: str, _fields: int) -> ServiceSettings:
        service = lab.server.client_settings()
        return service.model_copy(update={"collection": table, "read_preference": "primary"})

    def rows(table: str) -> Rows:
        found = lab.server.set.admin("primary").ycsb[table].find()
        return {row.pop("_id"): {name.upper(): bytes(value) for name, value in row.items()} for row in found}

    return Store(make, rows)


#: MongoDB is slow; in `make test` only `test_ycsb_command.py` tests it.
@pytest.fixture(scope="module", params=[pytest.param("mongodb", marks=pytest.mark.slow), "mysql"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    with ExitStack() as stack:
        if request.param == "mongodb":
            yield mongodb(request.getfixturevalue("replica_set"))
            return
        server = stack.enter_context(running_mariadb(stack.enter_context(Lab())))

        def make(table: str, fields: int) -> ServiceSettings:
            columns = ", ".join(f"FIELD{field} TEXT" for field in range(fields))
            server._query(f"CREATE TABLE {MARIADB_DATABASE}.{table} (YCSB_KEY VARCHAR(255) PRIMARY KEY, {columns})")
            return server.client_settings().model_copy(update={"table": table})

        def rows(table: str) -> Rows:
            with log_in(server) as connection, connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM {table}")  # noqa: S608  # the test's own names
                names = [column[0] for column in cursor.description][1:]
                return {key: dict(zip(names, map(str.encode, values), strict=True)) for key, *values in cursor}

        yield Store(make, rows)


def measure(
    services: Sequence[ServiceSettings], slices: Sequence[tuple[int, int, dict[str, Any]]], workers: int = 4
) -> list[SliceAnswer]:
    """Measure slices one after the other in one engine, and return their answers.

    `slices` has a tuple for each slice: the index of a service, a number of operations, and settings of YCSB.
    """
    arms = [Arm(name=str(place), service=service) for place, service in enumerate(services)]
    workloads = [
        Workload(name=str(place), kind="ycsb", workers=workers, ycsb=settings)
        for place, (_, _, settings) in enumerate(slices)
    ]
    with engine() as wire:
        assert [arm.error for arm in wire.plan(patient_plan(arms, workloads, seed=7, threads=2)).arms] == [None] * len(
            arms
        )
        return [
            wire.slice(place, str(arm), str(place), operations, HANGS_SECONDS)
            for place, (arm, operations, _) in enumerate(slices)
        ]


def load(**settings: Any) -> dict[str, Any]:
    return {"phase": "load", "record_count": RECORDS, **settings}


def counts(answer: SliceAnswer) -> dict[str, int]:
    return {name: phase.count for name, phase in answer.phases.items()}


def test_load_phase_writes_the_same_records_as_the_original_ycsb(store: Store) -> None:
    for order in ("hashed", "ordered"):
        table = f"load_{order}"
        [answer] = measure([store.make(table, 10)], [(0, RECORDS, load(insert_order=order, zero_padding=6))])
        assert (answer.errors, answer.operations) == ([], RECORDS)
        assert counts(answer) == {"insert": RECORDS, "operation": RECORDS}
        rows = store.rows(table)
        keys = [key_name(n) if order == "hashed" else f"user{n:06d}" for n in range(RECORDS)]
        assert sorted(rows) == sorted(keys)
        for fields in rows.values():
            assert list(fields) == [f"FIELD{field}" for field in range(10)]
            assert {len(value) for value in fields.values()} == {100}


#: The workloads A to F of YCSB, except that A writes all fields of a record and not one, and B reads one and not all.
CORE = {
    "a": {
        "read_proportion": 0.5,
        "update_proportion": 0.5,
        "request_distribution": "zipfian",
        "write_all_fields": True,
    },
    "b": {
        "read_proportion": 0.95,
        "update_proportion": 0.05,
        "request_distribution": "zipfian",
        "read_all_fields": False,
    },
    "c": {"read_proportion": 1.0, "update_proportion": 0.0, "request_distribution": "zipfian"},
    "d": {"update_proportion": 0.0, "insert_proportion": 0.05, "request_distribution": "latest"},
    "e": {
        "read_proportion": 0.0,
        "update_proportion": 0.0,
        "scan_proportion": 0.95,
        "insert_proportion": 0.05,
        "max_scan_length": 250,
        "operation_count": 300,
        "request_distribution": "zipfian",
    },
    "f": {
        "read_proportion": 0.5,
        "update_proportion": 0.0,
        "read_modify_write_proportion": 0.5,
        "request_distribution": "zipfian",
    },
}


def test_all_operations_of_the_core_workloads_succeed_and_no_record_is_inserted_twice(store: Store) -> None:
    """The workloads A to F run in the order that YCSB recommends, since D and E insert records."""
    table, operations = "core", 300
    runs = [(0, operations, {"record_count": RECORDS, **settings}) for settings in CORE.values()]
    loaded, *answers = measure([store.make(table, 10)], [(0, RECORDS, load()), *runs])
    assert loaded.errors == []
    for name, answer in zip(CORE, answers, strict=True):
        assert (answer.errors, answer.operations) == ([], operations), name
        assert counts(answer)["operation"] == operations
    inserted = sum(counts(answer).get("insert", 0) for answer in answers)
    assert sorted(store.rows(table)) == sorted(key_name(n) for n in range(RECORDS + inserted))


def test_failed_operations_are_counted_by_kind_of_operation(store: Store) -> None:
    service, small = store.make("kinds", 1), {"phase": "load", "record_count": 200, "field_count": 1}
    [loaded] = measure([service], [(0, 200, small)])
    [again] = measure([service], [(0, 20, small)])
    assert (loaded.errors, again.operations) == ([], 0)
    assert [(error.error_class, error.count) for error in again.errors] == [("server", 20)]
    # The table has twice `record_count` records, so the engine inserts keys that exist, and inserts fail.
    mixed = {"record_count": 100, "field_count": 1, "read_proportion": 0.5, "insert_proportion": 0.5}
    [answer] = measure([service], [(0, 60, {**mixed, "update_proportion": 0.0})])
    [error] = answer.errors
    assert (error.error_class, error.phase) == ("server", "insert")
    assert 0 < error.count == 60 - counts(answer)["read"]


@pytest.mark.slow
def test_write_concern_that_the_replica_set_cannot_satisfy_is_an_error(replica_set: ServerLab) -> None:
    service = mongodb(replica_set).make("concern", 1)
    few = load(field_count=1)
    met, unmet = measure(
        [service.model_copy(update={"write_concern": members}) for members in (3, 4)], [(0, 8, few), (1, 8, few)]
    )
    assert (met.errors, met.operations) == ([], 8)
    [error] = unmet.errors
    assert (error.error_class, error.count, unmet.operations) == ("server", 8, 0)
    assert "Not enough data-bearing nodes" in error.detail


@pytest.mark.slow
def test_reads_go_to_a_secondary_and_writes_to_the_primary(replica_set: ServerLab) -> None:
    service = (
        mongodb(replica_set).make("apart", 10).model_copy(update={"read_preference": "secondary", "write_concern": 3})
    )
    run = {"record_count": RECORDS, **CORE["f"]}
    loaded, answer = measure([service], [(0, RECORDS, load()), (0, 200, run)])
    assert (loaded.errors, answer.errors, answer.operations) == ([], [], 200)
    assert sorted(answer.evidence["server"].split(",")) == sorted(service.addresses)


@pytest.mark.slow
def test_run_continues_after_the_primary_steps_down(replica_set: ServerLab) -> None:
    service = mongodb(replica_set).make("stepped", 10).model_copy(update={"write_concern": "majority"})
    primary = replica_set.server.set.admin("primary")
    loading = Workload(name="load", kind="ycsb", workers=4, ycsb={"phase": "load", "record_count": 100_000})
    answers: list[SliceAnswer] = []

    def step_down() -> None:
        eventually("a load", lambda: primary.ycsb.stepped.estimated_document_count() >= 50)
        with suppress(AutoReconnect):
            primary.admin.command("replSetStepDown", 2 * HANGS_SECONDS, secondaryCatchUpPeriodSecs=HANGS_SECONDS)

    with engine() as wire:
        (ready,) = wire.plan(patient_plan([Arm(name="arm", service=service)], [loading], seed=7, threads=2)).arms
        assert ready.error is None

        def load_more() -> SliceAnswer:
            answers.append(wire.slice(len(answers), "arm", "load", STEPPED, HANGS_SECONDS))
            failed = sum(error.count for error in answers[-1].errors)
            assert answers[-1].operations + failed == STEPPED
            return answers[-1]

        slices_until_met(step_down, load_more)
        eventually("a load of another primary", lambda: not load_more().errors)
    servers = {server for answer in answers for server in answer.evidence["server"].split(",")}
    assert servers == set(service.addresses)
    uri = "mongodb://" + ",".join(service.addresses)
    login = {"username": service.username, "password": service.password.get_secret_value()}
    with pymongo.MongoClient[dict[str, Any]](uri, replicaSet=service.replica_set, **login) as client:
        assert client.ycsb.stepped.count_documents({}) >= sum(answer.operations for answer in answers)
