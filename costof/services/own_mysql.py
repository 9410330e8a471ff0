"""A database of a run's own on a user's own MySQL or MariaDB server, reached by URL: what every target of MySQL does.

It is somebody's data. All that is written goes into one database, which must not exist or be empty and carries a
marker; all that is dropped is what the marker says this run has made.
"""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Any, ClassVar, Self

from costof.errors import Caution, CostofError, Problem
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.maker import Maker
from costof.programs.mariadb.marked_database import MarkedDatabase
from costof.programs.mariadb.privileges import check_privileges, grant_line
from costof.programs.mariadb.session import MysqlSession
from costof.programs.mariadb.settings import MysqlSettings
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import Marker, check_ca_file, own_name
from costof.services import Service
from costof.services.plain_arms import barred_by_tls
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


class OwnMysqlDatabase(Service):
    """Reached for administration as its URL asks; the arms are the engine's to prove."""

    #: What the account must be allowed to do in the database.
    PRIVILEGES: ClassVar[tuple[str, ...]]
    #: All that is made there.
    TABLES: ClassVar[tuple[str, ...]]

    def __init__(self, plan: Plan, access: Access, run_name: str) -> None:
        self._url = parse_mysql_url(access, plan.study.name)
        self._access = access
        self._records = plan.records
        self._run = run_name
        self.database = own_name(access.database, run_name)
        self._session = MysqlSession(self._url, again=self._lock_again)
        self._marked = MarkedDatabase(self._session, self.database)
        self._marker: Marker | None = None
        self._counters_hidden: str | None = None

    def __enter__(self) -> Self:
        check_ca_file(self._url.ca_file)
        self._session.open()
        try:
            self._make_database()
        except BaseException:
            self._leave_server()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave_server()

    def _leave_server(self) -> None:
        try:
            if self._marker is not None:
                self._marked.remove(self._marker)
        finally:
            self._session.close()

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

    def needs(self) -> list[str]:
        return [grant_line(self.PRIVILEGES, self._access.database, self._url.username)]

    def barred(self, arm: PlannedArm) -> str | None:
        return barred_by_tls(arm, self._url.tls, self._access.allow_plain)

    def client_settings(self, table: str | None = None) -> MysqlSettings:
        """For a client that asks for the table's records, or for what needs no table."""
        return MysqlSettings(
            addresses=[self._url.address],
            username=self._url.username,
            password=self._url.password,
            database=self.database,
            table=table,
        )

    def _make_database(self) -> None:
        """Here and not when it is filled: a client that is proved logs in to the database."""
        if not self._marked.lock():
            raise self._occupied("is used by another run")
        exists, chosen = self._marked.exists(), self._access.database
        if (exists and not chosen) or not self._marked.is_empty():
            raise self._occupied("is there already, and this run did not make what it holds")
        check_privileges(self._session, self.database, self.PRIVILEGES, self._url.shown, chosen)
        marker = Marker(run=self._run, maker=Maker.this_process(), tables=list(self.TABLES), made_database=not exists)
        if not exists:
            # Atomic: should somebody make it in between, this fails.
            self._asked(f"CREATE DATABASE `{self.database}`")
        self._marker = marker
        self._marked.mark(marker)
        self.make_tables()

    def _occupied(self, what: str) -> CostofError:
        return CostofError(Problem.TARGET_OCCUPIED, database=self.database, target=self._url.shown, what=what)

    def _lock_again(self) -> None:
        self._marked.lock()

    def _status(self, name: str) -> int:
        rows = self._asked("SHOW GLOBAL STATUS LIKE %s", name)
        if not rows:
            raise CostofError(Problem.TARGET_FAILED, target=self._url.shown, detail=f"it has no counter {name}")
        return int(rows[0][1])

    def _asked(self, statement: str, *values: object) -> Any:
        return self._session.ask(statement, *values)
