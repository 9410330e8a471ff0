"""Comparison of the engine with MySQL clients: with mariadb-slap for connections, and with sysbench for point selects.

All read the same table of the same MariaDB from the same host of the lab, alternately. The table shows medians.
sysbench uses server-side prepared statements by default, and so does the engine. mariadb-slap opens a connection for
each query (`--detach=1`), as does the engine's workload `connect`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benches.peers import SECONDS, UNBOUNDED, WORKERS, Bench, running_benches
from benches.table import Measured, Usage, print_table
from costof.lab.certificates import write_private
from costof.programs.mariadb.lab import SysbenchServer

RECORDS = 10_000
CONNECTIONS = 500


class TrustingClientCertificates(SysbenchServer):
    """A server that trusts client certificates of the lab's CA. Without a CA, it would reject them all."""

    def command_line(self, binary: Path) -> list[str]:
        return [*super().command_line(binary), f"--ssl-ca={self.ca_file}"]


class MysqlBench(Bench):
    @property
    def encrypted(self) -> bool:
        return self.arm.levels["transport"] == "tls"

    def sysbench(self, threads: int) -> Usage:
        """Measure sysbench. With TLS it always presents a client certificate."""
        service, host, port, _ = self.target()
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
                self._write_sysbench_certificates(Path(folder))
            return self.program(argv, read, Path(folder))

    def _write_sysbench_certificates(self, folder: Path) -> None:
        """Write the certificate files with the fixed names that sysbench 1.0 expects in its working directory."""
        authority = self.lab.authority
        pair = authority.issue("sysbench", "ecdsa-p256", ["sysbench"]).read_bytes()
        (folder / "cacert.pem").write_bytes(authority.ca_file.read_bytes())
        for name in ("client-key.pem", "client-cert.pem"):
            write_private(folder / name, pair)

    def slap(self) -> Usage:
        service, host, port, ca_file = self.target()
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
    """Measure all clients and print the table. If a program or root rights are missing, print a note instead."""
    missing = [program for program in ("sysbench", "mariadb-slap") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        sys.stdout.write(f"MySQL: skipped ({', '.join(missing) + ' missing' if missing else 'the lab needs root'})\n")
        return
    with running_benches(MysqlBench, "mysql-transport", TrustingClientCertificates, RECORDS) as arms:
        measured = [each for arm in arms for each in _measure_arm(arm)]
    print_table("MariaDB: connections with a query each, and point selects", measured)


def _measure_arm(bench: MysqlBench) -> list[Measured]:
    return [
        bench.alternate("connect and query", "connect", CONNECTIONS, {"mariadb-slap": bench.slap}),
        *(
            bench.alternate(
                f"point select, {workers}", f"query{workers}", UNBOUNDED, {"sysbench": partial(bench.sysbench, workers)}
            )
            for workers in WORKERS
        ),
    ]
