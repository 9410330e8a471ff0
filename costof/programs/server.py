"""The interfaces of a server program: `LabServer` for a server in a lab, `TargetServer` for a user's own server.

A server program is a module in this folder. Studies refer to it by its module name. The module defines `lab_server`, a
subclass of `LabServer`. If users' own servers are supported, it also defines `target_server`, a subclass of
`TargetServer`, and `leftovers`, a subclass of `Leftovers` for the clean-up. `NEEDED` maps the name of each program that
must be installed to a function that finds it or raises an error. `FETCHABLE` lists the programs that `costof fetch` can
download. `RELEASES` maps series, such as '18', to the releases of the server that `costof fetch` can download.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from costof.lab.releases import Release
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.programs.access import Access, ShownAccess, check_ca_file
from costof.programs.parts import ServerConfiguration, ServerPart, first, merged
from costof.programs.reach import check_identity
from costof.programs.target_database import choose_database_name


@dataclass(frozen=True)
class Place:
    """The needs of a server of a lab at its start: host, certificates, configuration, and facts about the workloads.

    - `new_address` returns an unused address of the host that all clients can reach.
    - `keys`: the kinds of certificate key that the server must be able to present, such as 'rsa-2048'. The server
      begins with the first one.
    - `number`: the server's number in the lab, from 1.
    - `kinds` maps each workload of costof's own load generator to its kind, such as {"log-in": "connect"}.
    - `records`: the number of records that the workloads use.
    - `client_statements`: for a load generator of `--client`, the number of statements in one operation by class, such
      as {"read": 14, "write": 4}.
    """

    lab: Lab
    host: Host
    authority: Authority
    keys: Sequence[str]
    new_address: Callable[[], str]
    configuration: ServerConfiguration = field(default_factory=ServerConfiguration)
    number: int = 1
    kinds: Mapping[str, str] = field(default_factory=dict)
    records: int = 0
    client_statements: Mapping[str, int] = field(default_factory=dict)

    def kind(self, answer: SliceAnswer) -> str | None:
        """Return the workload's kind, such as 'connect'; None if it was not run by costof's own load generator."""
        # After the workload's name, the answer may have a space, the arm's number of workers, and options.
        return self.kinds.get(answer.workload.split(" ")[0])

    def name(self, program: str) -> str:
        """Return the server's name among the processes of the lab, such as 'postgres' or 'postgres-2'."""
        return program if self.number == 1 else f"{program}-{self.number}"


class LabServer(ABC):
    """One server or a set of servers that the run starts, and the lab stops. They accept plain and TLS connections."""

    #: Whether near clients (round-trip time 0) always get a host of their own. If False, they share the server's host
    #: in a run without far clients. Figures of runs with and without far clients then cannot be compared.
    separate_clients: ClassVar[bool] = True
    #: Texts for --dry-run, one for each place to which the run writes, such as 'the lab's own server: costof.sbtest1'.
    writes: ClassVar[list[str]]
    #: The type of `place.configuration`: a model of the table `lab.server` in a study's TOML file.
    configuration_type: ClassVar[type[ServerConfiguration]] = ServerConfiguration
    #: The optional features of the program, and those that this server has.
    part_types: ClassVar[Sequence[type[ServerPart[Any]]]] = ()
    parts: Sequence[ServerPart[Any]] = ()

    #: Whether each write to the server's transaction log makes the file longer, rather than replacing bytes in it.
    appends: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, place: Place) -> None: ...

    @classmethod
    def check(cls, configuration: ServerConfiguration) -> None:
        """Raise `CostofError` if a server with this configuration needs something named by the user that is missing."""
        for part in cls.part_types:
            part.check(configuration)

    @abstractmethod
    def start(self) -> None:
        """Start the server and wait until it answers. Raises `PROGRAM_MISSING`, `LAB_FAILED`."""

    def accept(self, connections: int) -> None:
        """Set how many simultaneous connections the server must accept. It is called before `start`."""

    def make_tables(self) -> None:
        """Create empty tables before any client connects, since clients may look for the tables when they connect."""

    def close(self) -> None:
        """Close administrative connections. The lab stops the processes."""

    @abstractmethod
    def client_settings(self) -> ServiceSettings:
        """Return the settings of a client that connects directly, without a tunnel."""

    def settle(self) -> None:
        """Bring the data into a steady state, in which first queries are like later ones. Raises `LAB_FAILED`."""
        for part in self.parts:
            part.settle()

    @abstractmethod
    def counters(self, server: str) -> Counters:
        """Return the counters of the server (such as a member of a replica set) at `server` ('address:port')."""

    def evidence(self) -> dict[str, str]:
        """Return facts, read from the running server, that show its configuration. Raises `LAB_FAILED`."""
        return merged(part.evidence() for part in self.parts)

    def readings(self) -> dict[str, float]:
        """Return counters of the server so far by name, such as {'flushes': 12} or {'log_bytes': 3400}.

        They are read right before and right after each slice (a measured window). The report shows the increase per
        operation. In a study's metrics, the counter 'flushes' has the name 'server.flushes'.
        """
        return merged(part.readings() for part in self.parts)

    def finish_counting(self) -> None:
        """Make the server update its counters after a slice (a measured window), if it otherwise updates them late."""
        for part in self.parts:
            part.finish_counting()

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return how a slice (a measured window) contradicts the server's configuration; None if it does not.

        For example, the server should flush at each commit but made fewer flushes. Such a slice is discarded.
        `increases` has the increase of each of the `readings` in the slice, such as {"flushes": 12}.
        """
        return first(part.mismatch(increases, answer) for part in self.parts)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds of processes that the lab did not start itself, by role, such as {"server": 1.2}."""
        return {}

    def further_processes(self) -> list[tuple[str, int]]:
        """Return role and pid of processes that the lab did not start itself, such as [("server", 4711)]."""
        return []

    def failure_reason(self) -> str | None:
        """Return a text about a failed process that the server started without the lab; None if none has failed."""
        return None

    @abstractmethod
    def describe(self) -> Description:
        """Return the server's description. The lab appends a text about its hosts to `topology`."""

    def expect_tls(self, tls: bool) -> None:
        """Record whether clients use TLS from now on, for servers that cannot count TLS connections separately."""

    def show_key(self, kind: str) -> bool:
        """Present a certificate with this kind of key from now on, and return whether the key has changed.

        If it has changed, earlier session tickets are invalid.
        """
        raise CostofError(ErrorText.LAB_FAILED, detail="this server cannot change its key while it runs")

    def answers(self, address: str, port: int, host: Host) -> bool:
        """Return whether this server answers a connection from `host` to the address.

        If the address is a tunnel's, an answer shows that the tunnel is open.
        """
        raise CostofError(ErrorText.LAB_FAILED, detail="this server does not support tunnels")


class Fetchable(Protocol):
    """A program that `costof fetch` can download. `origin` says where the program comes from."""

    @property
    def name(self) -> str: ...
    @property
    def origin(self) -> str: ...

    def fetch(self) -> None:
        """Download the program into the user's cache. Raises `FetchError`, `OSError` or `CostofError`."""


class TargetUrl(Protocol):
    """The attributes of a parsed URL that every server program has. `shown` is the URL without secrets."""

    @property
    def shown(self) -> str: ...
    @property
    def tls(self) -> bool: ...
    @property
    def ca_file(self) -> Path | None: ...
    @property
    def password(self) -> SecretStr | None: ...


class Session(Protocol):
    """The administrative connection of a run to a user's own server."""

    def open(self) -> None:
        """Connect and log in. Raises `TARGET_UNREACHABLE`, `TARGET_REFUSES_LOGIN`, `TARGET_FAILED`."""

    def close(self) -> None:
        """Close the session; do nothing if it was never opened."""


@dataclass(frozen=True)
class PlannedUse:
    """The use that a run makes of a target: its workloads, and the levels of the study's main factor (the protection).

    - `kinds`: the kinds of the study's workloads, such as 'ycsb'. A target need not create tables that no workload
      uses.
    - `most_operations`: the maximum number of operations of the run; None if only time limits them.
    - `factor`: the main factor, such as 'transport'.
    - `levels` maps each level that the run measures, such as 'tls', to the level's table `target` in the study.
    - `offered` is like `levels`, but has all levels that this server may be able to measure.
    """

    kinds: frozenset[str] = frozenset()
    most_operations: int | None = None
    factor: str = ""
    levels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    offered: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


#: The use of a target by a command that does not measure, or in a study whose target does not depend on the use.
NO_USE = PlannedUse()


class TargetServer(ABC):
    """A user's own server, and the place for a run's data on it, such as a database.

    It is a context manager: entering it connects and claims the place, leaving it removes the data. The constructor
    parses the URL and does not connect.
    """

    url: TargetUrl
    session: Session
    #: The URL, without secrets, of a pooler in front of the server.
    pooler_shown: str | None = None
    #: The facts from `identity` at the run's first start if this run is resumed; empty in a new run.
    known_identity: Mapping[str, str] = {}

    @abstractmethod
    def __init__(self, access: Access, study: str, run: str, records: int, use: PlannedUse = NO_USE) -> None:
        """Parse the URL. Subclasses set `url` and `session`. Raises `BAD_TARGET`, `BAD_DATABASE`."""
        self.chosen = access.database
        self.records = records
        self.run = run
        self.use = use
        #: The name of the run's database or schema. For Redis, it is the part of the keys' prefix that identifies the
        #: run.
        self.database = choose_database_name(access.database, run)
        #: The server's error text for each optional statement that it has refused.
        self.refused: dict[str, str] = {}
        #: Why the server's counters cannot be read; None if they can be read.
        self.counters_hidden: str | None = None

    def __enter__(self) -> Self:
        """Connect, and reserve the place for the run's data (`claim`).

        Raises `TLS_CA_INVALID`, `OTHER_SERVER`, `LEVELS_UNSUPPORTED`, and the errors of `reach` and `claim`.
        """
        check_ca_file(self.ca_file)
        try:
            self.reach()
            # Check this before any write: a resumed run must not write to another server.
            check_identity(self.shown, self.known_identity, self.identity())
            self._check_levels()
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
            self.remove_created()
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
        """Log in without writing anything. Raises the errors of `Session.open`."""
        self.session.open()

    @abstractmethod
    def claim(self) -> None:
        """Reserve the place for the run's data, such as a database, as far as this is possible before data is loaded.

        Raises `TARGET_OCCUPIED` if the place is in use. Raises `PRIVILEGES_MISSING` before anything is written.
        """

    @abstractmethod
    def identity(self) -> dict[str, str]:
        """Return facts that identify this server across restarts, such as its version, if the account may read them."""

    @abstractmethod
    def remove_created(self) -> None:
        """Remove everything that this run has created on the server."""

    def close(self) -> None:
        self.session.close()

    @abstractmethod
    def client_settings(self) -> ServiceSettings: ...

    def redirects(self, target_settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client settings that differ from a direct connection's, such as a pooler's address; {} for none.

        `target_settings` is the table `target` of a study's level, such as {"pooler": true}.
        """
        return {}

    def may_lack(self, target_settings: Mapping[str, Any]) -> str | None:
        """Return what an arm (variant) requires of the server, such as 'a synchronous standby'; None for nothing.

        A dry run shows the text, because it does not connect to find out whether the server fulfils it.
        """
        return None

    @property
    def url_promises(self) -> bool:
        """Return whether the URL says that the server has what `may_lack` names. A dry run relies on this."""
        return False

    def lacks(self, target_settings: Mapping[str, Any]) -> str | None:
        """Return why this server does not support the target settings of an arm (measured variant); None if it does.

        It is called after `reach`, and writes nothing.
        """
        return None

    @abstractmethod
    def prepare(self, load: Callable[[], None]) -> None:
        """Create what `claim` has not created yet, call `load`, and wait until all servers have the data."""

    @abstractmethod
    def writes(self) -> list[str]:
        """Return texts for --dry-run, one for each thing that the run will create, insert or drop on the server."""

    def needs(self) -> list[str]:
        """Return, for --dry-run, the statements that grant the account the rights for a run."""
        return []

    def counts_at_disconnect(self, target_settings: Mapping[str, Any]) -> bool:
        """Return whether the server counts clients' work only if they disconnect after each slice (measured window)."""
        return False

    def readings(self, target_settings: Mapping[str, Any]) -> dict[str, float]:
        """Return counters of the server so far by name, such as {'flushes': 12} (`LabServer.readings`)."""
        return {}

    def finish_counting(self, target_settings: Mapping[str, Any]) -> None:
        """Wait after a slice (a measured window) until the server's counters are up to date."""

    def mismatch(
        self, target_settings: Mapping[str, Any], increases: Mapping[str, float], answer: SliceAnswer
    ) -> str | None:
        """Return how a slice (a measured window) contradicts its arm's target settings; None if it does not.

        `increases` has the increase of each of the `readings` in the slice, such as {"flushes": 12}.
        """
        return None

    def evidence(self, target_settings: Mapping[str, Any]) -> dict[str, str]:
        """Return facts, such as the state of standbys, for an arm (measured variant) with these target settings."""
        return {}

    def counters(self, server: str) -> Counters:
        """Return the counters of the server at `server` ('address:port'); empty if the account may not read them."""
        return Counters()

    @abstractmethod
    def describe(self) -> Description: ...

    def warnings(self) -> list[str]:
        """Return the warnings about the server. It is called once, after the run."""
        warnings = []
        if self.refused:
            what, detail = listed([*self.refused]), next(iter(self.refused.values()))
            warnings.append(WarningText.SERVER_REFUSES.text(what=what, detail=detail))
        if self.counters_hidden:
            warnings.append(WarningText.SERVER_COUNTERS_HIDDEN.text(detail=self.counters_hidden))
        return warnings

    def _check_levels(self) -> None:
        reasons = {level: reason for level, each in self.use.levels.items() if (reason := self.lacks(each)) is not None}
        if reasons:
            raise CostofError(
                ErrorText.LEVELS_UNSUPPORTED,
                target=self.shown,
                factor=self.use.factor,
                levels=",".join(reasons),
                reason=next(iter(reasons.values())),
                others=",".join(level for level, each in self.use.offered.items() if self.lacks(each) is None),
            )

    def _occupied(self, what: str = "already exists, and its content is not from this run") -> CostofError:
        return CostofError(ErrorText.TARGET_OCCUPIED, database=self.database, target=self.shown, what=what)


def lab_server(program: str | None) -> type[LabServer]:
    server: type[LabServer] | None = getattr(_module(program), "lab_server", None)
    if server is None:
        raise CostofError(ErrorText.NO_SERVICE, what="server program", name=program)
    return server


def target_server(program: str | None, study: str) -> type[TargetServer]:
    """Return a program's subclass of `TargetServer`. Raises `LAB_ONLY_PROGRAM` for `study` if there is none."""
    server: type[TargetServer] | None = getattr(_module(program), "target_server", None)
    if server is None:
        raise CostofError(ErrorText.LAB_ONLY_PROGRAM, study=study)
    return server


def programs_needed() -> dict[str, Callable[[], str]]:
    """Return, by program name, functions that find the required programs, and raise an error for a missing one."""
    return {name: find for module in modules() for name, find in getattr(module, "NEEDED", {}).items()}


def fetchable_programs() -> dict[str, Fetchable]:
    """Return everything that `costof fetch` can download, by name: programs, and releases such as 'postgres@18'."""
    programs: Iterable[Fetchable] = (each for module in modules() for each in getattr(module, "FETCHABLE", ()))
    return dict(sorted({each.name: each for each in (*programs, *fetchable_releases().values())}.items()))


def fetchable_releases() -> dict[str, Release]:
    """Return the releases of all server programs by their names, such as 'postgres@18'."""
    by_module: Iterable[Mapping[str, Release]] = (getattr(module, "RELEASES", {}) for module in modules())
    return {release.name: release for releases in by_module for release in releases.values()}


def modules() -> list[ModuleType]:
    """Import and return the modules of all programs. The import is slow because of the database drivers."""
    return [import_module(f"{__package__}.{module.name}") for module in iter_modules(programs.__path__)]


def _module(program: str | None) -> ModuleType:
    name = f"{__package__}.{program}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise CostofError(ErrorText.NO_SERVICE, what="server program", name=program) from None
