"""A user's own server that speaks MySQL's protocol.

All writes go into one database, which must be empty or must not exist before the run. The run writes a marker (a list
of its tables) into the database, and the clean-up drops only what the marker lists.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from pymysql.err import MySQLError

from costof.datasets.sysbench import TABLE, after_load, create_table
from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters, Description
from costof.programs.access import Access, LoginUrl
from costof.programs.mariadb.connection import (
    MarkedDatabase,
    MysqlSession,
    MysqlSettings,
    check_privileges,
    grant_line,
    parse_mysql_url,
)
from costof.programs.reach import SERVER_ID, VERSION, fingerprint
from costof.programs.server import NO_USE, PlannedUse, TargetServer
from costof.programs.target_database import Maker, Marker, describe_writes


class MysqlDatabaseTarget(TargetServer):
    """A user's server with a database for the run's data. Subclasses define the tables.

    The administrative session uses TLS if the URL requires TLS, whatever transport the arms (measured variants) use.
    costof's load generator verifies the transport of the arms.
    """

    url: LoginUrl
    session: MysqlSession
    PRIVILEGES: ClassVar[tuple[str, ...]]
    TABLES: ClassVar[tuple[str, ...]]

    def __init__(self, access: Access, study: str, run: str, records: int, use: PlannedUse = NO_USE) -> None:
        self.url = parse_mysql_url(access, study)
        super().__init__(access, study, run, records, use)
        self.session = MysqlSession(self.url, on_reconnect=lambda: self._marked.lock())
        self._marked = MarkedDatabase(self.session, self.database)
        self._marker: Marker | None = None

    def claim(self) -> None:
        """Create and lock the database, write the run's record (marker) into it, and create its tables.

        The tables are filled later. Before that, clients log in to the database to verify that each arm (measured
        variant) can be measured.
        """
        if not self._marked.lock():
            raise self._occupied("is used by another run")
        exists = self._marked.exists()
        if exists and not (self.chosen and self._marked.is_empty()):
            raise self._occupied()
        check_privileges(self.session, self.database, self.PRIVILEGES, self.shown, self.chosen)
        marker = Marker(run=self.run, maker=Maker.this_process(), tables=list(self.TABLES), made_database=not exists)
        if not exists:
            # This statement fails if somebody else has created the database since the check that it does not exist.
            self.ask(f"CREATE DATABASE `{self.database}`")
        self._marker = marker
        self._marked.mark(marker)
        self.make_tables()

    def identity(self) -> dict[str, str]:
        ((version,),) = self.ask("SELECT @@version")
        # MySQL has server_uuid. MariaDB has server_uid. Some servers have neither.
        server_id = self._variable("server_uuid") or self._variable("server_uid")
        facts = {SERVER_ID: server_id} if server_id else {}
        return {VERSION: str(version), **facts, **fingerprint(self.session.certificate())}

    def remove_created(self) -> None:
        if self._marker is not None:
            self._marked.remove(self._marker)

    @abstractmethod
    def make_tables(self) -> None: ...

    def counters(self, server: str) -> Counters:
        if self.counters_hidden is not None:
            return Counters()
        try:
            connections, tls = (self._status(name) for name in ("Connections", "Ssl_finished_accepts"))
        except CostofError as error:
            self.counters_hidden = str(error)
            return Counters()
        # These counters include the target's other clients.
        return Counters(connections, {"TLS": tls}, shared=True)

    def describe(self) -> Description:
        ((version,),) = self.ask("SELECT @@version")
        comment = self._variable("version_comment")
        return Description(
            versions={"server": f"{version} ({comment})" if comment else str(version)},
            topology="a single server",
            facts={"database": self.database},
        )

    def needs(self) -> list[str]:
        # Before the first connection, the host part of the account's name is unknown.
        host = "-- in place of '%' the host that SELECT CURRENT_USER() shows"
        return [f"{grant_line(self.PRIVILEGES, self.chosen, self.url.username)} {host}"]

    def client_settings(self) -> MysqlSettings:
        return MysqlSettings(
            addresses=[self.url.address],
            username=self.url.username,
            password=self.url.password,
            database=self.database,
        )

    def _variable(self, name: str) -> str | None:
        with contextlib.suppress(MySQLError):
            ((value,),) = self.session.try_to(f"SELECT @@{name}")
            return str(value)
        return None

    def _status(self, name: str) -> int:
        rows = self.ask("SHOW GLOBAL STATUS LIKE %s", name)
        if not rows:
            raise CostofError(ErrorText.TARGET_FAILED, target=self.shown, detail=f"it has no counter {name}")
        return int(rows[0][1])

    def ask(self, statement: str, *values: object) -> Any:
        return self.session.ask(statement, *values)

    def try_statement(self, statement: str) -> None:
        """Execute a statement on which no measured figure depends. If the server refuses it, the run warns of this."""
        if refusal := self.session.refusal(statement):
            self.refused[statement] = refusal


class SysbenchTarget(MysqlDatabaseTarget):
    """A user's server with sysbench's table in the run's database."""

    PRIVILEGES: ClassVar[tuple[str, ...]] = ("CREATE", "DROP", "SELECT", "INSERT", "INDEX")
    TABLES: ClassVar[tuple[str, ...]] = (TABLE,)

    def client_settings(self) -> MysqlSettings:
        return super().client_settings().model_copy(update={"table": TABLE})

    def make_tables(self) -> None:
        self.ask(create_table(self.database))

    def prepare(self, load: Callable[[], None]) -> None:
        load()
        for statement in after_load(self.database):
            self.try_statement(statement)

    def writes(self) -> list[str]:
        return describe_writes(self.chosen, self.shown, self.records, "200 bytes", TABLE)
