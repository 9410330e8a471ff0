"""A database with costof's marker on a MongoDB: its run leaves signs of life there; it is removed as it was made."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

import pymongo

from costof.errors import CostofError
from costof.programs.mongod.session import MongodbSession
from costof.programs.own_database import MARKER, MARKER_NAME, Marker, read_marker

LIFE = "alive"


class MarkedDatabase:
    def __init__(self, session: MongodbSession, name: str) -> None:
        self.name = name
        self._session = session

    def collections(self) -> list[str]:
        found: list[str] = self._session.asked(lambda: self._database.list_collection_names())
        return found

    def mark(self, marker: Marker) -> None:
        kept = self._database.get_collection(MARKER_NAME, write_concern=pymongo.WriteConcern("majority"))
        self._session.asked(lambda: kept.insert_one({"_id": MARKER, **marker.model_dump()}))

    def marker(self) -> Marker | None:
        """None where it is missing or not as it was written."""
        found = self._session.asked(lambda: self._marker_collection.find_one({"_id": MARKER}))
        return read_marker({name: value for name, value in found.items() if name != "_id"}) if found else None

    def beat(self) -> None:
        """Leave a sign of life, by the server's clock. Raises `PyMongoError`."""
        self._marker_collection.update_one({"_id": LIFE}, {"$currentDate": {"at": True}}, upsert=True)

    def seconds_silent(self) -> float | None:
        """Since the last sign of life, by the server's clock; None where there was none."""
        found = self._session.asked(lambda: self._marker_collection.find_one({"_id": LIFE}))
        if not found or not isinstance(found.get("at"), datetime):
            return None
        now = self._session.asked(lambda: self._session.client.admin.command("hello"))["localTime"]
        return float((now - found["at"]).total_seconds())

    def remove(self, marker: Marker) -> bool:
        """Drop what `marker` says was made, if the database still carries it. Whether that was so.

        The marker goes last: whatever ends this half-way, the rest can still be told for what it is.
        """
        if self.marker() != marker:
            return False
        for name in [*marker.tables, MARKER_NAME]:
            self._session.asked(partial(self._database.drop_collection, name))
        if marker.made_database:
            # Without the right to drop it, it stays, and is empty.
            with suppress(CostofError):
                self.remove_empty()
        return True

    def is_listed(self) -> bool:
        """Return whether there is such a database, as far as the account may see."""
        return self.name in self._session.asked(self._session.client.list_database_names)

    def remove_empty(self) -> bool:
        """Drop the database if it is there without a collection. Whether that was so.

        On a MongoDB it is gone with its last collection, and an account needs no right to drop it; servers like it keep
        it.
        """
        if not self.is_listed() or self.collections():
            return False
        self._session.asked(lambda: self._session.client.drop_database(self.name))
        return True

    @property
    def _database(self) -> Any:
        return self._session.client[self.name]

    @property
    def _marker_collection(self) -> Any:
        return self._database[MARKER_NAME]
