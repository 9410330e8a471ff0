"""The engine against the clients people measure MySQL with: mariadb-slap for connections, sysbench for point selects.

All ask the same MariaDB for the same table from the same host of the lab, and their turns alternate; the medians are
told. sysbench uses server-side prepared statements as it does by default, and so does the engine; mariadb-slap opens a
connection for each query (`--detach=1`), which the engine's trial of a connection and a first query repeats.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from benches.table import OURS, Measured, Turn, alternate, print_table
from costof.ipc.plan import Data, Plan, Workload, line
from costof.ipc.process import Instrument, engine
from costof.lab.certificates import write_private
from costof.programs.mariadb.sysbench import SysbenchServer
from costof.programs.server import Place
from costof.run.instruments import LOAD, load_workload
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, resolve

RECORDS = 10_000
TURNS = 5
SECONDS = 2
CONNECTIONS = 500
WORKERS = (1, 32)


class KnowingClients(SysbenchServer):
    """Takes clients' certificates of the lab's own authority: a client that presents another is refused."""

    @classmethod
    def at(cls, place: Place) -> Self:
        address = place.new_address()
        return cls(place.lab, place.authority, [address], keys=place.keys, host=place.host, knows_clients=True)


@dataclass(frozen=True)
class Bench:
    """A lab, an engine in its client's host, and an arm to be asked."""

    lab: ServerLab
    wire: Instrument
    arm: PlannedArm

    def engine(self, workload: str, operations: int) -> Turn:
        before = self.lab.cpu_seconds()
        answer = self.wire.slice(1, self.arm.name, workload, operations, SECONDS)
        used = self.lab.cpu_seconds()["server"] - before["server"]
        return Turn.of_slice(answer, used)

    def program(self, argv: list[str], read: Callable[[str], tuple[int, float]], folder: Path | None = None) -> Turn:
        """Another client, on the same host; `read` finds operations and seconds in what it prints."""
        before, server = resource.getrusage(resource.RUSAGE_CHILDREN), self.lab.cpu_seconds()["server"]
        argv = [*self.lab.prefix(self.arm), *argv]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.exit(f"{argv[0]}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
        operations, seconds = read(done.stdout)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        used = self.lab.cpu_seconds()["server"] - server
        return Turn.of(operations, seconds, cpu, used)

    def _to(self) -> tuple[dict[str, Any], str, str, str]:
        end = json.loads(line(self.lab.endpoint(self.arm)))
        host, port = end["service"]["addresses"][0].rsplit(":", 1)
        return end["service"], host, port, end["transport"].get("ca_file", "")

    @property
    def encrypted(self) -> bool:
        return self.arm.levels["transport"] == "tls"

    def sysbench(self, threads: int) -> Turn:
        """With TLS it presents a certificate of its own, whether or not the server asks for one."""
        service, host, port, _ = self._to()
        argv = ["sysbench", "oltp_point_select", f"--mysql-host={host}", f"--mysql-port={port}"]
        argv += [f"--mysql-user={service['username']}", f"--mysql-password={service['password']}"]
        argv += [f"--mysql-db={service['database']}", f"--table-size={RECORDS}", "--rand-type=uniform"]
        argv += [f"--threads={threads}", f"--time={SECONDS}", f"--mysql-ssl={'on' if self.encrypted else 'off'}", "run"]

        def read(text: str) -> tuple[int, float]:
            found = re.search(r"transactions:\s+(\d+)\s+\(([\d.]+) per sec", text)
            assert found, text
            return int(found[1]), int(found[1]) / float(found[2])

        with tempfile.TemporaryDirectory() as folder:
            if self.encrypted:
                self._give_sysbench_its_files(Path(folder))
            return self.program(argv, read, Path(folder))

    def _give_sysbench_its_files(self, folder: Path) -> None:
        """sysbench 1.0 has no options for them: fixed names in the folder it is started in."""
        authority = self.lab.authority
        pair = authority.issue("sysbench", "ecdsa-p256", ["sysbench"]).read_bytes()
        (folder / "cacert.pem").write_bytes(authority.ca_file.read_bytes())
        for name in ("client-key.pem", "client-cert.pem"):
            write_private(folder / name, pair)

    def slap(self) -> Turn:
        service, host, port, ca_file = self._to()
        argv = ["mariadb-slap", "--no-defaults", f"--host={host}", f"--port={port}", f"--user={service['username']}"]
        argv += [f"--password={service['password']}", f"--create-schema={service['database']}", "--no-drop"]
        argv += ["--concurrency=1", f"--number-of-queries={CONNECTIONS}", "--detach=1"]
        argv += ["--query=SELECT c FROM sbtest1 WHERE id=42"]
        argv += ["--ssl", f"--ssl-ca={ca_file}", "--ssl-verify-server-cert"] if ca_file else ["--skip-ssl"]

        def read(text: str) -> tuple[int, float]:
            found = re.search(r"Average number of seconds[^:]*: ([\d.]+)", text)
            assert found, text
            return CONNECTIONS, float(found[1])

        return self.program(argv, read)


def main() -> None:
    """Measure and print; without the other clients it says so."""
    missing = [program for program in ("sysbench", "mariadb-slap") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        sys.stdout.write(f"MySQL: left out ({', '.join(missing) + ' missing' if missing else 'the lab needs root'})\n")
        return
    settings = ["distance=lan", "transport=tls", f"records={RECORDS}"]
    plan = resolve(load_study("mysql-transport"), Options(profile="quick", settings=settings))
    with ServerLab(plan, KnowingClients) as lab:
        arms = [arm for arm in plan.arms if not arm.twin]
        with engine(lab.prefix(arms[0])) as wire:
            wire.plan(_plan(lab, arms))
            lab.prepare(arms[0], lambda arm: _load(wire, arm))
            measured = [each for arm in arms for each in _of_arm(Bench(lab, wire, arm))]
    print_table("MariaDB: connections with a query each, and point selects", measured)


def _plan(lab: ServerLab, arms: list[PlannedArm]) -> Plan:
    workloads = [Workload(name=f"query{n}", kind="query", workers=n) for n in WORKERS]
    return Plan(
        data=Data(records=RECORDS),
        arms=[lab.endpoint(arm).named(arm.name) for arm in arms],
        workloads=[*workloads, Workload(name="connect", kind="connect"), load_workload()],
    )


def _load(wire: Instrument, arm: PlannedArm) -> None:
    wire.slice(0, arm.name, LOAD, RECORDS, 600)


def _of_arm(bench: Bench) -> list[Measured]:
    connecting = {OURS: partial(bench.engine, "connect", CONNECTIONS), "mariadb-slap": partial(bench.slap)}
    measured = [alternate(f"{bench.arm.name}, connect and query", connecting, TURNS)]
    for workers in WORKERS:
        selecting = {
            OURS: partial(bench.engine, f"query{workers}", 10_000_000),
            "sysbench": partial(bench.sysbench, workers),
        }
        measured.append(alternate(f"{bench.arm.name}, point select, {workers}", selecting, TURNS))
    return measured
