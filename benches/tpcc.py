"""Comparison of the engine with go-tpc in TPC-C: one MariaDB, the same isolation level, and separate data for each.

The two clients are measured alternately; the table shows medians. Both use prepared statements and do not pause between
transactions. After a deadlock the engine retries the transaction. go-tpc gives up and counts an error; this benchmark
counts only go-tpc's successful transactions.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from benches.go_program import GO_TPC
from benches.table import OURS, Usage, alternate, print_table
from costof.datasets import tpcc
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.messages.plan import Arm, Plan, Workload
from costof.messages.process import Instrument, engine
from costof.programs.mariadb.lab import DATABASE, USER, MariadbServer
from costof.run.instruments import load_workload

TURNS = 5
SECONDS = 10
TERMINALS = 8
WAREHOUSES = 1
THEIR_DATABASE = f"{DATABASE}_gotpc"
#: The number that go-tpc's option --isolation takes for SERIALIZABLE, from Go's database/sql.
SERIALIZABLE = 6


@dataclass(frozen=True)
class Bench:
    lab: Lab
    server: MariadbServer
    wire: Instrument
    their_program: Path

    def engine(self) -> Usage:
        before = self._server_seconds()
        answer = self.wire.slice(1, "arm", "run", 10**9, SECONDS)
        used = self._server_seconds() - before
        return Usage.from_slice(answer, used)

    def go_tpc(self) -> Usage:
        before, server = resource.getrusage(resource.RUSAGE_CHILDREN), self._server_seconds()
        # Without --ignore-error, each of go-tpc's threads ends at its first deadlock.
        output = self.run_go_tpc("run", f"--threads={TERMINALS}", f"--time={SECONDS}s", "--ignore-error", "--silence")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = self._server_seconds() - server
        summary = re.findall(r"^\[Summary\] (\w+) +- Takes\(s\): ([\d.]+), Count: (\d+),", output, re.MULTILINE)
        done = [(float(seconds), int(count)) for name, seconds, count in summary if not name.endswith("_ERR")]
        assert done, output
        seconds, count = max(each[0] for each in done), sum(each[1] for each in done)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Usage.from_totals(count, seconds, cpu, used)

    def run_go_tpc(self, action: str, *options: str) -> str:
        argv = [str(self.their_program), "tpcc", action, f"--host={self.server.address}", f"--port={self.server.port}"]
        argv += [f"--user={USER}", f"--password={self.server.password.get_secret_value()}", f"--db={THEIR_DATABASE}"]
        argv += [f"--warehouses={WAREHOUSES}", f"--isolation={SERIALIZABLE}", *options]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"go-tpc: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
        return done.stdout

    def load(self) -> None:
        """Load the data of both clients, and update the server's statistics of their tables."""
        with closing(self._log_in()) as connection, connection.cursor() as cursor:
            for statement in tpcc.create_tables(DATABASE):
                cursor.execute(statement)
            answer = self.wire.slice(1, "arm", "load", tpcc.load_operations(WAREHOUSES), 600)
            assert not answer.errors, answer.errors
            sys.stdout.write(f"one warehouse loaded in {answer.elapsed_ns / 1e9:.1f} s\n")
            self.run_go_tpc("prepare", "--threads=4", "--no-check")
            for database in (DATABASE, THEIR_DATABASE):
                for statement in tpcc.after_load(database):
                    cursor.execute(statement)

    def check(self) -> None:
        """Assert the consistency conditions of TPC-C."""
        with closing(self._log_in()) as connection, connection.cursor() as cursor:
            violated = tpcc.violations(cursor)
        assert not violated, violated

    def _log_in(self) -> pymysql.Connection[Any]:
        server = self.server
        return pymysql.connect(
            host=server.address,
            port=server.port,
            user=USER,
            password=server.password.get_secret_value(),
            database=DATABASE,
        )

    def _server_seconds(self) -> float:
        return self.lab.cpu_seconds()["server"]


def main() -> None:
    their_program = GO_TPC.path()
    if their_program is None:
        return
    with _bench(their_program) as bench:
        bench.load()
        conditions = f"serializable, {WAREHOUSES} warehouse, {TERMINALS} terminals"
        measured = alternate(conditions, {OURS: bench.engine, "go-tpc": bench.go_tpc}, TURNS)
        bench.check()
    print_table("MariaDB: TPC-C's transactions", [measured])


@contextmanager
def _bench(their_program: Path) -> Iterator[Bench]:
    with Lab() as lab:
        server = MariadbServer(lab, Authority(lab.folder / "certificates"), [lab.address(1)])
        with closing(server), engine() as wire:
            server.start()
            server._query(f"CREATE DATABASE {THEIR_DATABASE}")
            server._query(f"GRANT ALL ON {THEIR_DATABASE}.* TO {USER}")
            arm = Arm(name="arm", service=server.client_settings())
            run = Workload(name="run", kind="tpcc", workers=TERMINALS, tpcc={"warehouses": WAREHOUSES})
            wire.plan(Plan(threads=2, arms=[arm], workloads=[load_workload(WAREHOUSES), run]))
            yield Bench(lab, server, wire, their_program)
