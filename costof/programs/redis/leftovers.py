"""Strings with costof's marker on a Redis server. A run leaves signs of life there while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from costof.programs.access import Access
from costof.programs.ca_file import check_ca_file
from costof.programs.leftovers import Leftover, Server, in_use_by_signs
from costof.programs.redis.marked_strings import RUNS, MarkedStrings, StringsMarker
from costof.programs.redis.session import RedisSession
from costof.programs.redis.url import parse_redis_url


class RedisServer(Server):
    def __init__(self, session: RedisSession, shown: str) -> None:
        self.shown = shown
        self._session = session

    def find(self) -> list[Leftover]:
        # The other fields are signs of life, and no name has a colon.
        names = sorted(field for field in self._session.ask("HKEYS", RUNS) if ":" not in field)
        found = [MarkedStrings(self._session, name) for name in names]
        return [
            Leftover(strings.name, marker, in_use_by_signs(marker, strings.seconds_silent()))
            for strings in found
            if (marker := strings.marker())
        ]

    def remove(self, leftover: Leftover) -> bool:
        assert isinstance(leftover.marker, StringsMarker)
        return MarkedStrings(self._session, leftover.database).remove(leftover.marker)


def opened(access: Access) -> Iterator[Server]:
    url = parse_redis_url(access, "clean")
    check_ca_file(url.ca_file)
    session = RedisSession(url)
    try:
        session.open()
        yield RedisServer(session, url.shown)
    finally:
        session.close()
