"""One process of PgBouncer, and what it says of itself: by its console, and in its log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pydantic import SecretStr

from costof.errors import CostofError, Problem
from costof.lab.lab import Process, last_line
from costof.programs.pgbouncer.pool import Pool
from costof.programs.postgres.server import PORT, PostgresServer

#: The database by which it tells of itself.
CONSOLE = "pgbouncer"
ANSWER_SECONDS = 60
Row = dict[str, Any]
"""Of a SHOW, by its columns' names."""
_LOGIN = re.compile(r" login attempt: db=(\S+) user=\S+ tls=(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Upstream:
    """The server behind a pool, and who logs in there, as its clients do.

    `secret` is what the server keeps of the password (RFC 5803); `ca_file`: by TLS, with the server's name verified.
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
        """A server that stands."""
        settings = server.client_settings()
        assert settings.password is not None
        return cls(
            server.address, PORT, settings.database, settings.username, settings.password, server.secret, ca_file
        )


class PoolerProcess:
    """`process` is its process of the lab, once it has been started; `folder` holds its socket."""

    def __init__(self, name: str, port: int, upstream: Upstream) -> None:
        self.name = name
        self.folder = Path()
        self.process: Process | None = None
        self._port = port
        self._upstream = upstream
        self._console: psycopg.Connection[Row] | None = None
        self._read = 0

    def fill(self, pools: Sequence[Pool]) -> None:
        """As many transactions at once as a pool has connections: for no client it opens none. Raises `LAB_FAILED`."""
        try:
            with ExitStack() as stack:
                for pool in pools:
                    for _ in range(pool.size):
                        # Left with its transaction at an end, or PgBouncer would not keep the server's connection.
                        stack.enter_context(self._log_in(pool.name)).execute("SELECT")
        except psycopg.Error as error:
            raise CostofError(Problem.LAB_FAILED, detail=f"filling the pools of {self.name}: {error}") from error

    def is_full(self, pools: Sequence[Pool]) -> bool:
        """Whether all connections are there and free, in session mode once they have been reset."""
        told = {row["database"]: row["sv_idle"] for row in self.show("POOLS")}
        return all(told.get(pool.name) == pool.size for pool in pools)

    def show(self, what: str) -> list[Row]:
        """The rows of a SHOW. Raises `LAB_FAILED`."""
        try:
            if self._console is None:
                self._console = self._log_in(CONSOLE)
            return self._console.execute(f"SHOW {what}".encode()).fetchall()
        except psycopg.Error as error:
            self.hang_up()
            raise CostofError(Problem.LAB_FAILED, detail=f"{self.name}: {error}") from error

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
        """The version of TLS of each client that has come since it was asked last; '' for none."""
        assert self.process is not None
        with self.process.log.open("rb") as log:
            log.seek(self._read)
            # The last line may be half written.
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for database, tls in _LOGIN.findall(whole.decode(errors="replace")):
            if database != CONSOLE:
                yield "" if tls == "no" else tls.partition("/")[0]

    def why_dead(self) -> str | None:
        if self.process is None or self.process.exit_status is None:
            return None
        status = self.process.exit_status
        # One that was killed had no time to say so.
        why = f"killed by signal {-status}" if status < 0 else f"status {status}: {last_line(self.process.log)}"
        return f"the pooler {self.name} ended ({why})"

    def _log_in(self, database: str) -> psycopg.Connection[Row]:
        """Over its Unix socket, since its port may be that of several."""
        return psycopg.connect(
            host=str(self.folder),
            port=self._port,
            user=self._upstream.username,
            password=self._upstream.password.get_secret_value(),
            dbname=database,
            autocommit=database == CONSOLE,
            connect_timeout=ANSWER_SECONDS,
            row_factory=psycopg.rows.dict_row,
            # The console takes simple queries alone.
            cursor_factory=psycopg.ClientCursor,
        )
