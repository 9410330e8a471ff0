"""Reaching a server of MySQL's protocol: URL, session, rights, the marker of a run, and what runs leave behind.

Grants come from roles, wildcards and partial revokes, and two servers tell them in two ways. So none are read: the
server is asked to use a table that is not there. It says "denied" to whoever may not, and "no such table" to whoever
may, and nothing can come of either.
"""

from __future__ import annotations

import hashlib
import secrets
import ssl
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pymysql
from pydantic import Field
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor
from pymysql.err import MySQLError, OperationalError

from costof.errors import CostofError, ErrorText
from costof.messages.plan import ServiceSettings
from costof.model import Model, Secret
from costof.programs import reach
from costof.programs.access import Access, LoginUrl, UrlForm, parse_login_url
from costof.programs.leftovers import Leftover, Leftovers, in_use_here
from costof.programs.target_database import (
    MARKER,
    MARKER_NAME,
    PREFIX,
    Marker,
    could_be_own,
    granted_on,
    is_new_name,
    read_marker_row,
)

SCHEMES = ("mysql", "mariadb")
CA_OPTION = "ssl-ca"
#: The options of MySQL's own clients.
_SWITCH = {"true": True, "1": True, "false": False, "0": False}
ASKS_TLS = {
    "ssl-mode": {"disabled": False, "required": True, "verify_ca": True, "verify_identity": True},
    "tls": _SWITCH,
    "ssl": _SWITCH,
}


def parse_mysql_url(access: Access, study: str) -> LoginUrl:
    return parse_login_url(access, study, FORM)


def _spelled(written: str, text: str) -> tuple[str, str]:
    """Read an option as MySQL's clients do: 'ssl_mode' and 'sslmode' too, and values in capitals."""
    name = written.lower().replace("_", "-").replace("sslmode", "ssl-mode")
    return name, text if name == CA_OPTION else text.lower().replace("-", "_")


FORM = UrlForm(
    schemes=SCHEMES,
    example="mysql://user:password@host:3306/",
    port=3306,
    asks_tls=ASKS_TLS,
    ca_option=CA_OPTION,
    spelled=_spelled,
    path_refused="leave the path out: costof makes a database of its own, which --database names",
)


class Decryption(Model):
    """What a client must have to decrypt a gateway's columns.

    `must_be_encrypted`: 'database.table.column', each of which comes encrypted or is an error.
    """

    master_keys: dict[str, Secret] = Field(description="By their names in the gateway's rules.")
    must_be_encrypted: list[str] = Field(default_factory=list)


class MysqlSettings(ServiceSettings):
    """Who logs in, what is asked, and how. TPC-C has its own tables and needs no `table`."""

    protocol: Literal["mysql"] = "mysql"
    username: str | None = None
    password: Secret | None = None
    database: str
    table: str | None = None
    statements: Literal["prepared", "text"] = "prepared"
    decryption: Decryption | None = None


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

    def __init__(self, url: LoginUrl, again: Callable[[], object] = lambda: None) -> None:
        self._url = url
        self._again = again
        self._connection: pymysql.Connection[Cursor] | None = None

    def open(self) -> None:
        try:
            self._connection = self._connect()
        except MySQLError as error:
            refused = code_of(error) in WRONG_LOGIN
            told = error_text(error)
            if not self._url.tls and (refused or code_of(error) == PLAIN_PROHIBITED):
                told += f"; {MAY_WANT_TLS}"
            problem = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_UNREACHABLE
            raise CostofError(problem, target=self._url.shown, detail=told) from None

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def certificate(self) -> bytes | None:
        """Return the certificate that the server has shown (DER), or None of a connection without TLS."""
        connection = getattr(self._connection, "_sock", None)
        return connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None

    def ask(self, statement: str, *values: object) -> Rows:
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
            return error_text(error)
        return None

    def try_to(self, statement: str, *values: object) -> Rows:
        """Raises `MySQLError`."""
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()

    def _ask(self, statement: str, *values: object) -> Rows:
        try:
            return self.try_to(statement, *values)
        except MySQLError as error:
            if code_of(error) not in GONE or TIMED_OUT in error_text(error):
                raise
        # Servers hang up on those who ask too rarely. Nothing that is asked here does harm when it is asked twice.
        self._connection = self._connect()
        self._again()
        return self.try_to(statement, *values)

    def _failed(self, error: MySQLError, statement: str) -> CostofError:
        detail = reach.failed_statement(error_text(error), statement)
        return CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=detail)

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
        if step := connection.silent_step(error_text(error)):
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
    """Return a context that verifies the chain and the name, by the URL's CA or the system's."""
    return ssl.create_default_context(cafile=str(url.ca_file) if url.ca_file else None)


def code_of(error: MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def error_text(error: MySQLError) -> str:
    """Return what the server or PyMySQL said, without the number before it."""
    return str(error.args[-1] if error.args else error)


_ASKS = {
    # The same column twice: were the database there, no table could come of it.
    "CREATE": "CREATE TABLE {table} (a INT, a INT)",
    "DROP": "DROP TABLE {table}",
    "SELECT": "SELECT 1 FROM {table}",
    "INSERT": "INSERT INTO {table} VALUES (1)",
    "UPDATE": "UPDATE {table} SET a = 1",
    "DELETE": "DELETE FROM {table}",
    "INDEX": "CREATE INDEX i ON {table} (a)",
}
_DENIED = (ER.DBACCESS_DENIED_ERROR, ER.TABLEACCESS_DENIED_ERROR, ER.COLUMNACCESS_DENIED_ERROR)


def check_privileges(
    session: MysqlSession, database: str, needed: Iterable[str], target: str, chosen: str | None
) -> None:
    """Raise `PRIVILEGES_MISSING` with what is to be granted: on `chosen`, or on all names that costof takes."""
    missing = [name for name in needed if not _may(session, database, name)]
    if not missing:
        return
    ((account,),) = session.ask("SELECT CURRENT_USER()")
    user, _, host = str(account).rpartition("@")
    raise CostofError(
        ErrorText.PRIVILEGES_MISSING,
        account=account,
        actions=", ".join(missing),
        database=database,
        target=target,
        grant=granted_on(chosen, grant_line(needed, chosen, user, host)),
    )


def grant_line(needed: Iterable[str], chosen: str | None, user: str, host: str = "%") -> str:
    """Return the grant on one database, or on all of the names that costof takes."""
    # An underscore stands for any character in a grant.
    pattern = (chosen or PREFIX).replace("_", r"\_") + ("" if chosen else "%")
    account = "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
    return f"GRANT {', '.join(needed)} ON `{pattern}`.* TO {account};"


def _may(session: MysqlSession, database: str, privilege: str) -> bool:
    table = f"`{database}`.`costof_{secrets.token_hex(8)}`"
    try:
        session.try_to(_ASKS[privilege].format(table=table))
    except MySQLError as error:
        return code_of(error) not in _DENIED
    return True


class MarkedDatabase:
    """A database that carries a run's marker. `name` has been checked: letters, digits and underscores."""

    def __init__(self, session: MysqlSession, name: str) -> None:
        self.name = name
        self._session = session
        self._marker_table = f"`{name}`.`{MARKER_NAME}`"

    def lock(self) -> bool:
        """Hold the database for this connection: the server gives it free when the connection ends, whatever ends it.
        Whether nobody else holds it.

        A server that has no locks (a cluster may refuse them) holds nobody back; `locks` tells.
        """
        try:
            ((got,),) = self._session.try_to("SELECT GET_LOCK(%s, 0)", self._lock_name)
        except MySQLError:
            return True
        return bool(got == 1)

    def locks(self) -> bool:
        """Return whether the server has locks at all, so that one that is free says something."""
        try:
            self._session.try_to("SELECT IS_FREE_LOCK(%s)", self._lock_name)
        except MySQLError:
            return False
        return True

    def exists(self) -> bool:
        return bool(self._session.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", self.name))

    def is_empty(self) -> bool:
        """Return whether it holds nothing, also where there is no such database."""
        catalogues = ("tables WHERE table_schema", "routines WHERE routine_schema", "events WHERE event_schema")
        return not any(
            self._session.ask(f"SELECT 1 FROM information_schema.{each} = %s LIMIT 1", self.name)  # noqa: S608
            for each in catalogues
        )

    def mark(self, marker: Marker) -> None:
        columns = "id VARCHAR(40) PRIMARY KEY, run VARCHAR(255) NOT NULL, about TEXT NOT NULL"
        self._session.ask(f"CREATE TABLE {self._marker_table} ({columns})")
        values = (MARKER, marker.run, marker.model_dump_json())
        self._session.ask(f"INSERT INTO {self._marker_table} VALUES (%s, %s, %s)", *values)  # noqa: S608  # our own name

    def marker(self) -> Marker | None:
        """Return the marker, or None where it is missing or not as it was written."""
        try:
            found = self._session.try_to(f"SELECT run, about FROM {self._marker_table} WHERE id = %s", MARKER)  # noqa: S608
        except MySQLError:
            return None
        return read_marker_row(found)

    def remove(self, marker: Marker) -> bool:
        """Drop what `marker` says was made, if the database still carries it. Return whether that was so."""
        tables = self._tables()
        if not self._is_marked(marker, tables):
            return False
        if marker.made_database and not tables - {*marker.tables, MARKER_NAME}:
            self._session.ask(f"DROP DATABASE `{self.name}`")
            return True
        for table in [*marker.tables, MARKER_NAME]:
            if table in tables:
                self._session.ask(f"DROP TABLE `{self.name}`.`{table}`")
        return True

    def remove_empty(self) -> bool:
        """Drop the database if it holds nothing, also no marker. Return whether that was so."""
        if not self.exists() or not self.is_empty():
            return False
        self._session.ask(f"DROP DATABASE `{self.name}`")
        return True

    def _is_marked(self, marker: Marker, tables: set[str]) -> bool:
        if MARKER_NAME in tables and self._session.ask(f"SELECT 1 FROM {self._marker_table}"):  # noqa: S608
            return self.marker() == marker
        # One that could be made and not be marked, and is as empty as it was then.
        return tables <= {MARKER_NAME} and self.exists()

    def _tables(self) -> set[str]:
        rows = self._session.ask("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", self.name)
        return {row[0] for row in rows}

    @property
    def _lock_name(self) -> str:
        """Of at most 64 characters, and no application's own."""
        return "costof." + hashlib.sha256(self.name.encode()).hexdigest()[:32]


class MysqlLeftovers(Leftovers):
    schemes = SCHEMES
    url: LoginUrl
    session: MysqlSession

    def __init__(self, access: Access) -> None:
        self.url = parse_mysql_url(access, "clean")
        self.session = MysqlSession(self.url)

    def find(self) -> list[Leftover]:
        rows = self.session.ask("SELECT table_schema FROM information_schema.tables WHERE table_name = %s", MARKER_NAME)
        found = []
        for name in sorted(row[0] for row in rows if could_be_own(row[0])):
            database = MarkedDatabase(self.session, name)
            marker = database.marker()
            if marker is not None:
                found.append(Leftover(name, marker, _in_use(database, marker)))
        return found + self._find_empty()

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self.session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()

    def _find_empty(self) -> list[Leftover]:
        """Return databases of runs that ended between making one and marking it."""
        rows = self.session.ask("SELECT schema_name FROM information_schema.schemata")
        names = sorted(row[0] for row in rows if is_new_name(row[0]))
        databases = [MarkedDatabase(self.session, name) for name in names]
        return [Leftover(each.name, None, _in_use(each, None)) for each in databases if each.is_empty()]


def _in_use(database: MarkedDatabase, marker: Marker | None) -> str | None:
    """Take the lock of a free one, to the end of the connection, so that no run can take it."""
    maker = f" ({marker.maker})" if marker else ""
    if marker and (here := in_use_here(marker)):
        return here
    if not database.locks():
        told = "this server has no locks, so nobody can tell whether its run goes on"
        is_over = marker is not None and marker.maker.lives() is False
        return None if is_over else f"{told}{maker}; drop it yourself once it is over"
    return None if database.lock() else f"its run holds its lock{maker}"
