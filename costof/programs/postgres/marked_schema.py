"""A schema with costof's marker in a PostgreSQL database: locked while its run lasts, and removed as it was made."""

from __future__ import annotations

import json

import psycopg

from costof.programs.own_database import MARKER, MARKER_NAME, Marker, read_marker
from costof.programs.postgres.session import PostgresSession

#: All that a schema may hold; what hangs on a table, such as its index, goes with it.
_HOLDS = """
SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind NOT IN ('i', 'I', 't')
UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(%s)
UNION ALL SELECT typname FROM pg_type WHERE typnamespace = to_regnamespace(%s) AND typtype IN ('e', 'd', 'r')
"""


class MarkedSchema:
    """`name` has been checked: letters, digits and underscores."""

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
        """The schema and its marker, both or neither."""
        with self._session.all_or_nothing():
            self._session.try_to(f"CREATE SCHEMA {self.quoted}")
            columns = "id varchar(40) PRIMARY KEY, run varchar(255) NOT NULL, about text NOT NULL"
            self._session.try_to(f"CREATE TABLE {self._marker_table} ({columns})")
            values = (MARKER, marker.run, marker.model_dump_json())
            self._session.try_to(f"INSERT INTO {self._marker_table} VALUES (%s, %s, %s)", *values)  # noqa: S608

    def use(self) -> None:
        """Names without a schema are of this one from here on."""
        self._session.ask(f"SET search_path = {self.quoted}")

    def marker(self) -> Marker | None:
        """None where it is missing or not as it was written."""
        try:
            ((run, about),) = self._session.try_to(
                f"SELECT run, about FROM {self._marker_table} WHERE id = %s",  # noqa: S608  # our own name
                MARKER,
            )
            marker = read_marker(json.loads(about))
        except (psycopg.Error, ValueError, TypeError):
            return None
        return marker if marker is not None and marker.run == run else None

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
    """Whether nobody has made anything in the database, but what every new one has."""
    schemas = "SELECT 1 FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')"
    large_objects = "SELECT 1 FROM pg_largeobject_metadata"
    others = f"{schemas} UNION ALL {large_objects}"
    return not session.ask(others) and not session.ask(_HOLDS, *["public"] * 3)
