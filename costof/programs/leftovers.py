"""Leftovers of killed runs on a user's server: how to find and remove them, and whether their run is still active."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from costof.errors import CostofError, ErrorText
from costof.programs.access import Access, check_ca_file
from costof.programs.server import Session, TargetUrl, modules
from costof.programs.target_database import DEAD_AFTER_SECONDS, Marker


@dataclass(frozen=True)
class Leftover:
    """A database that a run has left behind.

    `marker` is the record that the run has written into the database. It is None if there is no marker; the database is
    then a leftover only if it is empty and its name has the form of costof's generated names. `in_use` is the reason to
    keep the database, or None if it may be removed.
    """

    database: str
    marker: Marker | None
    in_use: str | None


class Leftovers(ABC):
    """The leftovers of killed runs on one server.

    A run writes a marker (a record of what it creates) into its database. Databases without an intact marker are
    removed only if they are empty.
    """

    schemes: ClassVar[Collection[str]]
    url: TargetUrl
    session: Session

    @abstractmethod
    def __init__(self, access: Access) -> None: ...

    @property
    def shown(self) -> str:
        return self.url.shown

    @abstractmethod
    def find(self) -> list[Leftover]:
        """Return all leftovers that the URL's account may see. Raises `TARGET_FAILED`."""

    @abstractmethod
    def remove(self, leftover: Leftover) -> bool:
        """Drop the tables or other data that the run has created, or the empty database.

        Return whether anything was dropped. Nothing is dropped if the marker (the run's record in the database) has
        changed since `find`, or if the empty database now holds something.
        """


@contextmanager
def open_leftovers(access: Access) -> Iterator[Leftovers]:
    """Log in to the server of a URL and yield its leftovers. Raises `BAD_TARGET` and the errors of `Session.open`."""
    kinds: list[type[Leftovers]] = [module.leftovers for module in modules() if hasattr(module, "leftovers")]
    by_scheme = {scheme: kind for kind in kinds for scheme in kind.schemes}
    scheme = access.url.partition("://")[0].lower()
    if scheme not in by_scheme:
        known = " or ".join(f"{each}://…" for each in sorted(by_scheme))
        raise CostofError(ErrorText.BAD_TARGET, study="clean", detail=f"write it as {known}")
    server = by_scheme[scheme](access)
    check_ca_file(server.url.ca_file)
    try:
        server.session.open()
        yield server
    finally:
        server.session.close()


def running_here(marker: Marker) -> str | None:
    """Return why a database must be kept if its run's process is alive on this machine; otherwise None."""
    return f"its run is still active ({marker.maker})" if marker.maker.is_alive() else None


def in_use_by_heartbeat(marker: Marker, seconds_since: float | None) -> str | None:
    """Return why a database must be kept; None if its run is dead.

    A run is alive if its process is alive on this machine. If its process is on another machine, the run counts as
    alive for `DEAD_AFTER_SECONDS` after its last heartbeat. `seconds_since` is None if there was no heartbeat.
    """
    if here := running_here(marker):
        return here
    if marker.maker.is_alive() is False or seconds_since is None or seconds_since > DEAD_AFTER_SECONDS:
        return None
    heartbeat = f"its run's last heartbeat was {seconds_since:.0f} s ago ({marker.maker})"
    return f"{heartbeat}; the run counts as dead after {DEAD_AFTER_SECONDS:.0f} s without one"
