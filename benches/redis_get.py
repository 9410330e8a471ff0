"""Comparison of the engine with redis-benchmark and memtier.

All three clients run GETs on 1 and 50 connections, pipelines of 16 GETs, and new connections with a GET. They read
strings of 100 bytes from the same Redis and from the same host of the lab, with one thread each, alternately. The table
shows medians. redis-benchmark and memtier verify the certificate chain but not the host name. redis-benchmark sends
AUTH and GET in one write after reconnecting, which saves a round trip.
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

from benches.peers import SECONDS, TURNS, UNBOUNDED, Bench, running_benches
from benches.table import OURS, Measured, Usage, alternate, print_table
from costof.errors import CostofError
from costof.lab.program import find_program
from costof.messages.plan import Workload
from costof.programs.redis.lab import RedisServer, find_redis

RECORDS = 100_000
CONNECTIONS = 1000
WORKERS = (1, 50)
PIPELINED = 16
#: Expected GETs a second, by connections and depth of the pipeline. They determine how many requests redis-benchmark
#: sends, since it has no option for a duration.
EXPECTED = {(1, 1): 20_000, (50, 1): 80_000, (1, PIPELINED): 200_000, (50, PIPELINED): 400_000}
WORKLOADS = [Workload(name=f"{kind}{n}", kind=kind, workers=n) for kind in ("query", "pipeline") for n in WORKERS]


class SmallStrings(RedisServer):
    """A server on which all strings have 100 bytes.

    In the lab's usual data some strings are larger. The engine does not read the larger strings, but the other clients
    read any key.
    """

    def settle(self) -> None:
        for first in range(0, RECORDS, 1000):
            pairs = ((f"key:{record:012}", "x" * 100) for record in range(first, first + 1000))
            self.ask("MSET", *(word for pair in pairs for word in pair))


class RedisBench(Bench):
    def commands(self, workers: int, depth: int) -> Usage:
        """Measure the engine with pipelines of `depth` GETs. The result counts single GETs, not whole pipelines."""
        whole = self.engine(f"{'query' if depth == 1 else 'pipeline'}{workers}", UNBOUNDED)
        return Usage(whole.operations_per_second * depth, whole.cpu_us / depth, whole.server_cores)

    def redis_benchmark(self, clients: int, operations: int, *options: str) -> Usage:
        service, host, port, ca_file = self._client_target()
        argv = [str(find_program("redis-benchmark", "redis-tools")), "-h", host, "-p", port, "--csv", "-t", "get"]
        argv += ["--user", service["username"], "-a", service["password"], "-r", str(RECORDS), "-c", str(clients)]
        argv += ["-n", str(operations), *options, *(["--tls", "--cacert", ca_file] if ca_file else [])]

        def read(text: str) -> tuple[int, float]:
            (row,) = csv.DictReader(line for line in text.splitlines() if line.startswith('"'))
            return operations, operations / float(row["rps"])

        return self.program(argv, read)

    def memtier(self, clients: int, *options: str) -> Usage:
        service, host, port, ca_file = self._client_target()
        with tempfile.TemporaryDirectory() as folder:
            results_file = Path(folder) / "results.json"
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
                f"--json-out-file={results_file}",
            ]
            # Keys have twelve digits: seven zeros in the prefix, and five digits.
            argv += ["--key-prefix=key:0000000", "--key-minimum=10000", f"--key-maximum={RECORDS - 1}", *options]
            argv += ["--tls", f"--cacert={ca_file}"] if ca_file else []

            def read(_: str) -> tuple[int, float]:
                stats = json.loads(results_file.read_text())["ALL STATS"]
                return stats["Gets"]["Count"], stats["Runtime"]["Total duration"] / 1000

            return self.program(argv, read)

    def _client_target(self) -> tuple[dict[str, str], str, str, str]:
        service, host, port, ca_file = self.target()
        return service, host, service["tls_addresses"][0].rpartition(":")[2] if ca_file else port, ca_file


def has_memtier() -> bool:
    """Return whether memtier is on PATH or COSTOF_MEMTIER_BENCHMARK names it. Debian has no package of it."""
    try:
        find_program("memtier_benchmark", "memtier-benchmark")
    except CostofError:
        return False
    return True


def main() -> None:
    """Measure all clients and print the table. If a program or root rights are missing, print a note instead."""
    try:
        find_redis()
        find_program("redis-benchmark", "redis-tools")
    except CostofError as error:
        sys.stdout.write(f"Redis: skipped ({error})\n")
        return
    if os.geteuid() != 0:
        sys.stdout.write("Redis: skipped (the lab needs root)\n")
        return
    with running_benches(RedisBench, "redis-tls", SmallStrings, RECORDS, WORKLOADS) as arms:
        measured = [each for arm in arms for each in _measure_arm(arm)]
    print_table("Redis: GET, its pipelines, and a connection with a GET each", measured)


def _measure_arm(bench: RedisBench) -> list[Measured]:
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
