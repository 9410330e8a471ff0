"""Load generators such as pgbench and wrk, run against the servers of a study: one module for each program.

Each module defines a `CLIENT`: the program's command line, its headline figures, and a function that turns an endpoint
into options and environment variables. Arms that the program cannot be configured for are left out.
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
from costof.instruments.commands.settings import CommandLevel, CommandProgram, CommandSettings, build_settings
from costof.lab.program import find_program
from costof.messages.plan import Endpoint

#: Placeholders in the command line of a `Client`: the program's path, and the options for an arm.
PROGRAM, OPTIONS = "program", "options"


class UnsupportedArmError(Exception):
    """Raised if a load generator has no option for a setting of an arm, such as a fixed cipher suite.

    The message continues a sentence that begins with the program's name: 'cannot …'.
    """


@dataclass(frozen=True)
class Invocation:
    """The options and environment variables with which a program runs on an arm.

    The environment variables in `secrets` are never printed or stored.
    """

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """A load generator that can measure a study with `--client`.

    `service` names what it can send load to: a server program or a kind of service. `run` is the load generator's
    command line, and `package` its Debian package. `invocation` returns the options and environment variables for an
    endpoint, or raises `UnsupportedArmError`. `headline` names the figures that answer the study's question. `folders`
    returns folders to search for the program in addition to PATH.
    """

    program: str
    package: str
    service: str
    run: str
    headline: tuple[str, ...]
    invocation: Callable[[Endpoint], Invocation]
    folders: Callable[[], Sequence[Path]] = tuple

    @property
    def command(self) -> CommandProgram:
        """Return the program's command line and reader, as the command of a workload in a study's file."""
        return CommandProgram(run=self.run, read=self.program)

    def find(self) -> Path:
        """Return the program's path. Raises `PROGRAM_MISSING`."""
        return find_program(self.program, self.package, self.folders())

    def settings(
        self, endpoint: Endpoint, programs: Mapping[str, tuple[CommandProgram, Mapping[str, float | str]]], output: Path
    ) -> CommandSettings:
        """Return the command runner's settings for an arm with this endpoint. Raises `UnsupportedArmError`."""
        invocation = self.invocation(endpoint)
        words = {PROGRAM: shlex.quote(str(self.find())), OPTIONS: shlex.join(invocation.options)}
        level = CommandLevel(set=words, environment=dict(invocation.environment))
        settings = build_settings(level, programs, {}, output)
        update = {"addresses": endpoint.service.addresses, "hidden": dict(invocation.secrets)}
        return settings.model_copy(update=update)


def client_names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def client(name: str) -> Client:
    names = client_names()
    if name not in names:
        raise CostofError(ErrorText.UNKNOWN_CLIENT, name=name, nearest=nearest(name, names), allowed=", ".join(names))
    loaded: Client = import_module(f"{__name__}.{name.replace('-', '_')}").CLIENT
    return loaded


def host_and_port(addresses: Sequence[str]) -> tuple[str, str]:
    """Return host and port of the first address, without the brackets of an IPv6 address."""
    host, _, port = addresses[0].rpartition(":")
    return host.strip("[]"), port


def check_tls(endpoint: Endpoint, versions: tuple[str | None, ...]) -> None:
    """Raise `UnsupportedArmError` if the arm needs TLS settings that the program lacks.

    Such settings are session resumption, a fixed cipher suite, a fixed group, and any TLS version that is not in
    `versions`. If `versions` contains None, an arm may leave the version open.
    """
    transport = endpoint.transport
    if not transport.is_tls:
        return
    if transport.version not in versions:
        raise UnsupportedArmError(f"cannot offer TLS {transport.version} alone")
    for kind, name in (("cipher suite", transport.cipher), ("group", transport.group)):
        if name is not None:
            raise UnsupportedArmError(f"cannot offer one {kind} alone")
    if transport.resumption:
        raise UnsupportedArmError("cannot resume TLS sessions")
