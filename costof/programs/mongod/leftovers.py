"""Databases with costof's marker on a MongoDB. A run leaves signs of life there while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from costof.programs.access import Access
from costof.programs.ca_file import check_ca_file
from costof.programs.leftovers import Leftover, Server, in_use_by_signs
from costof.programs.mongod.marked_database import MarkedDatabase
from costof.programs.mongod.session import MongodbSession
from costof.programs.mongod.url import parse_mongodb_url
from costof.programs.own_database import MARKER_NAME, could_be_own, is_new_name


class MongodbServer(Server):
    def __init__(self, session: MongodbSession, shown: str) -> None:
        self.shown = shown
        self._session = session

    def find(self) -> list[Leftover]:
        names = self._session.asked(self._session.client.list_database_names)
        found = []
        for name in sorted(name for name in names if could_be_own(name)):
            database = MarkedDatabase(self._session, name)
            marker = database.marker() if MARKER_NAME in database.collections() else None
            if marker is not None:
                found.append(Leftover(name, marker, in_use_by_signs(marker, database.seconds_silent())))
            elif is_new_name(name) and not database.collections():
                # A MongoDB has no such databases; a server like it keeps one that a run has emptied.
                found.append(Leftover(name, None, None))
        return found

    def remove(self, leftover: Leftover) -> bool:
        database = MarkedDatabase(self._session, leftover.database)
        return database.remove(leftover.marker) if leftover.marker else database.remove_empty()


def opened(access: Access) -> Iterator[Server]:
    url = parse_mongodb_url(access, "clean")
    check_ca_file(url.ca_file)
    session = MongodbSession(url)
    session.open()
    try:
        yield MongodbServer(session, url.shown)
    finally:
        session.close()
