"""The engine against the clients people measure MySQL with: mariadb-slap for connections, sysbench for point selects.

All ask the same MariaDB for the same table from the same host of the lab, and their turns alternate; the medians are
told. sysbench uses server-side prepared statements as it does by default, and so does the engine; mariadb-slap opens a
connection for each query (`--detach=1`), which the engine's trial of a connection and a first query repeats.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benches.peers import SECONDS, UNBOUNDED, WORKERS, Bench, standing
from benches.table import Measured, Usage, print_table
from costof.lab.certificates import write_private
from costof.programs.mariadb.lab import SysbenchServer

RECORDS = 10_000
CONNECTIONS = 500


class KnowingClients(SysbenchServer):
    """Takes clients' certificates of the lab's own authority.

    Without one, a client that presents a certificate is refused, asked for it or not.
    """

    def command_line(self, binary: Path) -> list[str]:
        return [*super().command_line(binary), f"--ssl-ca={self.ca_file}"]


class MysqlBench(Bench):
    """With mariadb-slap and sysbench for peers."""

    @property
    def encrypted(self) -> bool:
        return self.arm.levels["transport"] == "tls"

    def sysbench(self, threads: int) -> Usage:
        """With TLS it presents a certificate of its own, whether or not the server asks for one."""
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
                self._give_sysbench_its_files(Path(folder))
            return self.program(argv, read, Path(folder))

    def _give_sysbench_its_files(self, folder: Path) -> None:
        """sysbench 1.0 has no options for them: fixed names in the folder it is started in."""
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
    """Measure and print; without the other clients it says so."""
    missing = [program for program in ("sysbench", "mariadb-slap") if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        sys.stdout.write(f"MySQL: left out ({', '.join(missing) + ' missing' if missing else 'the lab needs root'})\n")
        return
    with standing(MysqlBench, "mysql-transport", KnowingClients, RECORDS) as arms:
        measured = [each for arm in arms for each in _of_arm(arm)]
    print_table("MariaDB: connections with a query each, and point selects", measured)


def _of_arm(bench: MysqlBench) -> list[Measured]:
    return [
        bench.alternate("connect and query", "connect", CONNECTIONS, {"mariadb-slap": bench.slap}),
        *(
            bench.alternate(
                f"point select, {workers}", f"query{workers}", UNBOUNDED, {"sysbench": partial(bench.sysbench, workers)}
            )
            for workers in WORKERS
        ),
    ]
