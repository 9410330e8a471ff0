"""TPC-C on a real MariaDB: loaded data, effects of the transactions, and the consistency conditions.

All tests share one loaded database, since loading takes longest.
"""

# ruff: noqa: S608  # all names and numbers in the SQL are from this file

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor

from costof.datasets import tpcc
from costof.lab.lab import Lab
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Arm, Plan, Workload
from costof.messages.process import Instrument, engine
from costof.programs.mariadb.lab import DATABASE, MariadbServer
from costof.run.instruments import LOAD_SECONDS
from tests.support.engines import patient_plan
from tests.support.programs import HANGS_SECONDS, eventually, log_in, running_mariadb

#: Not in `make test`, because loading TPC-C's data takes long.
pytestmark = [pytest.mark.servers, pytest.mark.slow]

# With two warehouses, some payments and order lines are for a remote warehouse.
WAREHOUSES = 2
TERMINALS = 8
MANY_TERMINALS = 64
OPERATIONS = 1200
CROWD_OPERATIONS = 600
TRANSACTIONS = ("new_order", "payment", "order_status", "delivery", "stock_level")
LOADED_ORDERS = 3000


def workload(name: str, workers: int, **settings: Any) -> Workload:
    return Workload(name=name, kind="tpcc", workers=workers, tpcc={"warehouses": WAREHOUSES, **settings})


WORKLOADS = [
    workload("load", 4, phase="load"),
    workload("run", TERMINALS),
    workload("crowd", MANY_TERMINALS),
    workload("keying", 10, keying=True),
]


@dataclass
class Database:
    """A database with TPC-C's data. `slice` runs a workload in the engine; `ask` queries over a separate connection."""

    server: MariadbServer
    wire: Instrument
    connection: pymysql.Connection[Cursor]

    def slice(self, workload: str, operations: int, seconds: float = HANGS_SECONDS) -> SliceAnswer:
        answer = self.wire.slice(1, "arm", workload, operations, seconds)
        assert not answer.errors, answer.errors
        return answer

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def number(self, statement: str) -> int:
        return int(self.ask(statement)[0][0])

    def broken(self) -> list[str]:
        with self.connection.cursor() as cursor:
            return tpcc.violations(cursor) + tpcc.orphans(cursor)


def committed(answer: SliceAnswer) -> dict[str, int]:
    return {name: answer.counts[f"tpcc.committed.{name}"] for name in TRANSACTIONS}


def status(server: MariadbServer, name: str) -> int:
    return int(server.status(name)[name])


def plan(server: MariadbServer, workloads: Sequence[Workload] = WORKLOADS) -> Plan:
    return patient_plan([Arm(name="arm", service=server.client_settings())], workloads, threads=2)


@pytest.fixture(scope="module")
def server() -> Iterator[MariadbServer]:
    with Lab() as lab, running_mariadb(lab) as server:
        yield server


@pytest.fixture(scope="module")
def database(server: MariadbServer) -> Iterator[Database]:
    with log_in(server) as connection, engine() as wire:
        connection.autocommit(True)
        wire.plan(plan(server))
        made = Database(server, wire, connection)
        for statement in tpcc.create_tables(DATABASE):
            made.ask(statement)
        answer = made.slice("load", tpcc.load_operations(WAREHOUSES), LOAD_SECONDS)
        assert answer.operations == tpcc.load_operations(WAREHOUSES)
        assert answer.counts == {}
        for statement in tpcc.after_load(DATABASE):
            made.ask(statement)
        # Copy the loaded stock, to find the changes by transactions.
        made.ask("CREATE TABLE loaded_stock AS SELECT s_w_id, s_i_id, s_quantity FROM stock")
        made.ask("ALTER TABLE loaded_stock ADD PRIMARY KEY (s_w_id, s_i_id)")
        yield made


def test_loaded_data_satisfies_clause_4_3_of_tpcc(database: Database) -> None:
    assert database.broken() == []
    districts = 10 * WAREHOUSES
    expected = {"warehouse": WAREHOUSES, "district": districts, "customer": 3000 * districts, "item": 100_000}
    expected |= {"history": 3000 * districts, "orders": 3000 * districts, "new_order": 900 * districts}
    expected |= {"stock": 100_000 * WAREHOUSES}
    assert {table: database.number(f"SELECT COUNT(*) FROM {table}") for table in expected} == expected
    assert set(tpcc.TABLES) == {*expected, "order_line"}
    assert database.ask("SELECT COUNT(DISTINCT o_w_id, o_d_id, o_c_id) FROM orders") == [(3000 * districts,)]


def test_load_phase_inserts_nothing_if_all_tpcc_data_is_loaded(database: Database) -> None:
    answer = database.wire.slice(1, "arm", "load", 0, 5)
    assert (answer.operations, answer.errors) == (0, [])


@pytest.fixture(scope="module")
def after_a_run(database: Database) -> tuple[Database, SliceAnswer]:
    """Run transactions of eight terminals at the default isolation level. Return the database and the `SliceAnswer`."""
    return database, database.slice("run", OPERATIONS)


def test_all_five_transactions_satisfy_the_consistency_conditions(after_a_run: tuple[Database, SliceAnswer]) -> None:
    database, answer = after_a_run
    done, rolled_back = committed(answer), answer.counts["tpcc.rolled_back"]
    assert all(done.values())
    assert rolled_back > 0
    assert answer.count("tpcc.committed") == sum(done.values()) == OPERATIONS - rolled_back
    assert answer.operations == OPERATIONS
    assert answer.counts["tpcc.statements"] > 5 * OPERATIONS
    done["new_order"] += rolled_back
    assert {name: answer.phases[name].count for name in TRANSACTIONS} == done
    assert answer.phases["operation"].count == OPERATIONS
    # A terminal draws its transactions from decks with the exact mix, so only the last, incomplete deck deviates.
    for name, share in (("new_order", 45), ("payment", 43), ("delivery", 4)):
        assert abs(done[name] - OPERATIONS * share / 100) < TERMINALS * 45
    assert database.broken() == []


def test_database_contains_exactly_the_transactions_that_the_engine_counted_as_committed(
    after_a_run: tuple[Database, SliceAnswer],
) -> None:
    database, answer = after_a_run
    done = committed(answer)
    assert database.number(f"SELECT COUNT(*) FROM orders WHERE o_id > {LOADED_ORDERS}") == done["new_order"]
    assert database.number("SELECT SUM(d_next_o_id - 3001) FROM district") == done["new_order"]
    assert database.number("SELECT COUNT(*) FROM history") - 30_000 * WAREHOUSES == done["payment"]
    assert database.number("SELECT SUM(c_payment_cnt - 1) FROM customer") == done["payment"]
    assert database.number("SELECT SUM(c_delivery_cnt) FROM customer") == 10 * done["delivery"]


def test_new_orders_are_stored_according_to_clause_2_4_2_2(after_a_run: tuple[Database, SliceAnswer]) -> None:
    database, _ = after_a_run
    lines = (
        "order_line JOIN item ON i_id = ol_i_id JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id "
        f"WHERE ol_o_id > {LOADED_ORDERS}"
    )
    assert database.number(f"SELECT COUNT(*) FROM {lines} AND ol_supply_w_id <> ol_w_id") > 0
    assert database.ask(f"SELECT * FROM {lines} AND ol_amount <> ol_quantity * i_price") == []
    dist = "ELT(ol_d_id, " + ", ".join(f"s_dist_{district:02}" for district in range(1, 11)) + ")"
    assert database.ask(f"SELECT * FROM {lines} AND ol_dist_info <> {dist}") == []
    sold = (
        "stock JOIN loaded_stock USING (s_w_id, s_i_id) LEFT JOIN (SELECT ol_supply_w_id, ol_i_id, "
        "SUM(ol_quantity) AS quantity, COUNT(*) AS times, SUM(ol_supply_w_id <> ol_w_id) AS remote FROM order_line "
        f"WHERE ol_o_id > {LOADED_ORDERS} GROUP BY ol_supply_w_id, ol_i_id) AS sold "
        "ON ol_supply_w_id = s_w_id AND ol_i_id = s_i_id"
    )
    wrong = (
        "s_ytd <> COALESCE(quantity, 0) OR s_order_cnt <> COALESCE(times, 0) OR s_remote_cnt <> COALESCE(remote, 0) "
        "OR (loaded_stock.s_quantity - COALESCE(quantity, 0) - stock.s_quantity) % 91 <> 0 OR stock.s_quantity < 10"
    )
    assert database.ask(f"SELECT * FROM {sold} WHERE {wrong}") == []
    assert database.number(f"SELECT COUNT(*) FROM {sold} WHERE stock.s_quantity > loaded_stock.s_quantity") > 0
    local = (
        "(SELECT MIN(ol_supply_w_id = ol_w_id) FROM order_line "
        "WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)"
    )
    assert database.ask(f"SELECT * FROM orders WHERE o_id > {LOADED_ORDERS} AND o_all_local <> {local}") == []


def test_payments_are_stored_according_to_clause_2_5_2_2(after_a_run: tuple[Database, SliceAnswer]) -> None:
    database, _ = after_a_run
    payments = (
        "history JOIN warehouse ON w_id = h_w_id JOIN district ON d_w_id = h_w_id AND d_id = h_d_id "
        "WHERE h_amount <> 10"
    )
    assert database.number(f"SELECT COUNT(*) FROM {payments} AND h_c_w_id <> h_w_id") > 0
    assert database.ask(f"SELECT * FROM {payments} AND h_data <> CONCAT(w_name, '    ', d_name)") == []
    paid = "customer WHERE c_payment_cnt > 1"
    has_ids = "c_data LIKE CONCAT(c_id, ' ', c_d_id, ' ', c_w_id, ' %')"
    assert database.number(f"SELECT COUNT(*) FROM {paid} AND c_credit = 'BC' AND {has_ids}") > 0
    assert database.ask(f"SELECT * FROM {paid} AND {has_ids} <> (c_credit = 'BC')") == []
    assert database.ask(f"SELECT * FROM {paid} AND LENGTH(c_data) > 500") == []


BROKEN = {
    1: "UPDATE district SET d_ytd = d_ytd + 0.01 WHERE d_w_id = 1 AND d_id = 3",
    2: "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 3",
    3: "UPDATE new_order SET no_o_id = 1 WHERE no_w_id = 1 AND no_d_id = 3 ORDER BY no_o_id LIMIT 1",
    4: "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 7",
    5: "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 7",
    6: "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_w_id = 1 AND o_d_id = 3 AND o_id = 7",
    7: "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 3 AND ol_o_id = 7 AND ol_number = 2",
    8: "UPDATE warehouse SET w_ytd = w_ytd - 0.01 WHERE w_id = 1",
    9: "UPDATE history SET h_amount = h_amount + 0.01 WHERE h_w_id = 1 AND h_d_id = 3 LIMIT 1",
    10: "UPDATE customer SET c_balance = c_balance + 0.01 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
    11: "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 ORDER BY no_o_id LIMIT 1",
    12: "UPDATE customer SET c_ytd_payment = c_ytd_payment - 0.01 WHERE c_w_id = 1 AND c_d_id = 3 AND c_id = 7",
}


def test_inconsistent_and_orphaned_rows_are_detected(after_a_run: tuple[Database, SliceAnswer]) -> None:
    database, _ = after_a_run
    assert BROKEN.keys() == tpcc.CONSISTENCY.keys()
    with log_in(database.server) as connection, connection.cursor() as cursor:
        for number, statement in BROKEN.items():
            assert cursor.execute(statement) == 1
            (violation,) = tpcc.violations(cursor, [number])
            condition = tpcc.CONSISTENCY[number][0]
            expected = f"condition {number} (clause 3.3.2.{number}), '{condition}', is violated by (1, "
            assert violation.startswith(expected)
            connection.rollback()
        cursor.execute("DELETE FROM item WHERE i_id = 77")
        assert tpcc.orphans(cursor) == ["stock (s_i_id) has (77), which item does not have"]
        connection.rollback()


def test_deadlocks_are_counted_and_retried(database: Database) -> None:
    deadlocks = 0
    while not deadlocks:
        answer = database.slice("crowd", CROWD_OPERATIONS)
        assert sum(committed(answer).values()) + answer.counts["tpcc.rolled_back"] == CROWD_OPERATIONS
        deadlocks = answer.counts["tpcc.deadlocks"]
    assert database.broken() == []


def test_transaction_is_retried_after_a_lock_timeout(database: Database) -> None:
    server = database.server
    server._query("SET GLOBAL innodb_lock_wait_timeout = 1")
    answers: list[SliceAnswer] = []
    with engine() as wire, log_in(server) as holder, holder.cursor() as cursor:
        wire.plan(plan(server))
        cursor.execute("SELECT COUNT(*) FROM customer WHERE c_id <> 0 FOR UPDATE")
        waited = status(server, "Innodb_row_lock_time")
        run = threading.Thread(target=lambda: answers.append(wire.slice(1, "arm", "run", 50, HANGS_SECONDS)))
        run.start()
        eventually("a wait", lambda: status(server, "Innodb_row_lock_current_waits") > 0)
        isolation: set[tuple[Any, ...]] = set()

        def shows_a_wait() -> bool:
            # MariaDB refreshes the content of innodb_trx only if no query has read it for 0.1 s.
            time.sleep(0.2)
            isolation.update(
                server._query(
                    "SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
                )
            )
            return bool(isolation)

        # Retry, because at times no terminal is waiting for a lock.
        eventually("a wait in the table", shows_a_wait)
        assert isolation == {("SERIALIZABLE",)}
        # The counter is in ms and contains only ended waits, so a wait has timed out after about 1 s.
        eventually("its end", lambda: status(server, "Innodb_row_lock_time") > waited + 900)
        holder.rollback()
        run.join()
    server._query("SET GLOBAL innodb_lock_wait_timeout = DEFAULT")
    (answer,) = answers
    assert (answer.errors, answer.operations) == ([], 50)
    assert answer.counts["tpcc.lock_timeouts"] > 0


def test_terminals_wait_for_keying_and_think_times(database: Database) -> None:
    """The keying time is how long a user types a transaction's input (TPC-C, clause 5.2.5.2): 18 s for a New-Order.

    For other transactions it is 2 or 3 s. This slice takes 3.5 s, so no New-Order ends in it.
    """
    others = 0
    # Repeat the slice if a slow machine completes nothing in the second after the keying time.
    while not others:
        answer = database.wire.slice(1, "arm", "keying", 1000, 3.5)
        # A transaction is abandoned if it does not end within a second after the slice.
        assert {error.error_class for error in answer.errors} <= {"abandoned"}
        assert answer.counts["tpcc.committed.new_order"] == answer.counts["tpcc.rolled_back"] == 0
        others = answer.count("tpcc.committed") or 0
    assert others <= 10
