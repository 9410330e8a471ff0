"""A user's own PostgreSQL server.

All writes go into one new schema. The run writes a marker (a list of its tables) into the schema, and the clean-up
drops only what the marker lists. No setting of the server is changed, and the server is not reloaded.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import psycopg

from costof.datasets import ycsb
from costof.datasets.pgbench import ACCOUNTS, TABLES, after_load, create_tables
from costof.errors import CostofError, ErrorText, WarningText
from costof.lab.program import Description
from costof.messages.answers import SliceAnswer
from costof.programs.access import Access, LoginUrl
from costof.programs.postgres.connection import (
    MarkedSchema,
    PostgresSession,
    PostgresSettings,
    first_database,
    holds_nothing,
    parse_postgres_url,
    remove_created,
)
from costof.programs.postgres.lab import SCALE, TLS_ACCEPTED, TLS_REQUEST
from costof.programs.postgres.target_commits import SETTING, STANDBY_VALUES, TargetCommits, session_settings
from costof.programs.reach import SERVER_ID, VERSION, read_certificate
from costof.programs.server import NO_USE, PlannedUse, TargetServer
from costof.programs.target_database import MARKER, MARKER_NAME, PREFIX, Maker, Marker

#: The setting with a session's name. Sessions in which the run sets `synchronous_commit` get a name, by which the run
#: finds them in pg_stat_activity.
APPLICATION_NAME = "application_name"


class PgbenchTarget(TargetServer):
    """A user's PostgreSQL server with the tables of the study's workloads, in a schema with the run's name.

    The tables are pgbench's, or YCSB's for a workload of kind `ycsb`. If the account may create databases, the schema
    is in a new database of the same name.

    The server's counters of connections are up to a second late, so they cannot verify that a slice (a measured window)
    used TLS. Instead, each client asks the server whether its connection uses TLS (the evidence `server_side`).
    """

    url: LoginUrl
    session: PostgresSession

    def __init__(self, access: Access, study: str, run: str, records: int, use: PlannedUse = NO_USE) -> None:
        self.url = parse_postgres_url(access, study)
        super().__init__(access, study, run, records, use)
        self._first_database = first_database(self.url)
        #: The parsed URL of a pooler, or None. With a pooler, the run creates no database, because a pooler serves only
        #: the databases in its configuration.
        self._pooler = parse_postgres_url(replace(access, url=access.pooler_url), study) if access.pooler_url else None
        self.pooler_shown = self._pooler.shown if self._pooler else None
        self._server = PostgresSession(self.url, self._first_database)
        self.session = self._server
        self._schema = MarkedSchema(self._server, self.database)
        self._marker: Marker | None = None
        self._commits = TargetCommits(self._server, self.database)

    def reach(self) -> None:
        super().reach()
        if any(SETTING in session_settings(each) for each in self.use.levels.values()):
            self._commits.find_counters()
            self.counters_hidden = self._commits.hidden

    def claim(self) -> None:
        ((may_make_databases,),) = self._server.ask(
            "SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user"
        )
        exists = self._pooler is None and bool(
            self._server.ask("SELECT 1 FROM pg_database WHERE datname = %s", self.database)
        )
        if exists and not self.chosen:
            raise self._occupied()
        makes_database = may_make_databases and not exists and self._pooler is None
        if not makes_database:
            self._check_privilege(self.database if exists else self._first_database)
        marker = Marker(run=self.run, maker=Maker.this_process(), tables=self._tables, made_database=makes_database)
        if makes_database:
            # The template is template0 because template1 cannot be copied while somebody is connected to it.
            self._server.ask(f'CREATE DATABASE "{self.database}" TEMPLATE template0')
        if makes_database or exists:
            self._enter_database(is_new=makes_database)
        self._marker = marker if makes_database else None
        if not self._schema.lock():
            raise self._occupied("is used by another run")
        if self._schema.exists() or (exists and not holds_nothing(self.session)):
            raise self._occupied()
        self._schema.make(marker)
        self._marker = marker
        self._schema.use()
        for statement in [
            *(create_tables(SCALE) if self._has_pgbench else []),
            *([ycsb.create_empty_table()] if self._has_ycsb else []),
        ]:
            self.session.ask(statement)

    def identity(self) -> dict[str, str]:
        ((version,),) = self._server.ask("SHOW server_version")
        facts = {VERSION: str(version)}
        with contextlib.suppress(psycopg.Error):
            ((number,),) = self._server.try_to("SELECT system_identifier FROM pg_control_system()")
            facts[SERVER_ID] = str(number)
        return facts | (read_certificate(self.url.host, self.url.port, _start_tls) if self.tls else {})

    def remove_created(self) -> None:
        if self._marker is not None:
            remove_created(self._schema, self._marker, self.session, self._server)

    def close(self) -> None:
        self.session.close()
        self._server.close()

    def prepare(self, load: Callable[[], None]) -> None:
        load()
        for statement in after_load() if self._has_pgbench else []:
            if refusal := self.session.refusal(statement):
                self.refused[statement] = refusal
        if self._pooler is not None:
            self._check_pooler(self._pooler)

    def client_settings(self) -> PostgresSettings:
        return PostgresSettings(
            addresses=[self.url.address],
            username=self.url.username,
            password=self.url.password or None,
            database=self.session.database,
            table_schema=self.database,
            scale=SCALE,
        )

    def redirects(self, target_settings: Mapping[str, Any]) -> dict[str, Any]:
        session = self._session_settings(target_settings)
        sets_session = {"session": session} if session else {}
        pooler = self._pooler
        if pooler is None or not target_settings.get("pooler"):
            return sets_session
        return sets_session | {
            "addresses": [pooler.address],
            "username": pooler.username,
            "password": pooler.password or None,
            "database": first_database(pooler),
            "pooled": True,
        }

    def may_lack(self, target_settings: Mapping[str, Any]) -> str | None:
        return "a synchronous standby" if session_settings(target_settings).get(SETTING) in STANDBY_VALUES else None

    def lacks(self, target_settings: Mapping[str, Any]) -> str | None:
        value = session_settings(target_settings).get(SETTING)
        return None if value is None else self._commits.lacks(value)

    def counts_at_disconnect(self, target_settings: Mapping[str, Any]) -> bool:
        return SETTING in session_settings(target_settings)

    def finish_counting(self, target_settings: Mapping[str, Any]) -> None:
        if SETTING in session_settings(target_settings):
            self._commits.wait_for_end()

    def readings(self, target_settings: Mapping[str, Any]) -> dict[str, float]:
        return self._commits.readings() if SETTING in session_settings(target_settings) else {}

    def mismatch(
        self, target_settings: Mapping[str, Any], increases: Mapping[str, float], answer: SliceAnswer
    ) -> str | None:
        settings = self._session_settings(target_settings)
        return self._commits.mismatch(settings, increases, answer) if SETTING in settings else None

    def evidence(self, target_settings: Mapping[str, Any]) -> dict[str, str]:
        needs_standby = session_settings(target_settings).get(SETTING) in STANDBY_VALUES
        return {"standbys": self._commits.standbys()} if needs_standby else {}

    def warnings(self) -> list[str]:
        most = self._commits.others_per_second
        return super().warnings() + ([WarningText.OTHERS_FLUSH.text(per_second=most)] if most else [])

    def describe(self) -> Description:
        ((version,),) = self.session.ask("SHOW server_version")
        facts = {"database": self.session.database, "schema": self.database}
        if self._has_pgbench:
            facts["pgbench's scale"] = f"{SCALE} branches"
        if any(SETTING in session_settings(each) for each in self.use.levels.values()):
            settings = self._commits.settings()
            facts["server settings"] = ", ".join(f"{name}={value}" for name, value in settings.items())
            facts["flushes"] = self._commits.hidden or "counted by the server for all its sessions together"
            facts["time of a flush"] = "not measured, because costof does not reach the server's disk"
        if self._pooler is not None:
            facts["pool"] = f"{self._pooler.shown}, the user's own"
        return Description(versions={"server": version}, topology="a single server", facts=facts)

    def writes(self) -> list[str]:
        name = self.chosen or f"{PREFIX}<run>_<random>"
        in_database = f"schema {name} in database {self._first_database}; refuse if it exists"
        if self._pooler is None:
            in_database = (
                f"database {name} on {self.shown}, if the account may create databases, and schema {name} in it; else "
                f"{in_database}"
            )
        inserts = []
        if self._has_pgbench:
            others = f"{SCALE * 11} into others"
            inserts.append(f"insert {self.records:,} records of about 100 bytes into {name}.{ACCOUNTS}, and {others}")
        if self._has_ycsb:
            operations = self.use.most_operations
            most = "until the run ends" if operations is None else f"at most {operations:,} in all"
            inserts.append(f"insert rows into {name}.{ycsb.TABLE} while measuring, {most}")
        return [
            f"create {in_database}",
            f"insert the marker '{MARKER}' into {name}.{MARKER_NAME}",
            *inserts,
            f"drop at the end: the tables, schema {name} and the database (if the run created it and it holds nothing "
            "else), if the marker is this run's",
        ]

    def needs(self) -> list[str]:
        return [self._grant()]

    @property
    def _has_ycsb(self) -> bool:
        return "ycsb" in self.use.kinds

    @property
    def _has_pgbench(self) -> bool:
        return self.use.kinds != {"ycsb"}

    @property
    def _tables(self) -> list[str]:
        return [*(TABLES if self._has_pgbench else ()), *([ycsb.TABLE] if self._has_ycsb else [])]

    def _session_settings(self, target_settings: Mapping[str, Any]) -> dict[str, str]:
        settings = session_settings(target_settings)
        return settings | ({APPLICATION_NAME: self.database} if SETTING in settings else {})

    def _enter_database(self, is_new: bool) -> None:
        """Connect to the run's database. If that fails, drop a database that the run has just created (`is_new`)."""
        self.session = PostgresSession(self.url, self.database, on_reconnect=self._restore_session)
        try:
            self.session.open()
        except CostofError:
            if is_new:
                self._server.ask(f'DROP DATABASE "{self.database}"')
            raise
        self._schema = MarkedSchema(self.session, self.database)

    def _restore_session(self) -> None:
        self._schema.lock()
        self._schema.use()

    def _check_privilege(self, database: str) -> None:
        ((may,),) = self.session.ask("SELECT has_database_privilege(%s, 'CREATE')", database)
        if not may:
            raise CostofError(
                ErrorText.PRIVILEGES_MISSING,
                account=self.url.username,
                actions="create a database or a schema",
                database=database,
                target=self.shown,
                grant=self._grant(),
            )

    def _grant(self) -> str:
        user = '"' + self.url.username.replace('"', '""') + '"'
        grant = f'GRANT CREATE ON DATABASE "{self._first_database}" TO {user};'
        return grant if self._pooler is not None else f"ALTER ROLE {user} CREATEDB; or {grant}"

    def _check_pooler(self, pooler: LoginUrl) -> None:
        """Check that a pooler is at this URL, and that this run's schema can be reached through the pooler.

        Raises `NO_POOLER` and the errors of `PostgresSession.open`.
        """
        session = PostgresSession(pooler, first_database(pooler))
        session.open()
        try:
            detail = None
            if not session.is_pooled():
                detail = "a server itself answers there"
            elif MarkedSchema(session, self.database).marker() != self._marker:
                detail = f"its database {session.database} does not have the schema {self.database} of this run"
        finally:
            session.close()
        if detail is not None:
            raise CostofError(ErrorText.NO_POOLER, pooler=pooler.shown, target=self.shown, detail=detail)


def _start_tls(connection: socket.socket) -> bool:
    connection.sendall(TLS_REQUEST)
    return connection.recv(len(TLS_ACCEPTED)) == TLS_ACCEPTED
