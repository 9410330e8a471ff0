"""A log-in to a user's own MySQL or MariaDB server for administration: under TLS or in plain, as its URL asks.

There is no second try by the other way: whoever stands between could make the first one fail, and be sent the password.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor
from pymysql.err import MySQLError, OperationalError

from costof.errors import CostofError, Problem
from costof.programs import reach
from costof.programs.login_url import LoginUrl

#: A year: the connection holds a lock for as long as a run lasts, through slices in which nothing is asked.
IDLE_SECONDS = 31_536_000
WRONG_LOGIN = (ER.ACCESS_DENIED_ERROR, 1698, ER.DBACCESS_DENIED_ERROR)
PLAIN_PROHIBITED = 3159
GREETING = "its greeting"
TIMED_OUT = "timed out"
GONE = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0)
MAY_WANT_TLS = "the server may require TLS of this account: say ?ssl-mode=VERIFY_IDENTITY in the URL, or --tls-ca"

Rows = Sequence[tuple[Any, ...]]


class MysqlSession:
    """Reconnects when the server hung up; `again` is called then, for what belongs to a connection."""

    def __init__(self, url: LoginUrl, again: Callable[[], None] = lambda: None) -> None:
        self._url = url
        self._again = again
        self._connection: pymysql.Connection[Cursor] | None = None

    def open(self) -> None:
        """Raises `TARGET_REFUSES_LOGIN`, `TARGET_UNREACHABLE`."""
        try:
            self._connection = self._connect()
        except MySQLError as error:
            refused = code_of(error) in WRONG_LOGIN
            told = words_of(error)
            if not self._url.tls and (refused or code_of(error) == PLAIN_PROHIBITED):
                told += f"; {MAY_WANT_TLS}"
            problem = Problem.TARGET_REFUSES_LOGIN if refused else Problem.TARGET_UNREACHABLE
            raise CostofError(problem, target=self._url.shown, detail=told) from None

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def certificate(self) -> bytes | None:
        """Return what the server has shown (DER); None of a connection without TLS."""
        connection = getattr(self._connection, "_sock", None)
        return connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None

    def ask(self, statement: str, *values: object) -> Rows:
        """Raises `TARGET_FAILED`."""
        try:
            return self._ask(statement, *values)
        except MySQLError as error:
            raise self._failed(error, statement) from None

    def refusal(self, statement: str) -> str | None:
        """Ask, and return the server's words where it refuses. Raises `TARGET_FAILED` where it does not answer."""
        try:
            self._ask(statement)
        except MySQLError as error:
            if code_of(error) in GONE:
                raise self._failed(error, statement) from None
            return words_of(error)
        return None

    def try_to(self, statement: str, *values: object) -> Rows:
        """Raises `MySQLError`."""
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()

    def _ask(self, statement: str, *values: object) -> Rows:
        """Raises `MySQLError`."""
        try:
            return self.try_to(statement, *values)
        except MySQLError as error:
            if code_of(error) not in GONE or TIMED_OUT in words_of(error):
                raise
        # Servers hang up on those who ask too rarely. Nothing that is asked here does harm when it is asked twice.
        self._connection = self._connect()
        self._again()
        return self.try_to(statement, *values)

    def _failed(self, error: MySQLError, statement: str) -> CostofError:
        detail = reach.failed_statement(words_of(error), statement)
        return CostofError(Problem.TARGET_FAILED, target=self._url.shown, detail=detail)

    def _connect(self) -> pymysql.Connection[Cursor]:
        # Given a context, PyMySQL says no more than its request for TLS to a server that does not offer it.
        secure: dict[str, Any] = {"ssl": tls_context(self._url)} if self._url.tls else {"ssl_disabled": True}
        return connected(
            host=self._url.host,
            port=self._url.port,
            user=self._url.username,
            # As bytes: PyMySQL would take it for Latin-1.
            password=self._url.password.get_secret_value().encode(),
            autocommit=True,
            init_command=f"SET SESSION wait_timeout = {IDLE_SECONDS}",
            **secure,
        )


def connected(**options: Any) -> pymysql.Connection[Cursor]:
    """Return PyMySQL's connection with these options, a time limit for each step of the log-in and for each answer.

    Raises `MySQLError`, CR_CONN_HOST_ERROR where a step took too long or the greeting is not MySQL's.
    """
    seconds = reach.REACH_SECONDS
    connection = _Connection(
        connect_timeout=seconds, read_timeout=seconds, write_timeout=seconds, defer_connect=True, **options
    )
    try:
        connection.connect()
    except (struct.error, ValueError, LookupError):
        raise OperationalError(CR.CR_CONN_HOST_ERROR, "what answers there does not greet as MySQL does") from None
    except MySQLError as error:
        if step := connection.silent_step(words_of(error)):
            raise OperationalError(CR.CR_CONN_HOST_ERROR, step) from None
        raise
    connection.wait_for_answers(reach.ANSWER_SECONDS)
    return connection


# Generic in the stubs alone.
if TYPE_CHECKING:
    _Pymysql: TypeAlias = pymysql.Connection[Cursor]
else:
    _Pymysql = pymysql.Connection


class _Connection(_Pymysql):
    """A connection that knows at which step of its log-in it is, which PyMySQL's errors do not tell."""

    _step = ""

    def silent_step(self, error: str) -> str | None:
        """Return why a connection that failed with this error waited in vain; None for any other error."""
        if TIMED_OUT not in error:
            return None
        if not self._step:
            return f"there was no TCP connection within {reach.REACH_SECONDS} s"
        return reach.silent_at(reach.TLS_HANDSHAKE if "handshake" in error else self._step)

    def wait_for_answers(self, seconds: float) -> None:
        self._read_timeout = self._write_timeout = seconds

    def _get_server_information(self) -> None:
        self._step = GREETING
        super()._get_server_information()  # type: ignore[misc]  # the stubs have no steps

    def _request_authentication(self) -> None:
        self._step = reach.LOG_IN
        super()._request_authentication()  # type: ignore[misc]


def tls_context(url: LoginUrl) -> ssl.SSLContext:
    """Verifies the chain and the name, by the URL's CA or the system's."""
    return ssl.create_default_context(cafile=str(url.ca_file) if url.ca_file else None)


def code_of(error: MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def words_of(error: MySQLError) -> str:
    """What the server or PyMySQL said, without the number before it."""
    return str(error.args[-1] if error.args else error)
