"""Measurement with well-known load generators, such as pgbench and sysbench: one module for each program.

Each module defines a `CLIENT`: the program's command line, its tests, and a function that returns the options,
environment variables and files for an arm (a measured variant, such as TLS 1.3). If the program lacks an option that an
arm needs, for example for the TLS version, the run leaves the arm out.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from pydantic import SecretStr

from costof.errors import CostofError, ErrorText, nearest
from costof.instruments.commands.readers import Figure, reader
from costof.instruments.commands.settings import CommandLevel, CommandProgram, CommandSettings, build_settings
from costof.lab.program import find_program
from costof.messages.plan import Endpoint

#: Placeholders in the command line of a `Client`: the program's path, the arguments that choose its test, the options
#: for an arm, and the numbers of connections and threads.
PROGRAM, TEST, OPTIONS, CONNECTIONS, THREADS = "program", "test", "options", "connections", "threads"
#: The maximum time in seconds that a connection may wait for network round trips in one run of a program. It limits the
#: number of requests of programs that cannot run for a fixed time: on a slow network they send fewer requests.
FAR_SECONDS = 1.0
#: Timeout of a run of the program, in case the server stops answering.
LONGEST_SECONDS = 60.0
MOST_THREADS = 2


class UnsupportedArmError(Exception):
    """Raised if a load generator lacks an option that an arm (measured variant) needs, such as a cipher suite.

    The message is a predicate, such as 'cannot resume TLS sessions'. The caller puts the program's name before it.
    """


@dataclass(frozen=True)
class ClientLoad:
    """The load for one arm (measured variant): which of the program's tests to run, and over how many connections.

    `records` is the number of records in the server's database. `round_trip_ms` is the delay that the lab adds to each
    round trip.
    """

    test: str
    connections: int
    records: int = 0
    round_trip_ms: float = 0.0

    def requests(self, most: int) -> int:
        """Return the number of requests for a program that runs for a number of requests and not for a time.

        The number is `most` for each connection. It is smaller if the round trips would take longer than `FAR_SECONDS`.
        """
        far = int(FAR_SECONDS * 1000 / self.round_trip_ms) if self.round_trip_ms else most
        return self.connections * max(1, min(most, far))


@dataclass(frozen=True)
class Invocation:
    """The options, environment variables and files with which a program runs on an arm (measured variant).

    The environment variables in `secrets` are never printed or stored. `files` maps file names to contents. The program
    runs in a folder that contains these files and that only this user can read.
    """

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)
    files: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientTest:
    """One of a program's own tests, such as pgbench's select-only.

    - `words`: the command-line arguments that choose the test.
    - `headline`: the names of the figures that answer the study's question.
    - `prefix`: the beginning of the names of all figures of the test.
    - `statements`: the number of statements in one operation by class, such as `{"read": 1, "write": 4}` for a
      transaction.
    """

    words: str
    headline: tuple[str, ...]
    prefix: str = ""
    statements: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """A load generator that the user can choose with `--client`.

    `run` is the program's command line, and `package` its Debian package. `services` lists the server programs
    ('postgres') or kinds of service ('http') to which the program can send load. By default the client runs the first
    of `tests`, with `connections` connections.

    `invocation` returns the options and environment variables for a server, or raises `UnsupportedArmError`. `folders`
    returns folders in which to look for the program besides those in PATH.
    """

    program: str
    package: str
    services: tuple[str, ...]
    run: str
    tests: Mapping[str, ClientTest]
    connections: int
    invocation: Callable[[Endpoint, ClientLoad], Invocation]
    folders: Callable[[], Sequence[Path]] = tuple

    @property
    def command(self) -> CommandProgram:
        """Return the program in the form in which a study's file declares a command to measure."""
        return CommandProgram(run=self.run, read=self.program, timeout_seconds=LONGEST_SECONDS)

    def test(self, name: str) -> ClientTest:
        """Return the test with this name. Raises `UNKNOWN_CLIENT_TEST`."""
        if name not in self.tests:
            raise CostofError(
                ErrorText.UNKNOWN_CLIENT_TEST,
                client=self.program,
                name=name,
                nearest=nearest(name, list(self.tests)),
                allowed=", ".join(self.tests),
            )
        return self.tests[name]

    def figures(self, test: str) -> dict[str, Figure]:
        """Return the figures that a test reports, by name."""
        prefix = self.test(test).prefix
        return {name: each for name, each in reader(self.program).figures.items() if name.startswith(prefix)}

    def find(self) -> Path:
        """Return the program's path. Raises `PROGRAM_MISSING`."""
        return find_program(self.program, self.package, self.folders())

    def settings(
        self,
        endpoint: Endpoint,
        load: ClientLoad,
        programs: Mapping[str, tuple[CommandProgram, Mapping[str, float | str]]],
        output: Path,
    ) -> CommandSettings:
        """Return the settings with which the command runner runs this program on an arm (measured variant).

        `endpoint` has the arm's server and transport. `programs` maps a workload's name to the program and the values
        of its numeric placeholders, such as `{"seconds": 10}`. `output` is the path for the program's report. Raises
        `UnsupportedArmError`.
        """
        invocation = self.invocation(endpoint, load)
        words = {
            PROGRAM: shlex.quote(str(self.find())),
            TEST: self.test(load.test).words,
            OPTIONS: shlex.join(invocation.options),
            CONNECTIONS: str(load.connections),
            THREADS: str(min(MOST_THREADS, load.connections)),
        }
        level = CommandLevel(set=words, environment=dict(invocation.environment))
        folder = _folder(invocation, output)
        if invocation.files:
            placed = {name: (each.model_copy(update={"directory": folder}), n) for name, (each, n) in programs.items()}
            programs = placed
        settings = build_settings(level, programs, {}, output)
        update = {
            "addresses": endpoint.service.addresses,
            "hidden": dict(invocation.secrets),
            "files": {str(folder / name): content for name, content in invocation.files.items()},
        }
        return settings.model_copy(update=update)


def _folder(invocation: Invocation, output: Path) -> Path:
    """Return the folder for the files that a program needs. It is beside `output`.

    The folder's name is a hash of the files' contents, so arms (measured variants) with the same files use the same
    folder.
    """
    content = [(name, each.get_secret_value()) for name, each in sorted(invocation.files.items())]
    return output.with_name(hashlib.sha256(f"{output} {content}".encode()).hexdigest()[:16])


def client_names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def client(name: str) -> Client:
    names = client_names()
    if name not in names:
        raise CostofError(ErrorText.UNKNOWN_CLIENT, name=name, nearest=nearest(name, names), allowed=", ".join(names))
    loaded: Client = import_module(f"{__name__}.{name.replace('-', '_')}").CLIENT
    return loaded


def host_and_port(addresses: Sequence[str]) -> tuple[str, str]:
    """Return host and port of the first address: `("::1", "5432")` for `["[::1]:5432"]`."""
    host, _, port = addresses[0].rpartition(":")
    return host.strip("[]"), port


def http_url(endpoint: Endpoint, path: str) -> str:
    """Return the URL of a path on the first address of an HTTP endpoint."""
    scheme = "https" if endpoint.transport.is_tls else "http"
    return f"{scheme}://{endpoint.service.addresses[0]}{path}"


def closing_headers(requests_per_connection: int | None) -> list[str]:
    """Return the request headers that make the server close a connection after `requests_per_connection` requests.

    For None, which means that connections stay open, return []. Raises `UnsupportedArmError` for more than one request,
    because "Connection: close" closes the connection after the first request.
    """
    if requests_per_connection is None:
        return []
    if requests_per_connection == 1:
        return ["Connection: close"]
    raise UnsupportedArmError(f"cannot end connections after {requests_per_connection} requests")


def check_tls(endpoint: Endpoint, versions: tuple[str | None, ...]) -> None:
    """Raise `UnsupportedArmError` if the arm (measured variant) needs TLS settings that the program lacks.

    These settings are session resumption, a fixed cipher suite, a fixed group, and a TLS version that is not in
    `versions`. The version None stands for an arm that does not fix the version.
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
