"""Connections to servers that speak MySQL's protocol: URL, session, privileges, and databases of runs.

Privileges are not read from the server's list of grants: they depend on roles, wildcards and partial revokes, which
MySQL and MariaDB list differently. Instead, privileges are tested with statements on a table that does not exist. The
server answers "denied" without the privilege, and "no such table" with the privilege. Neither case changes anything.
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
from costof.programs.leftovers import Leftover, Leftovers, running_here
from costof.programs.target_database import (
    MARKER,
    MARKER_NAME,
    PREFIX,
    Marker,
    grant_with_hint,
    is_allowed_name,
    is_generated_name,
    read_marker_row,
)

SCHEMES = ("mysql", "mariadb")
CA_OPTION = "ssl-ca"
#: Values of on/off options, with the spellings that MySQL's own clients accept.
_SWITCH = {"true": True, "1": True, "false": False, "0": False}
TLS_OPTIONS = {
    "ssl-mode": {"disabled": False, "required": True, "verify_ca": True, "verify_identity": True},
    "tls": _SWITCH,
    "ssl": _SWITCH,
}


def parse_mysql_url(access: Access, study: str) -> LoginUrl:
    return parse_login_url(access, study, FORM)


def _normalize(option: str, value: str) -> tuple[str, str]:
    """Return an option's name and value in the spelling of `TLS_OPTIONS`.

    As in MySQL's clients, 'ssl_mode' and 'sslmode' mean 'ssl-mode', and case does not matter.
    """
    name = option.lower().replace("_", "-").replace("sslmode", "ssl-mode")
    return name, value if name == CA_OPTION else value.lower().replace("-", "_")


FORM = UrlForm(
    schemes=SCHEMES,
    example="mysql://user:password@host:3306/",
    port=3306,
    tls_options=TLS_OPTIONS,
    ca_option=CA_OPTION,
    normalize=_normalize,
    path_refused="remove the path: costof creates a new database; --database sets its name",
)


class Decryption(Model):
    """The keys with which a client decrypts columns that a gateway (an encrypting proxy) has encrypted.

    `must_be_encrypted` lists columns as 'database.table.column'. Plaintext in such a column is an error.
    """

    master_keys: dict[str, Secret] = Field(description="Master keys by their names in the gateway's rules.")
    must_be_encrypted: list[str] = Field(default_factory=list)


class MysqlSettings(ServiceSettings):
    """The settings of a MySQL client: the log-in, the tables to query, and how the client sends statements.

    `table` is the name of sysbench's table. It is None for TPC-C, whose table names are fixed.
    """

    protocol: Literal["mysql"] = "mysql"
    username: str | None = None
    password: Secret | None = None
    database: str
    table: str | None = None
    statements: Literal["prepared", "text"] = "prepared"
    decryption: Decryption | None = None


#: The server's idle timeout for the administrative connection: a year. The connection is idle during measurements, but
#: must stay open because it holds the run's lock.
IDLE_SECONDS = 31_536_000
WRONG_LOGIN = (ER.ACCESS_DENIED_ERROR, 1698, ER.DBACCESS_DENIED_ERROR)
PLAIN_PROHIBITED = 3159
GREETING = "its greeting"
TIMED_OUT = "timed out"
GONE = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0)
MAY_WANT_TLS = "the server may require TLS for this account: add ?ssl-mode=VERIFY_IDENTITY to the URL, or use --tls-ca"

Rows = Sequence[tuple[Any, ...]]


class MysqlSession:
    """A connection to the user's server that is opened again if the server has closed it.

    `on_reconnect` is called after each reconnection, to restore the connection's state, such as locks.
    """

    def __init__(self, url: LoginUrl, on_reconnect: Callable[[], object] = lambda: None) -> None:
        self._url = url
        self._on_reconnect = on_reconnect
        self._connection: pymysql.Connection[Cursor] | None = None

    def open(self) -> None:
        try:
            self._connection = self._connect()
        except MySQLError as error:
            refused = error_code(error) in WRONG_LOGIN
            detail = error_text(error)
            if not self._url.tls and (refused or error_code(error) == PLAIN_PROHIBITED):
                detail += f"; {MAY_WANT_TLS}"
            kind = ErrorText.TARGET_REFUSES_LOGIN if refused else ErrorText.TARGET_UNREACHABLE
            raise CostofError(kind, target=self._url.shown, detail=detail) from None

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()

    def certificate(self) -> bytes | None:
        connection = getattr(self._connection, "_sock", None)
        return connection.getpeercert(binary_form=True) if isinstance(connection, ssl.SSLSocket) else None

    def ask(self, statement: str, *values: object) -> Rows:
        try:
            return self._ask(statement, *values)
        except MySQLError as error:
            raise self._failed(error, statement) from None

    def refusal(self, statement: str) -> str | None:
        """Execute a statement, and return the error text if the server refuses it, or None if it succeeds.

        Raises `TARGET_FAILED` if the server does not answer.
        """
        try:
            self._ask(statement)
        except MySQLError as error:
            if error_code(error) in GONE:
                raise self._failed(error, statement) from None
            return error_text(error)
        return None

    def try_to(self, statement: str, *values: object) -> Rows:
        """Execute a statement, but do not reconnect if the server has closed the connection. Raises `MySQLError`."""
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall()

    def _ask(self, statement: str, *values: object) -> Rows:
        try:
            return self.try_to(statement, *values)
        except MySQLError as error:
            if error_code(error) not in GONE or TIMED_OUT in error_text(error):
                raise
        # The server has closed the connection, perhaps because it was idle. All statements in this file can safely be
        # repeated.
        self._connection = self._connect()
        self._on_reconnect()
        return self.try_to(statement, *values)

    def _failed(self, error: MySQLError, statement: str) -> CostofError:
        detail = reach.failed_statement(error_text(error), statement)
        return CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=detail)

    def _connect(self) -> pymysql.Connection[Cursor]:
        # If the server has no TLS, PyMySQL with a TLS context sends only its request for TLS, and no password.
        tls: dict[str, Any] = {"ssl": tls_context(self._url)} if self._url.tls else {"ssl_disabled": True}
        return connect(
            host=self._url.host,
            port=self._url.port,
            user=self._url.username,
            # The password is passed as bytes because PyMySQL would encode a str as Latin-1.
            password=self._url.password.get_secret_value().encode(),
            autocommit=True,
            init_command=f"SET SESSION wait_timeout = {IDLE_SECONDS}",
            **tls,
        )


def connect(**options: Any) -> pymysql.Connection[Cursor]:
    """Return a PyMySQL connection with these options. All its steps and answers have time limits.

    Raises `MySQLError`. The error's code is CR_CONN_HOST_ERROR if a step timed out or if the greeting is not MySQL's.
    """
    seconds = reach.REACH_SECONDS
    connection = _Connection(
        connect_timeout=seconds, read_timeout=seconds, write_timeout=seconds, defer_connect=True, **options
    )
    try:
        connection.connect()
    except (struct.error, ValueError, LookupError):
        raise OperationalError(CR.CR_CONN_HOST_ERROR, "its greeting is not that of a MySQL server") from None
    except MySQLError as error:
        if timeout := connection.timeout_text(error_text(error)):
            raise OperationalError(CR.CR_CONN_HOST_ERROR, timeout) from None
        raise
    connection.wait_for_answers(reach.ANSWER_SECONDS)
    return connection


# PyMySQL's class is generic only in the type stubs, not when the program runs.
if TYPE_CHECKING:
    _Pymysql: TypeAlias = pymysql.Connection[Cursor]
else:
    _Pymysql = pymysql.Connection


class _Connection(_Pymysql):
    """A PyMySQL connection that records the current step of its log-in, which PyMySQL's errors do not name."""

    _step = ""

    def timeout_text(self, error: str) -> str | None:
        """Return an error text that says which step timed out; None if `error` is not a timeout."""
        if TIMED_OUT not in error:
            return None
        if not self._step:
            return f"there was no TCP connection within {reach.REACH_SECONDS} s"
        return reach.step_timeout_text(reach.TLS_HANDSHAKE if "handshake" in error else self._step)

    def wait_for_answers(self, seconds: float) -> None:
        self._read_timeout = self._write_timeout = seconds

    def _get_server_information(self) -> None:
        self._step = GREETING
        super()._get_server_information()  # type: ignore[misc]  # the stubs lack this method

    def _request_authentication(self) -> None:
        self._step = reach.LOG_IN
        super()._request_authentication()  # type: ignore[misc]


def tls_context(url: LoginUrl) -> ssl.SSLContext:
    """Return a context that verifies the server's name and certificate, with the URL's CA file or the system's CAs."""
    return ssl.create_default_context(cafile=str(url.ca_file) if url.ca_file else None)


def error_code(error: MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def error_text(error: MySQLError) -> str:
    """Return the error text of the server or PyMySQL without the error number."""
    return str(error.args[-1] if error.args else error)


_PRIVILEGE_TESTS = {
    # The duplicate column name makes the statement fail even if the account has the privilege.
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
    """Raise `PRIVILEGES_MISSING` if the account lacks some of the `needed` privileges on the database.

    The error quotes the GRANT statement to run (`grant_line`).
    """
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
        grant=grant_with_hint(chosen, grant_line(needed, chosen, user, host)),
    )


def grant_line(needed: Iterable[str], chosen: str | None, user: str, host: str = "%") -> str:
    """Return the GRANT statement for the account `user`@`host`.

    It grants the privileges on the database `chosen` or, if that is None, on all databases whose names costof
    generates.
    """
    # The underscore is escaped because in a grant it matches any character.
    pattern = (chosen or PREFIX).replace("_", r"\_") + ("" if chosen else "%")
    account = "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
    return f"GRANT {', '.join(needed)} ON `{pattern}`.* TO {account};"


def _may(session: MysqlSession, database: str, privilege: str) -> bool:
    table = f"`{database}`.`costof_{secrets.token_hex(8)}`"
    try:
        session.try_to(_PRIVILEGE_TESTS[privilege].format(table=table))
    except MySQLError as error:
        return error_code(error) not in _DENIED
    return True


class MarkedDatabase:
    """The database of a run on a MySQL server, with the run's lock and marker (its record in the database).

    `name` must have been checked to have only letters, digits and underscores.
    """

    def __init__(self, session: MysqlSession, name: str) -> None:
        self.name = name
        self._session = session
        self._marker_table = f"`{name}`.`{MARKER_NAME}`"

    def lock(self) -> bool:
        """Lock the database for this connection. Return False if another connection holds the lock.

        The server releases the lock when the connection ends, for whatever reason. Some clusters have no locks
        (`supports_locks` is False): the method then returns True without a lock.
        """
        try:
            ((locked,),) = self._session.try_to("SELECT GET_LOCK(%s, 0)", self._lock_name)
        except MySQLError:
            return True
        return bool(locked == 1)

    def supports_locks(self) -> bool:
        try:
            self._session.try_to("SELECT IS_FREE_LOCK(%s)", self._lock_name)
        except MySQLError:
            return False
        return True

    def exists(self) -> bool:
        return bool(self._session.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", self.name))

    def is_empty(self) -> bool:
        """Return whether the database has no tables, routines or events; also True if it does not exist."""
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
        try:
            rows = self._session.try_to(f"SELECT run, about FROM {self._marker_table} WHERE id = %s", MARKER)  # noqa: S608
        except MySQLError:
            return None
        return read_marker_row(rows)

    def remove(self, marker: Marker) -> bool:
        """If the database still has `marker` (a run's record), drop the tables that the marker lists.

        The database is dropped too if the run has created it and it holds no other tables. Return False and change
        nothing if the database is not the run's.
        """
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
        if not self.exists() or not self.is_empty():
            return False
        self._session.ask(f"DROP DATABASE `{self.name}`")
        return True

    def _is_marked(self, marker: Marker, tables: set[str]) -> bool:
        if MARKER_NAME in tables and self._session.ask(f"SELECT 1 FROM {self._marker_table}"):  # noqa: S608
            return self.marker() == marker
        # There is no marker (the run's record): the run may have ended between the creation of the database and the
        # writing of the marker. A database without any other table therefore counts as the run's.
        return tables <= {MARKER_NAME} and self.exists()

    def _tables(self) -> set[str]:
        rows = self._session.ask("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", self.name)
        return {row[0] for row in rows}

    @property
    def _lock_name(self) -> str:
        """The lock's name: at most 64 characters, and unlike the names that applications use."""
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
        leftovers = []
        for name in sorted(row[0] for row in rows if is_allowed_name(row[0])):
            database = MarkedDatabase(self.session, name)
            marker = database.marker()
            if marker is not None:
                leftovers.append(Leftover(name, marker, _in_use(database, marker)))
        return leftovers + self._find_empty()

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self.session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()

    def _find_empty(self) -> list[Leftover]:
        """Return the empty databases of runs that ended before they wrote their record (marker) into the database."""
        rows = self.session.ask("SELECT schema_name FROM information_schema.schemata")
        names = sorted(row[0] for row in rows if is_generated_name(row[0]))
        databases = [MarkedDatabase(self.session, name) for name in names]
        return [Leftover(each.name, None, _in_use(each, None)) for each in databases if each.is_empty()]


def _in_use(database: MarkedDatabase, marker: Marker | None) -> str | None:
    """Return the reason to keep a database, or None if it may be removed.

    A database that may be removed stays locked until the connection ends, so that no run can begin to use it.
    """
    maker = f" ({marker.maker})" if marker else ""
    if marker and (here := running_here(marker)):
        return here
    if not database.supports_locks():
        unknown = "this server has no locks, so it is unknown whether its run is still active"
        is_over = marker is not None and marker.maker.is_alive() is False
        return None if is_over else f"{unknown}{maker}; drop it yourself once the run is over"
    return None if database.lock() else f"its run holds its lock{maker}"
