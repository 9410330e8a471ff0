"""Reaching a PostgreSQL: its URL, its session, the marker of a run, and what runs leave behind."""

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
from costof.programs.leftovers import Leftover, Leftovers, in_use_here
from costof.programs.target_database import MARKER, MARKER_NAME, Marker, could_be_own, is_new_name, read_marker_row

SCHEMES = ("postgres", "postgresql")
#: Where libpq goes, where nobody names a database: every server has it.
DATABASE = "postgres"
#: The options are libpq's.
FORM = UrlForm(
    schemes=SCHEMES,
    example="postgresql://user:password@host:5432/database",
    port=5432,
    asks_tls={"sslmode": {"disable": False, "require": True, "verify-ca": True, "verify-full": True}},
    ca_option="sslrootcert",
)


def parse_postgres_url(access: Access, study: str) -> LoginUrl:
    return parse_login_url(access, study, FORM)


def first_database(url: LoginUrl) -> str:
    """Return the database that is logged in to, from which another can be asked for."""
    return unquote(url.path.strip("/")) or DATABASE


class PostgresSettings(ServiceSettings):
    """Who logs in, what is asked, and how. `scale` is pgbench's: so many branches, and ten times as many tellers.

    `search_path` is the session's. `table_schema` is where pgbench's tables are, whatever that is: a pooler takes none.
    Whether one answers (`pooled`) is for those who call programs; instruments speak to it as to a server.
    """

    protocol: Literal["postgres"] = "postgres"
    username: str
    password: Secret | None = None
    database: str
    search_path: str | None = None
    table_schema: str | None = None
    table: str | None = None
    scale: int | None = None
    statements: Literal["simple", "extended", "prepared"] | None = None
    results: Literal["text", "binary"] | None = None
    negotiation: Literal["request", "direct"] | None = None
    channel_binding: bool | None = None
    pooled: bool = Field(default=False, exclude=True)

    def select(self, parameter: str) -> str:
        """Return the query of one account's balance, with a driver's word for a parameter."""
        schema = f'"{self.table_schema}".' if self.table_schema else ""
        return f"SELECT abalance FROM {schema}pgbench_accounts WHERE aid = {parameter}"  # noqa: S608  # our own name


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
        try:
            self._connection = self._connect()
        except psycopg.errors.ConnectionTimeout:
            step = "the request for TLS or the log-in" if self._url.tls else reach.LOG_IN
            detail = reach.silent(self._url.host, self._url.port, step)
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self._url.shown, detail=detail) from None
        except psycopg.Error as error:
            told = error_text(error)
            if not self._url.tls and "no encryption" in told:
                told += f"; {MAY_WANT_TLS}"
            refused = any(words in told for words in WRONG_LOGIN)
            problem = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_UNREACHABLE
            raise CostofError(problem, target=self._url.shown, detail=told) from None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def ask(self, statement: str, *values: object) -> Rows:
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
            return error_text(error)
        return None

    def is_pooled(self) -> bool:
        """Return whether something before the server answers: another process than was named at log-in."""
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
        """Make what is asked within happen as a whole. Raises `TARGET_FAILED`."""
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
        # Servers hang up on those who ask too rarely. Nothing that is asked here does harm when it is asked twice.
        self.open()
        self._again()
        return self.try_to(statement, *values)

    def _failed(self, error: psycopg.Error, statement: str | None = None) -> CostofError:
        words = error_text(error)
        detail = reach.failed_statement(words, statement) if statement else words
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


def error_text(error: psycopg.Error) -> str:
    """Return what the server or libpq said, in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())


#: All that a schema may hold; what hangs on a table, such as its index, goes with it.
_HOLDS = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind NOT IN ('i', 'I', 't')
UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s)
UNION ALL SELECT typname FROM pg_type WHERE typnamespace = to_regnamespace(%s) AND typtype IN ('e', 'd', 'r')
"""


class MarkedSchema:
    """A schema that carries a run's marker. `name` has been checked: letters, digits and underscores."""

    def __init__(self, session: PostgresSession, name: str) -> None:
        self.name = name
        self.quoted = f'"{name}"'
        self._session = session
        self._marker_table = f'{self.quoted}."{MARKER_NAME}"'

    def lock(self) -> bool:
        """Hold the schema for this connection: the server gives it free when the connection ends, whatever ends it.
        Whether nobody else holds it."""
        ((got,),) = self._session.ask("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", f"costof.{self.name}")
        return bool(got)

    def exists(self) -> bool:
        return bool(self._session.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", self.name))

    def make(self, marker: Marker) -> None:
        """Make the schema and its marker, both or neither."""
        with self._session.all_or_nothing():
            self._session.try_to(f"CREATE SCHEMA {self.quoted}")
            columns = "id varchar(40) PRIMARY KEY, run varchar(255) NOT NULL, about text NOT NULL"
            self._session.try_to(f"CREATE TABLE {self._marker_table} ({columns})")
            values = (MARKER, marker.run, marker.model_dump_json())
            self._session.try_to(f"INSERT INTO {self._marker_table} VALUES (%s, %s, %s)", *values)  # noqa: S608

    def use(self) -> None:
        """Make names without a schema mean this one from here on."""
        self._session.ask(f"SET search_path = {self.quoted}")

    def marker(self) -> Marker | None:
        """Return the marker, or None where it is missing or not as it was written."""
        try:
            found = self._session.try_to(f"SELECT run, about FROM {self._marker_table} WHERE id = %s", MARKER)  # noqa: S608
        except psycopg.Error:
            return None
        return read_marker_row(found)

    def remove(self, marker: Marker) -> bool:
        """Drop what `marker` says was made, if the schema still carries it, as a whole. Whether that was so.

        What others have put there stays, and then the schema does.
        """
        # Asked first, since that connects again where the server hung up.
        if not self.exists() or self.marker() != marker:
            return False
        held = {row[0] for row in self._session.ask(_HOLDS, *[self.quoted] * 3)}
        ours = [*(table for table in marker.tables if table in held), MARKER_NAME]
        with self._session.all_or_nothing():
            for table in ours:
                self._session.try_to(f'DROP TABLE {self.quoted}."{table}"')
            if held == set(ours):
                self._session.try_to(f"DROP SCHEMA {self.quoted}")
        return True


def remove_made(schema: MarkedSchema, marker: Marker, place: PostgresSession, server: PostgresSession) -> bool:
    """Drop the schema, and the database where the run has made that too and nobody has put anything there.

    `place` is a session to that database, and is closed; `server` is one to another. Whether the marker was the run's.
    """
    try:
        ours = schema.remove(marker)
        # A database that could be made and not be marked is as empty as it was then.
        goes = marker.made_database and holds_nothing(place)
    finally:
        place.close()
    if goes:
        server.ask(f'DROP DATABASE "{schema.name}"')
    return ours


def holds_nothing(session: PostgresSession) -> bool:
    """Return whether nobody has made anything in the database, but what every new one has."""
    schemas = "SELECT 1 FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    large_objects = "SELECT 1 FROM pg_largeobject_metadata"
    others = f"{schemas} UNION ALL {large_objects}"
    return not session.ask(others) and not session.ask(_HOLDS, *["public"] * 3)


_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege(datname, 'CONNECT')"
_MARKED = "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid WHERE relname = %s"


class PostgresLeftovers(Leftovers):
    """Each is a database that a run has made, or `database.schema`."""

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
            return remove_made(schema, leftover.marker, place, self.session)
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
            # Its pg_hba.conf lets nobody in from here: no run of ours was there either.
            return []
        try:
            names = sorted(name for (name,) in place.ask(_MARKED, MARKER_NAME) if could_be_own(name))
            schemas = [MarkedSchema(place, name) for name in names]
            if not names and is_new_name(database) and holds_nothing(place):
                # Its run ended between making and marking it.
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
    if marker and (here := in_use_here(marker)):
        return here
    return None if schema.lock() else "its run holds its lock" + (f" ({marker.maker})" if marker else "")
