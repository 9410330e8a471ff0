"""Comparison of the engine with pgbench: prepared selects on 1 and 32 connections, and new connections with a select.

Both programs read the same table of the same PostgreSQL from the same host of the lab, alternately. The table shows
medians. `pgbench --connect` opens its connections one after the other, as does the engine's workload `connect`. Both
programs prepare the first query of a connection.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from functools import partial

from benches.peers import SECONDS, UNBOUNDED, WORKERS, Bench, running_benches
from benches.table import Measured, Usage, print_table
from costof.errors import CostofError
from costof.programs.postgres.lab import PostgresServer
from costof.programs.postgres.versions import find_postgres

#: Both clients read keys from 1 to this number.
RECORDS = 100_000
CONNECTIONS = 200
SCRIPT = f"\\set aid random(1, {RECORDS})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"


class PostgresBench(Bench):
    def pgbench(self, clients: int, *options: str) -> Usage:
        service, host, port, ca_file = self.target()
        secure = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": ca_file} if ca_file else {"PGSSLMODE": "disable"}
        variables = {
            "PGPASSWORD": service["password"],
            "PGGSSENCMODE": "disable",
            "PGCHANNELBINDING": "disable",
            **secure,
        }
        argv = ["env", *(f"{name}={value}" for name, value in variables.items())]
        argv += [str(find_postgres().with_name("pgbench")), "--no-vacuum", "--protocol=prepared", *options]
        argv += [f"--client={clients}", f"--host={host}", f"--port={port}", f"--username={service['username']}"]
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            # Use a script that reads `RECORDS` keys, as the engine does. pgbench's built-in script would read 100,000
            # keys for each branch (pgbench's unit of scale) in the lab's data.
            script.write(SCRIPT)
            script.flush()
            return self.program([*argv, f"--file={script.name}", service["database"]], _read)


def _read(text: str) -> tuple[int, float]:
    found = re.search(r"actually processed: (\d+).*tps = ([\d.]+)", text, re.DOTALL)
    assert found, text
    return int(found[1]), int(found[1]) / float(found[2])


def main() -> None:
    try:
        find_postgres()
    except CostofError as error:
        sys.stdout.write(f"PostgreSQL: skipped ({error})\n")
        return
    if os.geteuid() != 0:
        sys.stdout.write("PostgreSQL: skipped (the lab needs root)\n")
        return
    with running_benches(PostgresBench, "postgres-tls", PostgresServer, RECORDS) as arms:
        measured = [each for arm in arms for each in _measure_arm(arm)]
    print_table("PostgreSQL: connections with a query each, and select-only, prepared", measured)


def _measure_arm(bench: PostgresBench) -> list[Measured]:
    connecting = partial(bench.pgbench, 1, "--connect", f"--transactions={CONNECTIONS}")
    return [
        bench.alternate("connect and query", "connect", CONNECTIONS, {"pgbench -C": connecting}),
        *(
            bench.alternate(
                f"select-only, {workers}",
                f"query{workers}",
                UNBOUNDED,
                {"pgbench": partial(bench.pgbench, workers, f"--time={SECONDS}")},
            )
            for workers in WORKERS
        ),
    ]
