"""Connections to PostgreSQL: URL, session, the record (marker) of a run, and leftovers of killed runs."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import unquote

import psycopg
from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.messages.plan import ServiceSettings
from costof.model import Secret
from costof.programs import reach
from costof.programs.access import Access, LoginUrl, UrlForm, parse_login_url
from costof.programs.leftovers import Leftover, Leftovers, running_here
from costof.programs.target_database import (
    MARKER,
    MARKER_NAME,
    Marker,
    is_allowed_name,
    is_generated_name,
    read_marker_row,
)

SCHEMES = ("postgres", "postgresql")
#: The database to log in to if the URL names none. Every server has it.
DATABASE = "postgres"
#: The syntax of PostgreSQL URLs. The options have libpq's names and values.
FORM = UrlForm(
    schemes=SCHEMES,
    example="postgresql://user:password@host:5432/database",
    port=5432,
    tls_options={"sslmode": {"disable": False, "require": True, "verify-ca": True, "verify-full": True}},
    ca_option="sslrootcert",
)


def parse_postgres_url(access: Access, study: str) -> LoginUrl:
    return parse_login_url(access, study, FORM)


def first_database(url: LoginUrl) -> str:
    """Return the database for the first log-in: the one in the URL, or else `DATABASE`."""
    return unquote(url.path.strip("/")) or DATABASE


class PostgresSettings(ServiceSettings):
    """The settings of a PostgreSQL client: the log-in, the tables to query, and how queries are sent.

    - `scale`: pgbench's scale, which is the number of branches. Each branch has ten tellers.
    - `session`: settings of each session, such as {"synchronous_commit": "off"}. The client sends them when the session
      begins. Most poolers refuse them.
    - `table_schema`: the schema of all tables. Unlike `session`, it works with a pooler.
    - `pooled`: whether the client connects to a pooler. Only programs such as pgbench need to know; costof's own
      clients do not get this field.
    """

    protocol: Literal["postgres"] = "postgres"
    username: str
    password: Secret | None = None
    database: str
    session: dict[str, str] | None = None
    table_schema: str | None = None
    table: str | None = None
    scale: int | None = None
    statements: Literal["simple", "extended", "prepared"] | None = None
    results: Literal["text", "binary"] | None = None
    negotiation: Literal["request", "direct"] | None = None
    channel_binding: bool | None = None
    pooled: bool = Field(default=False, exclude=True)

    @property
    def session_options(self) -> str:
        """The settings of the session as libpq's `options`, in which backslashes and spaces are escaped."""
        escaped = {
            name: value.replace("\\", "\\\\").replace(" ", "\\ ") for name, value in (self.session or {}).items()
        }
        return " ".join(f"-c {name}={value}" for name, value in escaped.items())

    def select(self, parameter: str) -> str:
        """Return pgbench's query for one account's balance. `parameter` is the driver's placeholder for the account."""
        schema = f'"{self.table_schema}".' if self.table_schema else ""
        return f"SELECT abalance FROM {schema}pgbench_accounts WHERE aid = {parameter}"  # noqa: S608  # our own name


WRONG_LOGIN = ("authentication failed", "no pg_hba.conf entry", "no password supplied")
MAY_WANT_TLS = "the server may require TLS for this account: add ?sslmode=verify-full to the URL, or use --tls-ca"

Rows = Sequence[tuple[Any, ...]]


class PostgresSession:
    """A connection to one database of a user's server, which is opened again if the server has closed it.

    `on_reconnect` is called after each reconnection, to restore the connection's state, such as locks.
    """

    def __init__(self, url: LoginUrl, database: str, on_reconnect: Callable[[], None] = lambda: None) -> None:
        self.database = database
        self._url = url
        self._on_reconnect = on_reconnect
        self._connection: psycopg.Connection[Any] | None = None

    def open(self) -> None:
        try:
            self._connection = self._connect()
        except psycopg.errors.ConnectionTimeout:
            step = "the request for TLS or the log-in" if self._url.tls else reach.LOG_IN
            detail = reach.timeout_text(self._url.host, self._url.port, step)
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self._url.shown, detail=detail) from None
        except psycopg.Error as error:
            detail = error_text(error)
            if not self._url.tls and "no encryption" in detail:
                detail += f"; {MAY_WANT_TLS}"
            refused = any(words in detail for words in WRONG_LOGIN)
            kind = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_UNREACHABLE
            raise CostofError(kind, target=self._url.shown, detail=detail) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, statement: str, *values: object) -> Rows:
        try:
            return self._ask(statement, *values)
        except psycopg.Error as error:
            raise self._failed(error, statement) from None

    def refusal(self, statement: str) -> str | None:
        """Execute a statement, and return the error text if the server refuses it, or None if it succeeds.

        Raises `TARGET_FAILED` if the server does not answer.
        """
        try:
            self._ask(statement)
        except psycopg.Error as error:
            if self._connection is None or self._connection.closed:
                raise self._failed(error, statement) from None
            return error_text(error)
        return None

    def is_pooled(self) -> bool:
        """Return whether the session goes through a pooler.

        A pooler invents the process ID that a client gets at log-in, so this ID differs from the server process's ID.
        """
        ((pid,),) = self.ask("SELECT pg_backend_pid()")
        assert self._connection is not None
        return bool(pid != self._connection.info.backend_pid)

    def try_to(self, statement: str, *values: object) -> Rows:
        """Execute a statement, but do not reconnect if the server has closed the connection. Raises `psycopg.Error`."""
        assert self._connection is not None
        with _at_most(reach.ANSWER_SECONDS, self._connection):
            cursor = self._connection.execute(statement.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Run the statements of the `with` block as one transaction. Raises `TARGET_FAILED`."""
        assert self._connection is not None
        try:
            with self._connection.transaction():
                yield
        except psycopg.Error as error:
            raise self._failed(error) from None

    def _ask(self, statement: str, *values: object) -> Rows:
        try:
            return self.try_to(statement, *values)
        except psycopg.Error:
            if self._connection is None or not self._connection.closed:
                raise
        # The server has closed the connection, perhaps because it was idle. All statements in this file can safely be
        # repeated.
        self.open()
        self._on_reconnect()
        return self.try_to(statement, *values)

    def _failed(self, error: psycopg.Error, statement: str | None = None) -> CostofError:
        text = error_text(error)
        detail = reach.failed_statement(text, statement) if statement else text
        return CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=detail)

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
    """Shut the connection down if the `with` block takes longer than `seconds`. psycopg itself has no time limit."""

    def hang_up() -> None:
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def error_text(error: psycopg.Error) -> str:
    """Return the error text of the server or libpq in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())


#: The query for the names of all objects in a schema, except those that are dropped with their table, such as indexes.
_HOLDS = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind NOT IN ('i', 'I', 't')
UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s)
UNION ALL SELECT typname FROM pg_type WHERE typnamespace = to_regnamespace(%s) AND typtype IN ('e', 'd', 'r')
"""


class MarkedSchema:
    """The schema of a run in a PostgreSQL database, with the run's lock and marker (its record in the schema).

    `name` must have been checked to have only letters, digits and underscores.
    """

    def __init__(self, session: PostgresSession, name: str) -> None:
        self.name = name
        self.quoted = f'"{name}"'
        self._session = session
        self._marker_table = f'{self.quoted}."{MARKER_NAME}"'

    def lock(self) -> bool:
        """Lock the schema for this connection. Return False if another connection holds the lock.

        The server releases the lock when the connection ends, for whatever reason.
        """
        lock = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
        ((locked,),) = self._session.ask(lock, f"costof.{self.name}")
        return bool(locked)

    def exists(self) -> bool:
        return bool(self._session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", self.name))

    def make(self, marker: Marker) -> None:
        """Create the schema and write the run's record (`marker`) into it in the same transaction."""
        with self._session.all_or_nothing():
            self._session.try_to(f"CREATE SCHEMA {self.quoted}")
            columns = "id varchar(40) PRIMARY KEY, run varchar(255) NOT NULL, about text NOT NULL"
            self._session.try_to(f"CREATE TABLE {self._marker_table} ({columns})")
            values = (MARKER, marker.run, marker.model_dump_json())
            self._session.try_to(f"INSERT INTO {self._marker_table} VALUES (%s, %s, %s)", *values)  # noqa: S608

    def use(self) -> None:
        self._session.ask(f"SET search_path = {self.quoted}")

    def marker(self) -> Marker | None:
        try:
            rows = self._session.try_to(f"SELECT run, about FROM {self._marker_table} WHERE id = %s", MARKER)  # noqa: S608
        except psycopg.Error:
            return None
        return read_marker_row(rows)

    def remove(self, marker: Marker) -> bool:
        """If the schema still has `marker` (a run's record), drop the tables that the marker lists.

        The same transaction drops the schema too if it holds nothing else. Return whether the schema had the marker.
        """
        # Call `exists` first: unlike `marker`, it reconnects if the server has closed the connection.
        if not self.exists() or self.marker() != marker:
            return False
        content = {row[0] for row in self._session.ask(_HOLDS, *[self.quoted] * 3)}
        ours = [*(table for table in marker.tables if table in content), MARKER_NAME]
        with self._session.all_or_nothing():
            for table in ours:
                self._session.try_to(f'DROP TABLE {self.quoted}."{table}"')
            if content == set(ours):
                self._session.try_to(f"DROP SCHEMA {self.quoted}")
        return True


def remove_created(schema: MarkedSchema, marker: Marker, place: PostgresSession, server: PostgresSession) -> bool:
    """Drop the tables that `marker` (a run's record) lists.

    The database is dropped too if the run has created it and it holds nothing else.

    `place` is a session to the schema's database, which the function closes. `server` is a session to another database.
    Return whether the schema had the marker.
    """
    try:
        had_marker = schema.remove(marker)
        # The run may have ended before it wrote the marker, so drop its database even if the schema has no marker.
        drop_database = marker.made_database and holds_nothing(place)
    finally:
        place.close()
    if drop_database:
        server.ask(f'DROP DATABASE "{schema.name}"')
    return had_marker


def holds_nothing(session: PostgresSession) -> bool:
    """Return whether the session's database is as empty as a new one."""
    schemas = "SELECT 1 FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    large_objects = "SELECT 1 FROM pg_largeobject_metadata"
    content = f"{schemas} UNION ALL {large_objects}"
    return not session.ask(content) and not session.ask(_HOLDS, *["public"] * 3)


_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege(datname, 'CONNECT')"
_MARKED = "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid WHERE relname = %s"


class PostgresLeftovers(Leftovers):
    """Leftovers on a PostgreSQL server.

    The name of a leftover is `database` if the run has created the database, and `database.schema` if the run has
    created only a schema in an existing database.
    """

    schemes = SCHEMES
    url: LoginUrl
    session: PostgresSession

    def __init__(self, access: Access) -> None:
        self.url = parse_postgres_url(access, "clean")
        self.session = PostgresSession(self.url, first_database(self.url))

    def find(self) -> list[Leftover]:
        return [each for (database,) in sorted(self.session.ask(_DATABASES)) for each in self._find_in(database)]

    def remove(self, leftover: Leftover) -> bool:
        database, _, name = leftover.database.rpartition(".")
        place = PostgresSession(self.url, database or name)
        place.open()
        schema = MarkedSchema(place, name)
        if not schema.lock():
            place.close()
            return False
        if leftover.marker is not None:
            return remove_created(schema, leftover.marker, place, self.session)
        is_empty = holds_nothing(place)
        place.close()
        if is_empty:
            self.session.ask(f'DROP DATABASE "{name}"')
        return is_empty

    def _find_in(self, database: str) -> list[Leftover]:
        place = PostgresSession(self.url, database)
        try:
            place.open()
        except CostofError:
            # The account may not log in to this database, for example because of pg_hba.conf. Runs with this account
            # cannot have left anything there.
            return []
        try:
            names = sorted(name for (name,) in place.ask(_MARKED, MARKER_NAME) if is_allowed_name(name))
            schemas = [MarkedSchema(place, name) for name in names]
            if not names and is_generated_name(database) and holds_nothing(place):
                # The run ended between the creation of the database and the writing of its record (marker).
                return [Leftover(database, None, _in_use(MarkedSchema(place, database), None))]
            return [
                Leftover(
                    schema.name if marker.made_database else f"{database}.{schema.name}",
                    marker,
                    _in_use(schema, marker),
                )
                for schema in schemas
                if (marker := schema.marker())
            ]
        finally:
            place.close()


def _in_use(schema: MarkedSchema, marker: Marker | None) -> str | None:
    if marker and (here := running_here(marker)):
        return here
    return None if schema.lock() else "its run holds its lock" + (f" ({marker.maker})" if marker else "")
