"""Comparison of the engine with pymongo: `find_one` by key over 1 and 32 connections, with and without TLS.

Both read the same records from the same secondary of a replica set, alternately. The table shows medians. For 32
connections pymongo runs 32 threads on one client with a pool of 32 connections, as an application server would.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import partial

from benches.table import OURS, Usage, alternate, print_table
from costof.instruments.drivers.driver import read_plan
from costof.instruments.drivers.mongodb import PymongoDriver
from costof.messages.plan import Data, Plan, Workload, line
from costof.messages.process import Instrument, engine
from costof.programs.mongod.connection import MongodbSettings
from costof.services import Service
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, resolve

RECORDS = 10_000
TURNS = 5
SECONDS = 2.0
CONNECTIONS = (1, 32)


def main() -> None:
    plan = resolve(load_study("mongodb-tls"), Options(profile="quick", settings=[f"records={RECORDS}"]))
    with ServerLab(plan) as lab, engine() as wire:
        arms = [arm for arm in plan.arms if not arm.replicate]
        instrument_plan = _plan(lab, arms)
        ready = wire.plan(instrument_plan)
        lab.prepare(arms[:1], lambda arm: _load(wire, arm.name))
        measured = []
        for arm in arms:
            for connections in CONNECTIONS:
                clients = {
                    OURS: partial(_engine, lab, wire, arm.name, connections),
                    "pymongo": partial(_pymongo, lab, instrument_plan, arm.name, connections),
                }
                conditions = f"{arm.name}, {connections} connection{'s' if connections > 1 else ''}"
                measured.append(alternate(conditions, clients, TURNS))
    print_table("find_one by key, MongoDB replica set", measured)
    costs = ", ".join(f"{name} {nanoseconds:.0f} ns" for name, nanoseconds in ready.self_cost_ns.items())
    sys.stdout.write(f"The engine's own cost for an operation: {costs}\n\n")


def _plan(lab: Service, arms: list[PlannedArm]) -> Plan:
    workloads = [Workload(name=f"find{n}", kind="query", workers=n) for n in CONNECTIONS]
    return Plan(
        data=Data(records=RECORDS),
        arms=[lab.endpoint(arm).named(arm.name) for arm in arms],
        workloads=[*workloads, Workload(name="load", kind="load", workers=4)],
    )


def _load(wire: Instrument, arm: str) -> None:
    wire.slice(0, arm, "load", RECORDS, 600)


def _engine(lab: Service, wire: Instrument, arm: str, connections: int) -> Usage:
    before = lab.cpu_seconds()
    answer = wire.slice(1, arm, f"find{connections}", 10_000_000, SECONDS)
    used = lab.cpu_seconds()["secondary"] - before["secondary"]
    return Usage.from_slice(answer, used)


def _pymongo(lab: Service, instrument_plan: Plan, arm: str, connections: int) -> Usage:
    """Run this module with pymongo in a separate process, so that the CPU time of that process can be measured."""
    before = lab.cpu_seconds()
    argv = [sys.executable, "-m", "benches.mongodb_find", arm, str(connections)]
    done = subprocess.run(argv, input=line(instrument_plan).decode(), capture_output=True, text=True, check=True)
    operations, seconds, cpu = done.stdout.split()
    used = lab.cpu_seconds()["secondary"] - before["secondary"]
    return Usage.from_totals(int(operations), float(seconds), float(cpu), used)


def pymongo_client(instrument_plan: Plan, arm_name: str, connections: int) -> None:
    """Call `find_one` for `SECONDS` in as many threads as `connections`, after an unmeasured warm-up.

    Print the operations, the seconds and the CPU seconds.
    """
    driver = PymongoDriver(instrument_plan)
    arm = next(arm for arm in instrument_plan.arms if arm.name == arm_name)
    driver.query(arm)
    counts = [0] * connections
    start = threading.Barrier(connections + 1)
    deadline = [0.0]

    def work(index: int) -> None:
        driver.query(arm)
        start.wait()
        while time.monotonic() < deadline[0]:
            driver.query(arm)
            counts[index] += 1

    threads = [threading.Thread(target=work, args=(index,)) for index in range(connections)]
    for thread in threads:
        thread.start()
    deadline[0] = time.monotonic() + SECONDS + 1
    start.wait()
    began, cpu = time.monotonic(), time.process_time()
    deadline[0] = began + SECONDS
    for thread in threads:
        thread.join()
    sys.stdout.write(f"{sum(counts)} {time.monotonic() - began} {time.process_time() - cpu}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    pymongo_client(read_plan(json.load(sys.stdin), MongodbSettings), sys.argv[1], int(sys.argv[2]))
