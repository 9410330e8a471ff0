"""Schemas with costof's marker on a PostgreSQL server. A run holds a lock in their database while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from costof.errors import CostofError
from costof.programs.access import Access
from costof.programs.ca_file import check_ca_file
from costof.programs.leftovers import Leftover, Server, in_use_here
from costof.programs.login_url import LoginUrl
from costof.programs.own_database import MARKER_NAME, Marker, could_be_own, is_new_name
from costof.programs.postgres.marked_schema import MarkedSchema, holds_nothing, remove_made
from costof.programs.postgres.session import PostgresSession
from costof.programs.postgres.url import first_database, parse_postgres_url

_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn AND has_database_privilege(datname, 'CONNECT')"
_MARKED = "SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid WHERE relname = %s"


class PostgresServer(Server):
    """What it finds is a database that a run has made, or `database.schema`."""

    def __init__(self, session: PostgresSession, url: LoginUrl) -> None:
        self.shown = url.shown
        self._url = url
        self._session = session

    def find(self) -> list[Leftover]:
        return [each for (database,) in sorted(self._session.ask(_DATABASES)) for each in self._find_in(database)]

    def remove(self, leftover: Leftover) -> bool:
        database, _, name = leftover.database.rpartition(".")
        place = PostgresSession(self._url, database or name)
        place.open()
        schema = MarkedSchema(place, name)
        if not schema.lock():
            place.close()
            return False
        if leftover.marker is not None:
            return remove_made(schema, leftover.marker, place, self._session)
        is_empty = holds_nothing(place)
        place.close()
        if is_empty:
            self._session.ask(f'DROP DATABASE "{name}"')
        return is_empty

    def _find_in(self, database: str) -> list[Leftover]:
        place = PostgresSession(self._url, database)
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
            return [_leftover(schema, marker, database) for schema in schemas if (marker := schema.marker())]
        finally:
            place.close()


def opened(access: Access) -> Iterator[Server]:
    url = parse_postgres_url(access, "clean")
    check_ca_file(url.ca_file)
    session = PostgresSession(url, first_database(url))
    session.open()
    try:
        yield PostgresServer(session, url)
    finally:
        session.close()


def _leftover(schema: MarkedSchema, marker: Marker, database: str) -> Leftover:
    name = schema.name if marker.made_database else f"{database}.{schema.name}"
    return Leftover(name, marker, _in_use(schema, marker))


def _in_use(schema: MarkedSchema, marker: Marker | None) -> str | None:
    if marker and (here := in_use_here(marker)):
        return here
    return None if schema.lock() else "its run holds its lock" + (f" ({marker.maker})" if marker else "")
