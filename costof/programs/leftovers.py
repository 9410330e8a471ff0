"""What killed runs have left on somebody's server: databases with costof's marker, and whether a run lives."""

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
    """A database with an intact marker, or an empty one with a name that only a run makes and no marker (None).

    `in_use`: why it must be left alone, or None for one that may go.
    """

    database: str
    marker: Marker | None
    in_use: str | None


class Leftovers(ABC):
    """Those on one server. Of databases without an intact marker only empty ones are touched."""

    #: Of the server's URL.
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
        """Return all that this account may see. Raises `TARGET_FAILED`."""

    @abstractmethod
    def remove(self, leftover: Leftover) -> bool:
        """Drop what its run has made, or the empty database, and return True. Where its marker has changed since, or
        something is in it now, touch nothing and return False."""


@contextmanager
def reached(access: Access) -> Iterator[Leftovers]:
    """Log in to the server of a URL. Raises `BAD_TARGET`, and what a log-in is refused for."""
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


def in_use_here(marker: Marker) -> str | None:
    """Return why a database is in use, where its maker can be seen from here and lives."""
    return f"its run goes on ({marker.maker})" if marker.maker.lives() else None


def in_use_by_signs(marker: Marker, seconds_silent: float | None) -> str | None:
    """The same where runs leave signs of life, the last so long ago. One whose maker is seen to be dead needs no
    waiting."""
    if here := in_use_here(marker):
        return here
    if marker.maker.lives() is False or seconds_silent is None or seconds_silent > DEAD_AFTER_SECONDS:
        return None
    told = f"its run showed life {seconds_silent:.0f} s ago ({marker.maker})"
    return f"{told}; it is taken for dead after {DEAD_AFTER_SECONDS:.0f} s without"
