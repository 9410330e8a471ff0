"""The configuration of a lab's server, and its parts: optional features such as an audit log, one file each.

A server program lists all its parts. Each server gets the parts that its configuration needs, and combines the options,
settings and facts that they return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import Field, create_model

from costof.lab.debian import Packages
from costof.messages.answers import SliceAnswer
from costof.model import Model


class ServerConfiguration(Model):
    """The configuration of one server of a lab, from the table `lab.server` in the study's TOML file.

    The configuration of a server program also has the fields that its optional features add (`configuration_of`).
    """

    settings: dict[str, str] = Field(default={}, description="Settings of the server that differ from the lab's usual.")
    client_certificates: bool = Field(default=False, description="Whether every client needs a certificate, over TLS.")


class VersionedConfiguration(ServerConfiguration):
    """The configuration of a server whose version a study can choose."""

    version: str = Field(
        default="",
        description="The series of a release, such as '18', or the absolute path of a folder with the server's "
        "programs; '' for the installed server.",
    )


Value = TypeVar("Value")
Configuration = TypeVar("Configuration", bound=ServerConfiguration)


class ServerPart(Generic[Configuration]):
    """An optional feature of a lab's server. The methods do nothing unless a subclass overrides them."""

    #: A model with the fields that this optional feature adds to the table `lab.server` of a study.
    configuration_type: ClassVar[type[ServerConfiguration]] = ServerConfiguration
    #: The programs that only this part needs, in the forms of `NEEDED` and `FETCHABLE` (`costof/programs/server.py`).
    needed: ClassVar[Mapping[str, Callable[[], str]]] = {}
    fetchable: ClassVar[Sequence[Packages]] = ()

    def __init__(self, server: Any, configuration: Configuration) -> None:
        self.server = server
        self.configuration = configuration

    @classmethod
    def is_needed(cls, configuration: Configuration) -> bool:
        """Return whether a server with this configuration has this feature."""
        return True

    @classmethod
    def check(cls, configuration: Configuration) -> None:
        """Raise `CostofError` if the user named something that does not exist. Called before anything is started."""

    def find(self) -> Path | None:
        """Return the path of the server's program if this feature chooses it, otherwise None. Raises `CostofError`."""
        return None

    def prepare(self) -> None:
        """Create what must exist before the server's data, such as a file system.

        The server's program has been found, and its folder exists.
        """

    def settings(self) -> dict[str, str]:
        """Return settings of the server. A study's settings override them."""
        return {}

    def options(self) -> list[str]:
        """Return options for the server's command line. Unlike `settings`, they are not listed in reports."""
        return []

    def prefix(self) -> list[str]:
        """Return a prefix for the server's command line, for example to redirect its syslog messages; [] for none."""
        return []

    def started(self) -> None:
        """Finish the feature's set-up after the server has begun to answer."""

    def settle(self) -> None:
        """Wait until the server has finished its work on loaded data."""

    def evidence(self) -> dict[str, str]:
        """Return facts, read from the running server, that show its configuration. Raises `LAB_FAILED`."""
        return {}

    def readings(self) -> dict[str, float]:
        """Return counters of the server so far by name, such as {"flushes": 12}, for `LabServer.readings`."""
        return {}

    def finish_counting(self) -> None:
        """Make the server update its counters after a slice (a measured window), if it otherwise updates them late."""

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        """Return how the `increases` of the readings contradict the configuration; None if they do not.

        The increases happened in a slice (a measured window), such as {"flushes": 12}.
        """
        return None

    def facts(self) -> dict[str, str]:
        """Return facts about this feature for the report, by name, such as {"audit plugin": "server_audit"}."""
        return {}


Part = TypeVar("Part", bound=ServerPart[Any])


def needed_parts(parts: Iterable[type[Part]], server: Any, configuration: ServerConfiguration) -> Sequence[Part]:
    """Return new instances of the parts (optional features) that a server's configuration needs.

    `configuration` must be an instance of `configuration_of(parts)`.
    """
    return [part(server, configuration) for part in parts if part.is_needed(configuration)]


def configuration_of(parts: Iterable[type[ServerPart[Any]]]) -> type[ServerConfiguration]:
    """Return a subclass of `ServerConfiguration` that has the fields of all these parts (optional features)."""
    types = {part.configuration_type for part in parts} - {ServerConfiguration}
    bases = sorted(types, key=lambda each: each.__name__) or [ServerConfiguration]
    text = (ServerConfiguration.__doc__ or "").partition("\n")[0]
    return create_model(ServerConfiguration.__name__, __base__=tuple(bases), __doc__=text)


def first(values: Iterable[Value | None]) -> Value | None:
    """Return the first value that is not None."""
    return next((value for value in values if value is not None), None)


def merged(dictionaries: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    return {name: value for each in dictionaries for name, value in each.items()}
