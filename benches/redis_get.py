"""The engine against redis-benchmark and memtier: GET on 1 and 50 connections, in pipelines of 16, and a new connection
for each.

All ask the same Redis for strings of 100 bytes from the same host of the lab, on one thread each, and their turns
alternate; the medians are told. Peers verify the chain of the server's certificate, and not its name; redis-benchmark
sends AUTH and GET in one write where it reconnects, which saves it a round trip.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from benches.peers import SECONDS, TURNS, UNBOUNDED, Bench, standing
from benches.table import OURS, Measured, Usage, alternate, print_table
from costof.errors import CostofError
from costof.lab.program import find_program
from costof.messages.plan import Workload
from costof.programs.redis.lab import RedisServer, find_redis

RECORDS = 100_000
CONNECTIONS = 1000
WORKERS = (1, 50)
PIPELINED = 16
#: About so many a second, by connections and depth of the pipeline: redis-benchmark ends by operations alone.
EXPECTED = {(1, 1): 20_000, (50, 1): 80_000, (1, PIPELINED): 200_000, (50, PIPELINED): 400_000}
WORKLOADS = [Workload(name=f"{kind}{n}", kind=kind, workers=n) for kind in ("query", "pipeline") for n in WORKERS]


class SmallStrings(RedisServer):
    """All strings have the size that the engine asks for, since its peers ask for any of them."""

    def settle(self) -> None:
        for first in range(0, RECORDS, 1000):
            pairs = ((f"key:{record:012}", "x" * 100) for record in range(first, first + 1000))
            self.ask("MSET", *(word for pair in pairs for word in pair))


class RedisBench(Bench):
    """With redis-benchmark and memtier for peers."""

    def commands(self, workers: int, depth: int) -> Usage:
        """An operation of the engine's is a whole pipeline."""
        whole = self.engine(f"{'query' if depth == 1 else 'pipeline'}{workers}", UNBOUNDED)
        return Usage(whole.operations_per_second * depth, whole.cpu_us / depth, whole.server_cores)

    def redis_benchmark(self, clients: int, operations: int, *options: str) -> Usage:
        service, host, port, ca_file = self._reached()
        argv = [str(find_program("redis-benchmark", "redis-tools")), "-h", host, "-p", port, "--csv", "-t", "get"]
        argv += ["--user", service["username"], "-a", service["password"], "-r", str(RECORDS), "-c", str(clients)]
        argv += ["-n", str(operations), *options, *(["--tls", "--cacert", ca_file] if ca_file else [])]

        def read(text: str) -> tuple[int, float]:
            (row,) = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
            return operations, operations / float(row["rps"])

        return self.program(argv, read)

    def memtier(self, clients: int, *options: str) -> Usage:
        service, host, port, ca_file = self._reached()
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "told.json"
            argv = [
                str(find_program("memtier_benchmark", "memtier-benchmark")),
                "-h",
                host,
                "-p",
                port,
                "-a",
                f"{service['username']}:{service['password']}",
            ]
            argv += [
                "--threads=1",
                f"--clients={clients}",
                "--ratio=0:1",
                "--hide-histogram",
                f"--json-out-file={told}",
            ]
            # Five digits behind these make the twelve of the strings' keys.
            argv += ["--key-prefix=key:0000000", "--key-minimum=10000", f"--key-maximum={RECORDS - 1}", *options]
            argv += ["--tls", f"--cacert={ca_file}"] if ca_file else []

            def read(_: str) -> tuple[int, float]:
                stats = json.loads(told.read_text())["ALL STATS"]
                return stats["Gets"]["Count"], stats["Runtime"]["Total duration"] / 1000

            return self.program(argv, read)

    def _reached(self) -> tuple[dict[str, str], str, str, str]:
        service, host, port, ca_file = self.target()
        return service, host, service["tls_addresses"][0].rpartition(":")[2] if ca_file else port, ca_file


def has_memtier() -> bool:
    """COSTOF_MEMTIER_BENCHMARK, or on PATH: Debian has no package of it."""
    try:
        find_program("memtier_benchmark", "memtier-benchmark")
    except CostofError:
        return False
    return True


def main() -> None:
    """Measure and print; without a Redis or without redis-benchmark it says so."""
    try:
        find_redis()
        find_program("redis-benchmark", "redis-tools")
    except CostofError as error:
        sys.stdout.write(f"Redis: left out ({error})\n")
        return
    if os.geteuid() != 0:
        sys.stdout.write("Redis: left out (the lab needs root)\n")
        return
    with standing(RedisBench, "redis-tls", SmallStrings, RECORDS, WORKLOADS) as arms:
        measured = [each for arm in arms for each in _of_arm(arm)]
    print_table("Redis: GET, its pipelines, and a connection with a GET each", measured)


def _of_arm(bench: RedisBench) -> list[Measured]:
    memtier = has_memtier()
    connecting = {"redis-benchmark -k 0": partial(bench.redis_benchmark, 1, CONNECTIONS, "-k", "0")}
    if memtier:
        connecting["memtier"] = partial(bench.memtier, 1, "--reconnect-interval=1", f"--requests={CONNECTIONS}")
    measured = [bench.alternate("connect and GET", "connect", CONNECTIONS, connecting)]
    for workers, depth in itertools.product(WORKERS, (1, PIPELINED)):
        ours = partial(bench.commands, workers, depth)
        operations = SECONDS * EXPECTED[workers, depth]
        peers = {"redis-benchmark": partial(bench.redis_benchmark, workers, operations, "-P", str(depth))}
        if memtier:
            peers["memtier"] = partial(bench.memtier, workers, f"--pipeline={depth}", f"--test-time={SECONDS}")
        what = f"GET, {workers}" + (f", {depth} at once" if depth > 1 else "")
        measured.append(alternate(f"{bench.arm.name}, {what}", {OURS: ours, **peers}, TURNS))
    return measured
