"""Comparison of the installed engine with another build: `python -m benches.engines PATH`.

Both engines run on the same host of the lab, query the same server, and measure alternately. The table shows the
installed engine's CPU time for an operation, relative to the other build's CPU time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import click

from benches.peers import QUERIES, UNBOUNDED, Bench, plan_of, running_benches
from benches.table import OURS, Measured, Usage, alternate, print_table
from costof.messages.process import Instrument, engine
from costof.programs.mariadb.lab import SysbenchServer
from costof.programs.mongod.lab import ThreeMemberServer
from costof.programs.postgres.lab import PostgresServer
from costof.programs.redis.lab import RedisServer
from costof.programs.server import LabServer
from costof.run.machine import cores_awake

RECORDS, CONNECTIONS = 1_000, 200
#: Many short measurements, because the speed of a shared machine changes within seconds.
TURNS, SECONDS = 40, 0.4
SERVICES: dict[str, type[LabServer]] = {
    "mongodb-tls": ThreeMemberServer,
    "mysql-transport": SysbenchServer,
    "postgres-tls": PostgresServer,
    "redis-tls": RedisServer,
}
WORKLOADS = {"connect": CONNECTIONS, **{workload.name: UNBOUNDED for workload in QUERIES}}


@contextmanager
def _other_engine(path: Path, benches: list[Bench]) -> Iterator[Instrument]:
    """Start the other build of the engine on the host of the installed engine, with the same arms and workloads."""
    bench = benches[0]
    with patch.dict(os.environ, {"COSTOF_ENGINE": str(path)}):
        started = engine(bench.lab.prefix(bench.arm))
    with started as other:
        other.plan(plan_of(bench.lab, [each.arm for each in benches], RECORDS, QUERIES))
        yield other


def _usage(bench: Bench, wire: Instrument, workload: str, operations: int) -> Usage:
    return Bench(bench.lab, wire, bench.arm).engine(workload, operations, SECONDS)


@click.command()
@click.argument("other", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(other: Path) -> None:
    """Compare the installed engine with OTHER, a costof-engine of another build."""
    measured: list[Measured] = []
    with cores_awake():
        for study, program in SERVICES.items():
            with (
                running_benches(Bench, study, program, RECORDS) as benches,
                _other_engine(other, benches) as wire,
            ):
                for bench in benches:
                    for workload, operations in WORKLOADS.items():
                        clients = {
                            OURS: partial(_usage, bench, bench.wire, workload, operations),
                            str(other): partial(_usage, bench, wire, workload, operations),
                        }
                        conditions = f"{study}, {bench.arm.name}, {workload}"
                        measured.append(alternate(conditions, clients, TURNS))
    print_table("The installed engine beside another build", measured)


if __name__ == "__main__":
    main()
