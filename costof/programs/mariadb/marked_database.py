"""A database with costof's marker on a MySQL server: locked while its run lasts, and removed as it was made."""

from __future__ import annotations

import hashlib
import json

from pymysql.err import MySQLError

from costof.programs.mariadb.session import MysqlSession
from costof.programs.own_database import MARKER, MARKER_NAME, Marker, read_marker


class MarkedDatabase:
    """`name` has been checked: letters, digits and underscores."""

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
        """Whether the server has locks at all, so that one that is free says something."""
        try:
            self._session.try_to("SELECT IS_FREE_LOCK(%s)", self._lock_name)
        except MySQLError:
            return False
        return True

    def exists(self) -> bool:
        return bool(self._session.ask("SELECT 1 FROM information_schema.schemata WHERE schema_name = %s", self.name))

    def is_empty(self) -> bool:
        """True too where there is no such database."""
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
        """None where it is missing or not as it was written."""
        try:
            found = self._session.try_to(f"SELECT run, about FROM {self._marker_table} WHERE id = %s", MARKER)  # noqa: S608
            ((run, about),) = found
            marker = read_marker(json.loads(about))
        except (MySQLError, ValueError, TypeError):
            return None
        return marker if marker is not None and marker.run == run else None

    def remove(self, marker: Marker) -> bool:
        """Drop what `marker` says was made, if the database still carries it. Whether that was so.

        The marker goes last: whatever ends this half-way, the rest can still be told for what it is.
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
        """Drop the database if it holds nothing, also no marker. Whether that was so."""
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
