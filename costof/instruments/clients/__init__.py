"""Load generators that people use, as clients of the servers that a study asks: one file a program.

Each module has a `CLIENT`: its command line, which of its reader's figures answer the question, and how it is told of a
server and of how to speak to it. What it cannot be told, its arms are without.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pydantic import SecretStr

from costof.errors import CostofError, ErrorText, nearest
from costof.instruments.commands.settings import CommandLevel, CommandProgram, CommandSettings, filled
from costof.lab.program import find_program
from costof.messages.plan import Endpoint

#: In a client's line, the program itself, and what else it is called with on an arm.
PROGRAM, OPTIONS = "program", "options"


class CannotError(Exception):
    """What an arm asks for and a program cannot be told; the message goes on after its name: 'cannot …'."""


@dataclass(frozen=True)
class Called:
    """How a program is called for an arm: with which options, and in which environment, whose secrets nobody else
    can read."""

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """Of one program. `of`: the server program, or the kind of service, of the studies that it can be a client in.

    `called` raises `CannotError`. `headline` are figures of the program's reader, by their names there. `folders` are
    where it may lie beside the usual ones.
    """

    program: str
    package: str
    of: str
    run: str
    headline: tuple[str, ...]
    called: Callable[[Endpoint], Called]
    folders: Callable[[], Sequence[Path]] = tuple

    @property
    def command(self) -> CommandProgram:
        """Its line as a study's workload says one."""
        return CommandProgram(run=self.run, read=self.program)

    def found(self) -> Path:
        """Raises `PROGRAM_MISSING`."""
        return find_program(self.program, self.package, self.folders())

    def settings(
        self, endpoint: Endpoint, programs: Mapping[str, tuple[CommandProgram, Mapping[str, float]]], output: Path
    ) -> CommandSettings:
        """What the runner is told of an arm that is reached so. Raises `CannotError`."""
        called = self.called(endpoint)
        words = {PROGRAM: shlex.quote(str(self.found())), OPTIONS: shlex.join(called.options)}
        level = CommandLevel(set=words, environment=dict(called.environment))
        settings = filled(level, programs, {}, output)
        reached = {"addresses": endpoint.service.addresses, "hidden": dict(called.secrets)}
        return settings.model_copy(update=reached)


def client_names() -> list[str]:
    """Of all clients, sorted."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def client(name: str) -> Client:
    """The client of this name. Raises `UNKNOWN_CLIENT`."""
    names = client_names()
    if name not in names:
        raise CostofError(ErrorText.UNKNOWN_CLIENT, name=name, nearest=nearest(name, names), allowed=", ".join(names))
    found: Client = import_module(f"{__name__}.{name.replace('-', '_')}").CLIENT
    return found


def host_and_port(addresses: Sequence[str]) -> tuple[str, str]:
    """Of the first of them; an IPv6 host without its brackets."""
    host, _, port = addresses[0].rpartition(":")
    return host.strip("[]"), port


def check_tls(endpoint: Endpoint, versions: tuple[str | None, ...]) -> None:
    """Whether a program can speak as an arm wants that offers these versions of TLS, and neither one suite or group
    alone nor a session to resume. Raises `CannotError`."""
    wanted = endpoint.transport
    if not wanted.is_tls:
        return
    if wanted.version not in versions:
        raise CannotError(f"cannot offer TLS {wanted.version} alone")
    for what, asked in (("cipher suite", wanted.cipher), ("group", wanted.group)):
        if asked is not None:
            raise CannotError(f"cannot offer one {what} alone")
    if wanted.resumption:
        raise CannotError("cannot resume TLS sessions")
