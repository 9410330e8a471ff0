"""PgBouncer: its pools, its processes, and its administrative console.

All pools of a process share two settings: whether PgBouncer uses TLS to the server, and the certificate key that it
presents to clients. A pool has a mode and a size. Several processes may share a port (SO_REUSEPORT). Each process has
one thread and its own pools.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from costof.errors import CostofError, ErrorText
from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import Counters, find_program, first_words, with_descriptors
from costof.lab.unprivileged import Unprivileged

# PostgreSQL's client library is slow to import. Every lab imports this file, but few labs have a pooler.
if TYPE_CHECKING:
    import psycopg

    from costof.programs.postgres.lab import PostgresServer

PACKAGE = "pgbouncer"
ROLE = "pooler"
#: The maximum number of simultaneous clients, and the length of the listen backlog. Both exceed what any study needs.
CLIENTS = 10_000
BACKLOG = 4_096


@dataclass(frozen=True)
class Pool:
    """A connection pool. `name` is the database name that its clients use. `mode` is its `pool_mode`."""

    name: str
    mode: str
    size: int


@dataclass(frozen=True)
class Totals:
    """Totals of a pool since its start: transactions, and the time that clients waited for a server connection."""

    transactions: int
    wait_ms: float


def find_pgbouncer() -> Path:
    return find_program("pgbouncer", PACKAGE)


def pgbouncer_version(binary: Path) -> str:
    return first_words([str(binary), "--version"], "pgbouncer", PACKAGE).removeprefix("PgBouncer ")


CONSOLE = "pgbouncer"
ANSWER_SECONDS = 60
Row = dict[str, Any]
_LOGIN = re.compile(r" login attempt: db=(\S+) user=\S+ tls=(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Upstream:
    """The server behind a pool, and the account with which the pool and its clients log in.

    `secret` is the SCRAM secret that the server stores for the password (RFC 5803). With `ca_file`, connections to the
    server use TLS and verify the server's certificate and name. Without `ca_file` they are plaintext.
    """

    address: str
    port: int
    database: str
    username: str
    password: SecretStr
    secret: SecretStr
    ca_file: Path | None = None

    @classmethod
    def of(cls, server: PostgresServer, ca_file: Path | None) -> Upstream:
        from costof.programs.postgres.lab import PORT

        settings = server.client_settings()
        assert settings.password is not None
        return cls(
            server.address, PORT, settings.database, settings.username, settings.password, server.secret, ca_file
        )


class PoolerProcess:
    """A PgBouncer process and a connection to its console.

    `PgBouncer.start` sets `process`, and `folder`, which holds the process's Unix socket.
    """

    def __init__(self, name: str, port: int, upstream: Upstream) -> None:
        self.name = name
        self.folder = Path()
        self.process: Process | None = None
        self._port = port
        self._upstream = upstream
        self._console: psycopg.Connection[Row] | None = None

    def fill(self, pools: Sequence[Pool]) -> None:
        """Make PgBouncer open all connections of the pools to the server.

        For each pool, the method runs as many transactions at once as the pool has connections. Raises `LAB_FAILED`.
        """
        import psycopg

        try:
            with ExitStack() as stack:
                for pool in pools:
                    for _ in range(pool.size):
                        # Leaving `stack` ends the transaction before the connection closes. If a connection closed
                        # within a transaction, PgBouncer would drop its connection to the server.
                        stack.enter_context(self._log_in(pool.name)).execute("SELECT")
        except psycopg.Error as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"filling the pools of {self.name}: {error}") from error

    def is_full(self, pools: Sequence[Pool]) -> bool:
        """Return whether all connections of the pools to the server are open and idle.

        In session mode, PgBouncer resets a connection after its use. Until then the connection does not count as idle.
        """
        idle = {row["database"]: row["sv_idle"] for row in self.show("POOLS")}
        return all(idle.get(pool.name) == pool.size for pool in pools)

    def show(self, what: str) -> list[Row]:
        """Return the rows of the console's command SHOW `what`. Raises `LAB_FAILED`."""
        import psycopg

        try:
            if self._console is None:
                self._console = self._log_in(CONSOLE)
            return self._console.execute(f"SHOW {what}".encode()).fetchall()
        except psycopg.Error as error:
            self.hang_up()
            raise CostofError(ErrorText.LAB_FAILED, detail=f"{self.name}: {error}") from error

    def answers(self) -> bool:
        try:
            return bool(self.show("VERSION"))
        except CostofError:
            return False

    def hang_up(self) -> None:
        if self._console is not None:
            self._console.close()
            self._console = None

    def clients(self) -> Iterator[str]:
        """Yield, for each log-in of a client since the last call, the connection's TLS version; '' without TLS."""
        assert self.process is not None
        for database, tls in _LOGIN.findall(self.process.new_lines()):
            if database != CONSOLE:
                yield "" if tls == "no" else tls.partition("/")[0]

    def why_dead(self) -> str | None:
        return self.process.why_dead(f"the pooler {self.name}") if self.process else None

    def _log_in(self, database: str) -> psycopg.Connection[Row]:
        """Log in over this process's own Unix socket, because several processes may share the port."""
        import psycopg

        return psycopg.connect(
            host=str(self.folder),
            port=self._port,
            user=self._upstream.username,
            password=self._upstream.password.get_secret_value(),
            dbname=database,
            autocommit=database == CONSOLE,
            connect_timeout=ANSWER_SECONDS,
            row_factory=psycopg.rows.dict_row,
            # The console accepts only the simple query protocol, without parameters.
            cursor_factory=psycopg.ClientCursor,
        )


DESCRIPTORS = 2 * CLIENTS
# Settings that differ from PgBouncer's defaults, and why.
SETTINGS = {
    "auth_type": "scram-sha-256",
    "max_client_conn": CLIENTS,
    # PgBouncer's listen queue must have room for many clients that connect at once. TCP retransmissions would delay a
    # client for which there is no room.
    "listen_backlog": BACKLOG,
    # Connections to the server must stay open through the run. A new connection would disturb only the arm (variant)
    # that is being measured.
    "server_lifetime": 1_000_000,
    "server_idle_timeout": 0,
    "server_check_query": "",
    # Nothing reads the logged statistics.
    "log_stats": 0,
}


class PgBouncer:
    """One or more PgBouncer processes that share one port on all `addresses`.

    The caller calls `start`; the lab stops the processes. Clients may connect with or without TLS. `certificate` is a
    PEM file with the key and certificate for TLS. With `plain_passwords`, the file of users has the password itself.
    """

    def __init__(
        self,
        lab: Lab,
        name: str,
        host: Host,
        addresses: Sequence[str],
        port: int,
        certificate: Path,
        upstream: Upstream,
        pools: Sequence[Pool],
        processes: int = 1,
        plain_passwords: bool = False,
    ) -> None:
        self.name = name
        self.version = ""
        self._lab = lab
        self._host = host
        self._addresses = list(addresses)
        self._port = port
        self._certificate = certificate
        self._upstream = upstream
        self._pools = list(pools)
        self._several = processes > 1
        self._plain_passwords = plain_passwords
        self._user = Unprivileged()
        self._processes = [PoolerProcess(f"{name}-{number}", port, upstream) for number in range(1, processes + 1)]
        self._counted: Counter[str] = Counter()

    def start(self) -> None:
        """Start each process and wait until its pools are full. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""
        binary = find_pgbouncer()
        self.version = pgbouncer_version(binary)
        for each in self._processes:
            each.folder = self._lab.new_folder()
            self._user.own(each.folder)
            for name, content in self._files(each.folder):
                self._user.write(each.folder / name, content)
            argv = [*self._user.prefix, str(binary), str(each.folder / "pgbouncer.ini")]
            started = each.process = self._lab.spawn(
                each.name, ROLE, with_descriptors(DESCRIPTORS, argv), host=self._host
            )
            self._lab.wait_until(f"starting {each.name}", each.answers, only=started)
            each.fill(self._pools)
            self._lab.wait_until(f"filling {each.name}", partial(each.is_full, self._pools), only=started)

    def close(self) -> None:
        for each in self._processes:
            each.hang_up()

    def configuration(self, folder: Path) -> str:
        settings = {
            "listen_addr": ",".join(self._addresses),
            "listen_port": self._port,
            "unix_socket_dir": folder,
            "so_reuseport": int(self._several),
            "auth_file": folder / "users.txt",
            "admin_users": self._upstream.username,
            "client_tls_sslmode": "allow",
            "client_tls_key_file": folder / "server.pem",
            "client_tls_cert_file": folder / "server.pem",
            "server_tls_sslmode": "verify-full" if self._upstream.ca_file else "disable",
            **({"server_tls_ca_file": folder / "ca.pem"} if self._upstream.ca_file else {}),
            **SETTINGS,
        }
        lines = ["[databases]", *map(self._entry, self._pools), "[pgbouncer]"]
        return "".join(f"{line}\n" for line in [*lines, *(f"{name} = {value}" for name, value in settings.items())])

    @property
    def folders(self) -> list[Path]:
        """For each process, the folder with its configuration and secrets."""
        return [each.folder for each in self._processes]

    def counters(self) -> Counters:
        """Return the number of client log-ins in PgBouncer's log so far, in total and for each TLS version."""
        for each in self._processes:
            self._counted.update(each.clients())
        tls = {version: count for version, count in self._counted.items() if version}
        return Counters(self._counted.total(), tls)

    def totals(self, pool: str) -> Totals:
        """Return the sum of a pool's totals over all processes. Raises `LAB_FAILED`."""
        rows = self._show("STATS_TOTALS", pool)
        waited_us = sum(int(row["wait_time"]) for row in rows)
        return Totals(sum(int(row["xact_count"]) for row in rows), waited_us / 1e3)

    def servers(self, pool: str) -> dict[int, str]:
        """Return the TLS version and cipher of a pool's connections to the server; '' for a plain connection.

        The keys are the IDs of the server's processes. Raises `LAB_FAILED`.
        """
        return {int(row["remote_pid"]): str(row["tls"]) for row in self._show("SERVERS", pool)}

    def password_form(self) -> str:
        """Return 'SCRAM secrets' or 'plain-text passwords', depending on what the file of users contains."""
        content = (self._processes[0].folder / "users.txt").read_text()
        return "SCRAM secrets" if '"SCRAM-SHA-256$' in content else "plain-text passwords"

    def why_dead(self) -> str | None:
        return next((why for each in self._processes if (why := each.why_dead())), None)

    def _show(self, what: str, pool: str) -> list[Row]:
        return [row for each in self._processes for row in each.show(what) if row["database"] == pool]

    def _files(self, folder: Path) -> Iterator[tuple[str, bytes]]:
        upstream = self._upstream
        yield "server.pem", self._certificate.read_bytes()
        # The file of users has either the password or its SCRAM secret. With the password, PgBouncer computes hashes on
        # its only thread whenever a client logs in. With the secret it does not. The secret must be the one that the
        # server stores: PgBouncer logs in to the server with the key that clients reveal when they log in.
        secret = upstream.password if self._plain_passwords else upstream.secret
        yield "users.txt", f'"{upstream.username}" "{secret.get_secret_value()}"\n'.encode()
        if upstream.ca_file:
            yield "ca.pem", upstream.ca_file.read_bytes()
        yield "pgbouncer.ini", self.configuration(folder).encode()

    def _entry(self, pool: Pool) -> str:
        upstream = self._upstream
        settings = {
            "host": upstream.address,
            "port": upstream.port,
            "dbname": upstream.database,
            "user": upstream.username,
            "password": upstream.password.get_secret_value(),
            "pool_mode": pool.mode,
            "pool_size": pool.size,
            # If a connection breaks, this setting makes PgBouncer open a new one.
            "min_pool_size": pool.size,
        }
        return f"{pool.name} = {' '.join(f'{name}={value}' for name, value in settings.items())}"
