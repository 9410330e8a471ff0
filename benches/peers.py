"""The common part of benchmarks that compare the engine with another database client.

Both clients run on the same host, and query the same server and data. The server is started as in a run of one of
costof's studies, such as `mysql-transport`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benches.table import OURS, Measured, Usage, alternate
from costof.messages.plan import Data, Plan, Workload, line
from costof.messages.process import Instrument, engine
from costof.programs.server import LabServer
from costof.run.instruments import LOAD, load_workload
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, resolve

TURNS = 5
SECONDS = 2
WORKERS = (1, 32)
QUERIES = [Workload(name=f"query{n}", kind="query", workers=n) for n in WORKERS]
#: A number of operations that no measurement reaches, because measurements end after `SECONDS`.
UNBOUNDED = 10_000_000
LOAD_SECONDS = 600


@dataclass(frozen=True)
class Bench:
    """A comparison of the engine (`wire`) with other clients on one arm, such as connections with TLS."""

    lab: ServerLab
    wire: Instrument
    arm: PlannedArm

    def engine(self, workload: str, operations: int, seconds: float = SECONDS) -> Usage:
        before = self.server_cpu_seconds()
        answer = self.wire.slice(1, self.arm.name, workload, operations, seconds)
        return Usage.from_slice(answer, self.server_cpu_seconds() - before)

    def server_cpu_seconds(self) -> float:
        """Return the CPU seconds of all servers of the lab, such as the members of a replica set."""
        return sum(self.lab.cpu_seconds().values())

    def program(self, argv: list[str], read: Callable[[str], tuple[int, float]], folder: Path | None = None) -> Usage:
        """Run another client on the engine's host. `read` returns operations and seconds from the client's output."""
        before, server = resource.getrusage(resource.RUSAGE_CHILDREN), self.server_cpu_seconds()
        argv = [*self.lab.prefix(self.arm), *argv]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{argv[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
        operations, seconds = read(done.stdout)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        used = self.server_cpu_seconds() - server
        return Usage.from_totals(operations, seconds, cpu, used)

    def target(self) -> tuple[dict[str, Any], str, str, str]:
        """Return the arm's service settings, host, port, and CA file ('' without TLS)."""
        end = json.loads(line(self.lab.endpoint(self.arm)))
        host, port = end["service"]["addresses"][0].rsplit(":", 1)
        return end["service"], host, port, end["transport"].get("ca_file", "")

    def alternate(
        self, what: str, workload: str, operations: int, peers: Mapping[str, Callable[[], Usage]]
    ) -> Measured:
        """Measure the engine's workload and other clients alternately. `what` is the title for the table."""
        clients = {OURS: lambda: self.engine(workload, operations), **peers}
        return alternate(f"{self.arm.name}, {what}", clients, TURNS)


BenchType = TypeVar("BenchType", bound=Bench)


@contextmanager
def running_benches(
    kind: type[BenchType], study: str, program: type[LabServer], records: int, workloads: Sequence[Workload] = QUERIES
) -> Iterator[list[BenchType]]:
    """Start the servers of a study and load their data. Yield two benches: one without TLS and one with TLS.

    The benches can measure the given `workloads`, and the workload 'connect'.
    """
    settings = ["distance=lan", "transport=tls", f"records={records}"]
    plan = resolve(load_study(study), Options(profile="quick", settings=settings))
    with ServerLab(plan, program) as lab:
        arms = [arm for arm in plan.arms if not arm.replicate]
        with engine(lab.prefix(arms[0])) as wire:
            wire.plan(plan_of(lab, arms, records, workloads))

            def load(arm: PlannedArm) -> None:
                wire.slice(0, arm.name, LOAD, records, LOAD_SECONDS)

            lab.prepare(arms[:1], load)
            yield [kind(lab, wire, arm) for arm in arms]


def plan_of(lab: ServerLab, arms: list[PlannedArm], records: int, workloads: Sequence[Workload]) -> Plan:
    """Return the engine's plan for these arms, with these workloads and the workload 'connect'."""
    return Plan(
        data=Data(records=records),
        arms=[lab.endpoint(arm).named(arm.name) for arm in arms],
        workloads=[*workloads, Workload(name="connect", kind="connect"), load_workload()],
    )
