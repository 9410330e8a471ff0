"""A log-in to a user's own PostgreSQL server for administration: under TLS or in plain, as its URL asks.

There is no second try by the other way: whoever stands between could make the first one fail, and be sent the password.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from costof.errors import CostofError, Problem
from costof.programs import reach
from costof.programs.login_url import LoginUrl

WRONG_LOGIN = ("authentication failed", "no pg_hba.conf entry", "no password supplied")
MAY_WANT_TLS = "the server may require TLS of this account: say ?sslmode=verify-full in the URL, or --tls-ca"

Rows = Sequence[tuple[Any, ...]]


class PostgresSession:
    """To one database of the server. Reconnects when the server hung up; `again` is called then, for what belongs to a
    connection."""

    def __init__(self, url: LoginUrl, database: str, again: Callable[[], None] = lambda: None) -> None:
        self.database = database
        self._url = url
        self._again = again
        self._connection: psycopg.Connection[Any] | None = None

    def open(self) -> None:
        """Raises `TARGET_REFUSES_LOGIN`, `TARGET_UNREACHABLE`."""
        try:
            self._connection = self._connect()
        except psycopg.errors.ConnectionTimeout:
            step = "the request for TLS or the log-in" if self._url.tls else reach.LOG_IN
            detail = reach.silent(self._url.host, self._url.port, step)
            raise CostofError(Problem.TARGET_UNREACHABLE, target=self._url.shown, detail=detail) from None
        except psycopg.Error as error:
            told = words_of(error)
            if not self._url.tls and "no encryption" in told:
                told += f"; {MAY_WANT_TLS}"
            refused = any(words in told for words in WRONG_LOGIN)
            problem = Problem.TARGET_REFUSES_LOGIN if refused else Problem.TARGET_UNREACHABLE
            raise CostofError(problem, target=self._url.shown, detail=told) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, statement: str, *values: object) -> Rows:
        """Raises `TARGET_FAILED`."""
        try:
            return self._ask(statement, *values)
        except psycopg.Error as error:
            raise self._failed(error, statement) from None

    def refusal(self, statement: str) -> str | None:
        """Ask, and return the server's words where it refuses. Raises `TARGET_FAILED` where it does not answer."""
        try:
            self._ask(statement)
        except psycopg.Error as error:
            if self._connection is None or self._connection.closed:
                raise self._failed(error, statement) from None
            return words_of(error)
        return None

    def is_pooled(self) -> bool:
        """Whether something before the server answers: another process than the one that was named at log-in."""
        ((asking,),) = self.ask("SELECT pg_backend_pid()")
        assert self._connection is not None
        return bool(asking != self._connection.info.backend_pid)

    def try_to(self, statement: str, *values: object) -> Rows:
        """Raises `psycopg.Error`."""
        assert self._connection is not None
        with _at_most(reach.ANSWER_SECONDS, self._connection):
            cursor = self._connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What is asked within happens as a whole. Raises `TARGET_FAILED`."""
        assert self._connection is not None
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            raise self._failed(error) from None

    def _ask(self, statement: str, *values: object) -> Rows:
        """Raises `psycopg.Error`."""
        try:
            return self.try_to(statement, *values)
        except psycopg.Error:
            if self._connection is None or not self._connection.closed:
                raise
        # Servers hang up on those who ask too rarely. Nothing that is asked here does harm when it is asked twice.
        self.open()
        self._again()
        return self.try_to(statement, *values)

    def _failed(self, error: psycopg.Error, statement: str | None = None) -> CostofError:
        words = words_of(error)
        detail = reach.failed_statement(words, statement) if statement else words
        return CostofError(Problem.TARGET_FAILED, target=self._url.shown, detail=detail)

    def _connect(self) -> psycopg.Connection[Any]:
        url = self._url
        return psycopg.connect(
            host=url.host,
            port=url.port,
            user=url.username,
            password=url.password.get_secret_value() if url.password else None,
            dbname=self.database,
            autocommit=True,
            connect_timeout=reach.REACH_SECONDS,
            gssencmode="disable",
            sslmode="verify-full" if url.tls else "disable",
            sslrootcert=str(url.ca_file or "system") if url.tls else None,
        )


@contextlib.contextmanager
def _at_most(seconds: float, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """End the connection where what is asked within takes longer: psycopg waits for an answer for ever."""

    def hang_up() -> None:
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def words_of(error: psycopg.Error) -> str:
    """What the server or libpq said, in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())
