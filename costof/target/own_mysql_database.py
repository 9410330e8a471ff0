"""A database of a run's own on a user's own MySQL or MariaDB server, reached by URL: what every target of MySQL does.

It is somebody's data. All that is written goes into one database named after the run, which must not exist before and
carries a marker; all that is dropped is that database, and only if its marker is this run's.
"""

from __future__ import annotations

import ssl
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from costof.errors import Caution, CostofError, Problem
from costof.plan import Plan
from costof.redact import redact_url
from costof.service import Counters, Description, Service
from costof.target.own_database import MARKER, MARKER_NAME, check_ca_file, new_database_name

SCHEME = "mysql"
PORT = 3306
REACH_SECONDS = 5
# An index over all records of the largest run, on a slow disk.
ANSWER_SECONDS = 600
WRONG_LOGIN = (ER.ACCESS_DENIED_ERROR, 1698, ER.DBACCESS_DENIED_ERROR)
GONE = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0)
#: Words of PyMySQL's errors for which another way of talking to the address would meet the same.
NOBODY_THERE = ("Connection refused", "Name or service not known", "No route to host", "timed out")

Rows = Sequence[tuple[Any, ...]]


@dataclass(frozen=True)
class Place:
    """What a URL says: where the server is and who we are there."""

    host: str
    port: int
    username: str
    password: str

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class OwnMysqlDatabase(Service):
    """Reached for administration by whichever of plain and TLS lets us in; the arms are the engine's to prove."""

    def __init__(self, plan: Plan, url: str, ca_file: Path | None, run_name: str) -> None:
        self._shown = redact_url(url)
        self._place = parse_url(url, plan.study.name)
        self._records = plan.records
        self._ca_file = ca_file
        self._run = run_name
        self.database = new_database_name(run_name)
        self._connection: pymysql.Connection[Cursor] | None = None
        self._tls = False
        self._made = False
        self._counters_hidden: str | None = None

    def __enter__(self) -> Self:
        check_ca_file(self._ca_file)
        self._connection = self._reach()
        try:
            self._make_database()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._drop()
        finally:
            if self._connection is not None and self._connection.open:
                self._connection.close()

    @abstractmethod
    def make_tables(self) -> None:
        """Make the study's tables, empty, in the database."""

    def counters(self, server: str) -> Counters:
        if self._counters_hidden is not None:
            return Counters()
        try:
            connections, tls = (self._status(name) for name in ("Connections", "Ssl_finished_accepts"))
        except CostofError as error:
            self._counters_hidden = str(error)
            return Counters()
        # Other clients of the target move the same counters.
        return Counters(connections, {"TLS": tls}, shared=True)

    def describe(self) -> Description:
        ((version, words),) = self._asked("SELECT @@version, @@version_comment")
        return Description(
            versions={"server": f"{version} ({words})"},
            topology="a single server",
            facts={"database": self.database},
        )

    def cautions(self) -> list[str]:
        hidden = self._counters_hidden
        return [Caution.SERVER_COUNTERS_HIDDEN.text(detail=hidden)] if hidden else []

    @property
    def login(self) -> dict[str, Any]:
        """The border's `service`, without what is asked there. Holds the password."""
        return {
            "protocol": "mysql",
            "addresses": [self._place.address],
            "username": self._place.username,
            "password": self._place.password,
            "database": self.database,
        }

    def _make_database(self) -> None:
        """Here and not when it is filled: a client that is proved logs in to the database. Fails where it exists."""
        if self._asked("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", self.database):
            raise CostofError(Problem.TARGET_OCCUPIED, database=self.database, target=self._shown)
        # Atomic: should somebody make it in between, this fails.
        self._asked(f"CREATE DATABASE {self.database}")
        self._made = True
        self._asked(f"CREATE TABLE {self._marker} (id VARCHAR(40) PRIMARY KEY, run VARCHAR(255) NOT NULL)")
        self._asked(f"INSERT INTO {self._marker} VALUES (%s, %s)", MARKER, self._run)  # noqa: S608  # our own name
        self.make_tables()

    def _drop(self) -> None:
        """Drop this run's database, and nothing where the marker is not this run's."""
        if not self._made:
            return
        tables = [row[0] for row in self._asked(f"SHOW TABLES FROM {self.database}")]
        ours = not tables
        if MARKER_NAME in tables:
            found = self._asked(f"SELECT run FROM {self._marker} WHERE id = %s", MARKER)  # noqa: S608  # our own name
            # Without a row it is one that could be made and not be marked, and is as empty as it was then.
            ours = [row[0] for row in found] == [self._run] or (not found and tables == [MARKER_NAME])
        if ours:
            self._asked(f"DROP DATABASE {self.database}")

    @property
    def _marker(self) -> str:
        return f"{self.database}.{MARKER_NAME}"

    def _status(self, name: str) -> int:
        rows = self._asked("SHOW GLOBAL STATUS LIKE %s", name)
        if not rows:
            raise CostofError(Problem.TARGET_FAILED, target=self._shown, detail=f"it has no counter {name}")
        return int(rows[0][1])

    def _asked(self, statement: str, *values: str) -> Rows:
        assert self._connection is not None
        try:
            return _answer(self._connection, statement, values)
        except MySQLError as error:
            if _code(error) not in GONE:
                raise self._failed(error) from None
        # Servers hang up on those who ask too rarely. Nothing that is asked here does harm when it is asked twice.
        try:
            self._connection = self._connect(self._tls)
            return _answer(self._connection, statement, values)
        except MySQLError as error:
            raise self._failed(error) from None

    def _failed(self, error: MySQLError) -> CostofError:
        return CostofError(Problem.TARGET_FAILED, target=self._shown, detail=_words(error))

    def _reach(self) -> pymysql.Connection[Cursor]:
        """By TLS or plain, whichever lets us in: a server may want TLS of this user and say only 'access denied'."""
        errors = []
        for tls in (True, False) if self._ca_file is not None else (False, True):
            try:
                connection = self._connect(tls)
            except MySQLError as error:
                errors.append(error)
                if any(words in str(error) for words in NOBODY_THERE):
                    break
            else:
                self._tls = tls
                return connection
        refused = next((error for error in errors if _code(error) in WRONG_LOGIN), None)
        problem = Problem.TARGET_REFUSES_LOGIN if refused else Problem.TARGET_UNREACHABLE
        raise CostofError(problem, target=self._shown, detail=_words(refused or errors[0]))

    def _connect(self, tls: bool) -> pymysql.Connection[Cursor]:
        secure: dict[str, Any] = {"ssl_disabled": True}
        if tls:
            # The arms verify, and say what is wrong; the administration must not fail before they do.
            context = ssl.create_default_context(cafile=str(self._ca_file) if self._ca_file else None)
            context.check_hostname = False
            secure = {"ssl": context}
        return pymysql.connect(
            host=self._place.host,
            port=self._place.port,
            user=self._place.username,
            # As bytes: PyMySQL would take it for Latin-1.
            password=self._place.password.encode(),
            autocommit=True,
            connect_timeout=REACH_SECONDS,
            read_timeout=ANSWER_SECONDS,
            write_timeout=ANSWER_SECONDS,
            **secure,
        )


def parse_url(url: str, study: str) -> Place:
    """Of 'mysql://user:password@host:3306/'. Raises `BAD_TARGET`."""

    def bad(detail: str) -> CostofError:
        return CostofError(Problem.BAD_TARGET, url=redact_url(url), study=study, detail=detail)

    try:
        parts = urlsplit(url)
        port = parts.port or PORT
    except ValueError as error:
        raise bad(str(error)) from None
    if parts.scheme != SCHEME:
        raise bad("write it as mysql://user:password@host:3306/")
    if not parts.hostname or not parts.username:
        raise bad("it names no host" if not parts.hostname else "it names no user")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise bad("leave out what follows the host and port: costof makes a database of its own")
    return Place(parts.hostname, port, unquote(parts.username), unquote(parts.password or ""))


def _answer(connection: pymysql.Connection[Cursor], statement: str, values: Sequence[str]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return cursor.fetchall()


def _code(error: MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else -1


def _words(error: MySQLError) -> str:
    """What the server or PyMySQL said, without the number before it."""
    return redact_url(str(error.args[-1] if error.args else error))
