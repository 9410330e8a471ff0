"""What a server program says of itself, so that a study can ask it: a server of a lab's, and a user's own.

A program is a module of this folder. It has `lab_server`, a class of `LabServer`; for users' own servers `target_server`,
a class of `TargetServer`; and to be cleaned up after there, `leftovers`, a class of `Leftovers`. Its name is known to the
studies that ask for it. `NEEDED` is what must be on the machine: by name, what finds it, or raises.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType, TracebackType
from typing import Any, ClassVar, Protocol, Self

from pydantic import SecretStr

from costof import programs
from costof.errors import CostofError, ErrorText, WarningText
from costof.format import listed
from costof.lab.certificates import Authority
from costof.lab.host import Host
from costof.lab.lab import Lab
from costof.lab.program import Counters, Description
from costof.messages.plan import ServiceSettings
from costof.programs.access import Access, ShownAccess, check_ca_file
from costof.programs.reach import check_identity
from costof.programs.target_database import choose_database_name


@dataclass(frozen=True)
class Place:
    """Where a server of a lab's stands. `new_address` is one more address of the host that every client reaches.

    `keys` are the kinds of key that it must be able to show, the first of them from the start.
    """

    lab: Lab
    host: Host
    authority: Authority
    keys: Sequence[str]
    new_address: Callable[[], str]


class LabServer(ABC):
    """One server of the run's own, or a set of them. It takes plain and TLS, and ends with the lab."""

    #: Whether near clients have a host of their own too, where root allows it, so that near is the same beside far ones
    #: and alone.
    separate_clients: ClassVar[bool] = True
    #: What is written in a run, in words.
    writes: ClassVar[list[str]]

    @abstractmethod
    def __init__(self, place: Place) -> None: ...

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it answers. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def make_tables(self) -> None:
        """Make empty tables before any client connects, since measures may look at them at once."""

    def close(self) -> None:
        """Leave the processes to the lab, which ends them."""

    @abstractmethod
    def client_settings(self) -> ServiceSettings:
        """Return the settings of a client that comes by no tunnel."""

    def settle(self) -> None:
        """Make the first queries after the load like all later ones. Raises `LAB_FAILED`."""

    @abstractmethod
    def counters(self, server: str) -> Counters:
        """Return the counters of the member at `server` ('address:port')."""

    @abstractmethod
    def describe(self) -> Description:
        """`topology`: what stands, such as 'one server'; where, the lab says."""

    def expect_tls(self, tls: bool) -> None:
        """Take what clients speak from now on, for a server that counts connections and not which of them have TLS."""

    def show_key(self, kind: str) -> bool:
        """Show a key of this kind from now on. Return whether that is a change, which voids earlier tickets."""
        raise CostofError(ErrorText.LAB_FAILED, detail="this server keeps the key that it was started with")

    def answers(self, address: str, port: int, host: Host) -> bool:
        """Return whether this server answers a client of `host` there: the condition on which a tunnel stands."""
        raise CostofError(ErrorText.LAB_FAILED, detail="whether this server stands behind a tunnel cannot be told")


class TargetUrl(Protocol):
    """What the URLs of all programs say. `shown` has no secret in it."""

    @property
    def shown(self) -> str: ...
    @property
    def tls(self) -> bool: ...
    @property
    def ca_file(self) -> Path | None: ...
    @property
    def password(self) -> SecretStr | None: ...


class Session(Protocol):
    """A connection to a user's own server."""

    def open(self) -> None:
        """Raises `TARGET_UNREACHABLE`, `TARGET_REFUSES_LOGIN`, `TARGET_FAILED`."""

    def close(self) -> None:
        """Also one that was not opened."""


class TargetServer(ABC):
    """A server of a user's own, and the place for a run's data there. A context manager; leaving it removes the data.

    Made, it has read the URL and reached nothing.
    """

    url: TargetUrl
    session: Session
    #: The URL, without secrets, of a pool that stands before it.
    pooler_shown: str | None = None
    #: What identified the server when the run was begun that is resumed now; empty for a new run.
    known_identity: Mapping[str, str] = {}

    @abstractmethod
    def __init__(self, access: Access, study: str, run: str, records: int) -> None:
        """`records`: how many will be loaded. Programs set `url` and `session`. Raises `BAD_TARGET`, `BAD_DATABASE`."""
        self.chosen = access.database
        self.records = records
        self.run = run
        #: The name of the run's place: a database, a schema, or a part of keys.
        self.database = choose_database_name(access.database, run)
        #: What the server refuses that no figure needs, with its words.
        self.refused: dict[str, str] = {}
        #: Why its counters cannot be read.
        self.counters_hidden: str | None = None

    def __enter__(self) -> Self:
        """Raises `TLS_CA_INVALID`, `OTHER_SERVER`, and as `reach` and `claim`."""
        check_ca_file(self.ca_file)
        try:
            self.reach()
            # Before anything is written on a server that may be another one.
            check_identity(self.shown, self.known_identity, self.identity())
            self.claim()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            self.remove_made()
        finally:
            self.close()

    @property
    def shown(self) -> str:
        return self.url.shown

    @property
    def tls(self) -> bool:
        return self.url.tls

    @property
    def ca_file(self) -> Path | None:
        return self.url.ca_file

    def shown_access(self) -> ShownAccess:
        return ShownAccess(self.shown, pooler_url=self.pooler_shown, with_password=bool(self.url.password))

    def reach(self) -> None:
        """Log in, and write nothing. Raises as `Session.open`."""
        self.session.open()

    @abstractmethod
    def claim(self) -> None:
        """Make the place of the run, or begin to.

        Raises what it refuses, and what the account lacks before anything is written.
        """

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return what tells this server from others and survives its restart, as far as this account may read it."""

    @abstractmethod
    def remove_made(self) -> None:
        """Remove what this run has made there, if it has made anything."""

    def close(self) -> None:
        """Leave the server, also one that was not reached."""
        self.session.close()

    @abstractmethod
    def client_settings(self) -> ServiceSettings: ...

    def redirects(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return what replaces the server's own address for a client whose arm asks for another of the user's."""
        return {}

    @abstractmethod
    def prepare(self, load: Callable[[], None]) -> None:
        """Make what was not made before, `load` the data, and wait until every member has it."""

    @abstractmethod
    def writes(self) -> list[str]:
        """Every write, in words (`--dry-run`)."""

    def needs(self) -> list[str]:
        """What the account must be allowed to do, and how it is granted (`--dry-run`)."""
        return []

    def counters(self, server: str) -> Counters:
        """Return the counters of the member at `server` ('address:port'), where the account may read them."""
        return Counters()

    @abstractmethod
    def describe(self) -> Description: ...

    def warnings(self) -> list[str]:
        """What a reader must know of it, once the run is over."""
        found = []
        if self.refused:
            what, detail = listed([*self.refused]), next(iter(self.refused.values()))
            found.append(WarningText.SERVER_REFUSES.text(what=what, detail=detail))
        if self.counters_hidden:
            found.append(WarningText.SERVER_COUNTERS_HIDDEN.text(detail=self.counters_hidden))
        return found

    def _occupied(self, what: str = "is there already, and this run did not make what it holds") -> CostofError:
        return CostofError(ErrorText.TARGET_OCCUPIED, database=self.database, target=self.shown, what=what)


def lab_server(program: str | None) -> type[LabServer]:
    found: type[LabServer] | None = getattr(_module(program), "lab_server", None)
    if found is None:
        raise CostofError(ErrorText.NO_SERVICE, what="server program", name=program)
    return found


def target_server(program: str | None) -> type[TargetServer]:
    found: type[TargetServer] | None = getattr(_module(program), "target_server", None)
    if found is None:
        raise CostofError(ErrorText.LAB_ONLY_PROGRAM, program=program)
    return found


def programs_needed() -> dict[str, Callable[[], str]]:
    """Return by name what finds each program that must be on the machine, or raises."""
    return {name: look for module in modules() for name, look in getattr(module, "NEEDED", {}).items()}


def modules() -> list[ModuleType]:
    """Import the modules of all programs: a start long, since each brings its drivers."""
    return [import_module(f"{__package__}.{found.name}") for found in iter_modules(programs.__path__)]


def _module(program: str | None) -> ModuleType:
    name = f"{__package__}.{program}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise CostofError(ErrorText.NO_SERVICE, what="server program", name=program) from None
