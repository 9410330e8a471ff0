"""Databases with costof's marker on a MySQL or MariaDB server. A run holds a lock there while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from costof.programs.access import Access
from costof.programs.ca_file import check_ca_file
from costof.programs.leftovers import Leftover, Server, in_use_here
from costof.programs.mariadb.marked_database import MarkedDatabase
from costof.programs.mariadb.session import MysqlSession
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import MARKER_NAME, Marker, could_be_own, is_new_name


class MysqlServer(Server):
    def __init__(self, session: MysqlSession, shown: str) -> None:
        self.shown = shown
        self._session = session

    def find(self) -> list[Leftover]:
        rows = self._session.ask(
            "SELECT table_schema FROM information_schema.tables WHERE table_name = %s", MARKER_NAME
        )
        found = []
        for name in sorted(row[0] for row in rows if could_be_own(row[0])):
            database = MarkedDatabase(self._session, name)
            marker = database.marker()
            if marker is not None:
                found.append(Leftover(name, marker, _in_use(database, marker)))
        return found + self._find_empty()

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self._session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()

    def _find_empty(self) -> list[Leftover]:
        """Those of runs that ended between making a database and marking it."""
        rows = self._session.ask("SELECT schema_name FROM information_schema.schemata")
        names = sorted(row[0] for row in rows if is_new_name(row[0]))
        databases = [MarkedDatabase(self._session, name) for name in names]
        return [Leftover(each.name, None, _in_use(each, None)) for each in databases if each.is_empty()]


def opened(access: Access) -> Iterator[Server]:
    url = parse_mysql_url(access, "clean")
    check_ca_file(url.ca_file)
    session = MysqlSession(url)
    session.open()
    try:
        yield MysqlServer(session, url.shown)
    finally:
        session.close()


def _in_use(database: MarkedDatabase, marker: Marker | None) -> str | None:
    """The lock of one that is free is ours from here to the end of the connection, so that no run can take it."""
    maker = f" ({marker.maker})" if marker else ""
    if marker and (here := in_use_here(marker)):
        return here
    if not database.locks():
        told = "this server has no locks, so nobody can tell whether its run goes on"
        is_over = marker is not None and marker.maker.lives() is False
        return None if is_over else f"{told}{maker}; drop it yourself once it is over"
    return None if database.lock() else f"its run holds its lock{maker}"
