"""The engine's two runtimes, epoll and io_uring, against each other: MariaDB, on the same host of the lab.

In each round both take a turn. Told are io_uring's figures over epoll's, paired by round, with their 95 % intervals.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from benches.peers import QUERIES, UNBOUNDED, Bench, plan_of, standing
from costof.errors import CostofError
from costof.messages.process import Instrument, engine
from costof.programs.mariadb.lab import SysbenchServer
from costof.statistics.histogram import merged
from costof.statistics.intervals import ratio

ROUNDS = 30
SECONDS = 0.5
#: A connection leaves its port taken for a minute.
CONNECTIONS = 200
RECORDS = 10_000
RUNTIMES = ("epoll", "io_uring")
FIGURES = ("operations/s", "client CPU an operation", "mean", "p99")
WORKLOADS = [*(each.name for each in QUERIES), "connect"]


def main() -> None:
    if os.geteuid() != 0:
        sys.stdout.write("Runtimes: left out (the lab needs root)\n")
        return
    table = Table(title="io_uring over epoll, MariaDB", title_justify="left", box=None)
    for heading in ("setting", *FIGURES):
        table.add_column(heading)
    with standing(Bench, "mysql-transport", SysbenchServer, RECORDS) as benches, ExitStack() as stack:
        prefix = benches[0].lab.prefix(benches[0].arm)
        engines = [stack.enter_context(engine(prefix, env={"COSTOF_RUNTIME": runtime})) for runtime in RUNTIMES]
        arms = [bench.arm for bench in benches]
        try:
            ready = [each.plan(plan_of(benches[0].lab, arms, RECORDS, QUERIES)) for each in engines]
        except CostofError as error:
            sys.stdout.write(f"Runtimes: left out ({error})\n")
            return
        assert [each.runtime for each in ready] == [*RUNTIMES], ready
        for arm in arms:
            for workload in WORKLOADS:
                rounds = [[_turn(each, arm.name, workload) for each in engines] for _ in range(ROUNDS)]
                table.add_row(f"{arm.name}, {workload}", *(_ratio(rounds, place) for place in range(len(FIGURES))))
    Console(highlight=False, width=140).print(table)


def _turn(instrument: Instrument, arm: str, workload: str) -> tuple[float, ...]:
    answer = instrument.slice(1, arm, workload, CONNECTIONS if workload == "connect" else UNBOUNDED, SECONDS)
    assert not answer.errors, answer.errors
    phase = answer.phases["connect" if workload == "connect" else "operation"]
    (p99,) = merged([phase.histogram]).at_percentiles([99])
    done = answer.operations
    return done / answer.elapsed_ns, answer.cpu_ns["client"] / done, phase.sum_ns / phase.count, p99


def _ratio(rounds: list[list[tuple[float, ...]]], place: int) -> str:
    epoll, ring = ([of_round[runtime][place] for of_round in rounds] for runtime in range(len(RUNTIMES)))
    share = ratio(epoll, ring)
    assert share is not None
    return f"{share.value:.3f} [{share.low:.3f}, {share.high:.3f}]"
