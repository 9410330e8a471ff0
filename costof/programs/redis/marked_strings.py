"""Strings of a run's own on a Redis server: how many, under which keys, and who says so.

The hash `costof:runs` has a marker for each run that has strings there, and its last sign of life. So what killed runs
have left is found without looking through the keys of others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from pydantic import ValidationError

from costof.programs.own_database import Marker
from costof.programs.redis.session import RedisSession

RUNS = "costof:runs"
#: Of keys, in one command: little enough to hold nobody up.
BATCH = 500


class StringsMarker(Marker):
    """`records` strings were written, or fewer."""

    records: int


class MarkedStrings:
    """Those of the run `name`, under keys `costof:<name>:key:<number>`."""

    def __init__(self, session: RedisSession, name: str) -> None:
        self.name = name
        self.prefix = f"costof:{name}:"
        self._session = session

    def mark(self, marker: StringsMarker) -> bool:
        """Whether nobody has such strings yet."""
        return bool(self._session.ask("HSETNX", RUNS, self.name, marker.model_dump_json()))

    def marker(self) -> StringsMarker | None:
        """None where it is missing or not as it was written."""
        found = self._session.ask("HGET", RUNS, self.name)
        try:
            return StringsMarker.model_validate_json(found or "")
        except ValidationError:
            return None

    def any_is_there(self, records: int) -> bool:
        """Whether one of the keys is taken."""
        return any(self._session.ask("EXISTS", *keys) for keys in self._batches(records))

    def beat(self) -> None:
        """Leave a sign of life, by the server's clock. Raises `RedisError`."""
        seconds, _ = self._session.try_to("TIME")
        self._session.try_to("HSET", RUNS, self._alive, str(seconds))

    def seconds_silent(self) -> float | None:
        """Since the last sign of life, by the server's clock; None where there was none."""
        found = self._session.ask("HGET", RUNS, self._alive)
        seconds, _ = self._session.ask("TIME")
        return float(seconds) - float(found) if found and found.isdigit() else None

    def remove(self, marker: StringsMarker) -> bool:
        """Remove what `marker` says was written, if the server still has it so. Whether that was so.

        The marker goes last: whatever ends this half-way, the rest can still be told for what it is.
        """
        if self.marker() != marker:
            return False
        for keys in self._batches(marker.records):
            self._session.ask("UNLINK", *keys)
        self._session.ask("HDEL", RUNS, self._alive, self.name)
        return True

    @property
    def _alive(self) -> str:
        """No name has a colon."""
        return f"{self.name}:alive"

    def _batches(self, records: int) -> Iterator[list[str]]:
        keys = (f"{self.prefix}key:{record:012}" for record in range(records))
        return iter(lambda: list(islice(keys, BATCH)), [])
