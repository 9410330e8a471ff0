"""Load generators such as pgbench and sysbench, run against the servers of a study: one module for each program.

Each module defines a `CLIENT`: the program's command line, its tests, and a function that turns an endpoint into
options, environment variables and files. Arms that the program cannot be configured for are left out.
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

#: Placeholders in the command line of a `Client`: the program's path, the words of its test, the options for an arm,
#: and the numbers of connections and threads.
PROGRAM, TEST, OPTIONS, CONNECTIONS, THREADS = "program", "test", "options", "connections", "threads"
#: The time that a program without a duration may spend on round trips.
FAR_SECONDS = 1.0
#: A program that takes longer is ended, for example because its server no longer answers.
LONGEST_SECONDS = 60.0
#: The largest number of threads of a program that divides its connections among threads.
MOST_THREADS = 2


class UnsupportedArmError(Exception):
    """Raised if a load generator has no option for a setting of an arm, such as a fixed cipher suite.

    The message continues a sentence that begins with the program's name: 'cannot …'.
    """


@dataclass(frozen=True)
class ClientLoad:
    """The load that a program puts on an arm: the name of its test, its connections, and the records that it uses.

    `round_trip_ms` is the time of a round trip that the lab adds to the network's.
    """

    test: str
    connections: int
    records: int = 0
    round_trip_ms: float = 0.0

    def requests(self, most: int) -> int:
        """Return how many requests a program that has no duration sends: `most` on each connection, fewer from afar."""
        far = int(FAR_SECONDS * 1000 / self.round_trip_ms) if self.round_trip_ms else most
        return self.connections * max(1, min(most, far))


@dataclass(frozen=True)
class Invocation:
    """The options, environment variables and files with which a program runs on an arm.

    The environment variables in `secrets` are never printed or stored. The program runs in a folder that only this user
    can read and that has the `files`, by name.
    """

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)
    files: Mapping[str, SecretStr] = field(default_factory=dict)


@dataclass(frozen=True)
class ClientTest:
    """One of a program's own tests, such as pgbench's select-only.

    `words` choose it on the command line. `headline` names the figures that answer the study's question. The names of
    all its figures begin with `prefix`. `statements` has the number of statements of each class, such as 'read', in an
    operation of the program's report.
    """

    words: str
    headline: tuple[str, ...]
    prefix: str = ""
    statements: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Client:
    """A load generator that can measure a study with `--client`.

    `services` names what it can send load to: server programs and kinds of service. `run` is the load generator's
    command line, and `package` its Debian package. A study that names no test gets the first one of `tests`, on
    `connections` connections. `invocation` returns the options and environment variables for an endpoint, or raises
    `UnsupportedArmError`. `folders` returns folders to search for the program in addition to PATH.
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
        """Return the program's command line and reader, as the command of a workload in a study's file."""
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
        """Return the command runner's settings for an arm with this endpoint. Raises `UnsupportedArmError`."""
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
    """Return the folder for the files of an invocation, beside `output`. Arms with the same files share a folder."""
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
    """Return host and port of the first address, without the brackets of an IPv6 address."""
    host, _, port = addresses[0].rpartition(":")
    return host.strip("[]"), port


def http_url(endpoint: Endpoint, path: str) -> str:
    """Return the URL of a path on the first address of an HTTP endpoint."""
    scheme = "https" if endpoint.transport.is_tls else "http"
    return f"{scheme}://{endpoint.service.addresses[0]}{path}"


def closing_headers(requests_per_connection: int | None) -> list[str]:
    """Return the headers with which connections end after that many requests; [] if they stay open (None).

    Raises `UnsupportedArmError` for more than one request, because a server can be told only to close at once.
    """
    if requests_per_connection is None:
        return []
    if requests_per_connection == 1:
        return ["Connection: close"]
    raise UnsupportedArmError(f"cannot end connections after {requests_per_connection} requests")


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
