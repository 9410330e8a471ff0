"""The engine against pgbench: select-only, prepared, on 1 and 32 connections; and a new connection for each query.

Both ask the same PostgreSQL for the same table from the same host of the lab, and their turns alternate; the medians
are told. `pgbench --connect` opens its connections blocking, one after the other, as the engine's trial of a connection
and a first query does; its first query is prepared too.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from functools import partial

from benches.peers import SECONDS, UNBOUNDED, WORKERS, Bench, standing
from benches.table import Measured, Usage, print_table
from costof.errors import CostofError
from costof.programs.postgres.lab import PostgresServer, find_postgres

#: What pgbench takes its keys from: 100,000 for each branch that it finds.
RECORDS = 100_000
CONNECTIONS = 200
SCRIPT = f"\\set aid random(1, {RECORDS})\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"


class PostgresBench(Bench):
    """With pgbench for a peer."""

    def pgbench(self, clients: int, *options: str) -> Usage:
        service, host, port, ca_file = self.target()
        secure = {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": ca_file} if ca_file else {"PGSSLMODE": "disable"}
        told = {"PGPASSWORD": service["password"], "PGGSSENCMODE": "disable", "PGCHANNELBINDING": "disable", **secure}
        argv = ["env", *(f"{name}={value}" for name, value in told.items())]
        argv += [str(find_postgres().with_name("pgbench")), "--no-vacuum", "--protocol=prepared", *options]
        argv += [f"--client={clients}", f"--host={host}", f"--port={port}", f"--username={service['username']}"]
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as script:
            # The built-in script has 100,000 accounts for each branch of the lab's.
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
        sys.stdout.write(f"PostgreSQL: left out ({error})\n")
        return
    if os.geteuid() != 0:
        sys.stdout.write("PostgreSQL: left out (the lab needs root)\n")
        return
    with standing(PostgresBench, "postgres-tls", PostgresServer, RECORDS) as arms:
        measured = [each for arm in arms for each in _of_arm(arm)]
    print_table("PostgreSQL: connections with a query each, and select-only, prepared", measured)


def _of_arm(bench: PostgresBench) -> list[Measured]:
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
