"""The base class of sidecars: proxies beside a client or a server, which speak mutual TLS with each other.

All programs get the same settings: one thread that forwards, HTTP/1.1 with open connections to the next hop, TLS 1.3
only. Each side verifies the other side's certificate by authority and name.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from costof.lab.certificates import write_private
from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import with_descriptors

#: Maximum number of file descriptors: two for each of 20,000 connections, and some for the program itself.
DESCRIPTORS = 41_000
CONNECTIONS = 20_000
#: Idle timeout in seconds. It is long because the connections of an arm (measured variant) stay open while other arms
#: are measured.
IDLE_SECONDS = 3_600
CONNECT_SECONDS = 10
ANSWER_SECONDS = 60.0
REQUESTS_PER_CONNECTION = 1_000_000_000


@dataclass(frozen=True)
class MutualTls:
    """One side of mutual TLS: the certificate to show (PEM with its key), and the name that the peer must have.

    `ca_file` has the authority that must have signed the peer's certificate. With `resumption`, later connections
    resume the TLS session of an earlier one.
    """

    certificate: Path
    ca_file: Path
    peer: str
    resumption: bool = False


@dataclass(frozen=True)
class Passage:
    """A port of a sidecar, and the address to which it forwards (both 'address:port').

    With `http`, the sidecar reads and forwards HTTP/1.1 requests; otherwise it forwards bytes. `inward` has the TLS
    settings for connections that the sidecar accepts, `outward` for connections that it opens. None means no TLS.
    """

    name: str
    listen: str
    forward_to: str
    http: bool = False
    inward: MutualTls | None = None
    outward: MutualTls | None = None


@dataclass(frozen=True)
class PassageCounters:
    """A sidecar's counters of one port since its start: connections, requests and TLS handshakes with clients.

    `requests` is 0 for a port that forwards bytes.
    """

    connections: int = 0
    requests: int = 0
    handshakes: int = 0

    def since(self, earlier: PassageCounters) -> PassageCounters:
        return PassageCounters(
            self.connections - earlier.connections,
            self.requests - earlier.requests,
            self.handshakes - earlier.handshakes,
        )


@dataclass(frozen=True)
class ConnectionRecord:
    """A sidecar's own record of one test connection.

    `client` is the name in the certificate of the client that connected to the sidecar. `server` is the name in the
    certificate of the server to which the sidecar connected. Each is '' for a plain connection. `tls` is the version
    and cipher of the connection that uses TLS; '' if none does.
    """

    client: str
    server: str
    tls: str


class Sidecar(ABC):
    """A sidecar process with one or more ports (`passages`). The caller calls `start`; the lab stops the process."""

    #: The name by which studies refer to the program, and the name that reports show.
    name: ClassVar[str]
    shown: ClassVar[str]

    def __init__(self, lab: Lab, name: str, role: str, passages: Sequence[Passage], host: Host) -> None:
        self.version = ""
        self._lab = lab
        self._process_name = name
        self._role = role
        self._passages = list(passages)
        self._host = host
        self._process: Process | None = None

    @classmethod
    @abstractmethod
    def find(cls) -> Path:
        """Return the program's path. Raises `PROGRAM_MISSING`, `ENVOY_MISSING`."""

    @abstractmethod
    def start(self) -> None:
        """Start the process and wait until it answers. Raises `LAB_FAILED`, and the errors of `find`."""

    @abstractmethod
    def configuration(self) -> str:
        """Return the complete configuration file."""

    @abstractmethod
    def counters(self, passage: str) -> PassageCounters:
        """Return the counters of the port (`Passage`) with this name. Raises OSError if the process does not answer."""

    @abstractmethod
    def record(self, on: bool) -> None:
        """Switch the log line about each connection or request on or off.

        The log is off during measurements. Raises OSError if the process does not answer.
        """

    @abstractmethod
    def records(self, passage: str) -> list[ConnectionRecord]:
        """Return the sidecar's records of connections to the port (`Passage`) with this name, the latest one last."""

    @classmethod
    @abstractmethod
    def facts(cls) -> str:
        """Return the settings that the report shows."""

    def why_dead(self) -> str | None:
        """Return how the process ended, or None if it is running or was never started."""
        return self._process.why_dead(self._process_name) if self._process else None

    def answers(self) -> bool:
        try:
            self.counters(self._passages[0].name)
        except OSError:
            return False
        return True

    @property
    def folder(self) -> Path:
        return self._lab.folder / self._process_name

    @property
    def _socket(self) -> Path:
        """The Unix socket for administration. Its name is short because a path may have only 107 bytes."""
        return self.folder / "s"

    def _write_configuration(self, name: str) -> Path:
        file = self.folder / name
        write_private(file, self.configuration().encode())
        return file

    def _spawn(self, argv: list[str]) -> None:
        argv = with_descriptors(DESCRIPTORS, argv)
        self._process = self._lab.spawn(self._process_name, self._role, argv, host=self._host)
        self._lab.wait_until(f"starting {self._process_name}", self.answers, only=self._process)

    def _ask(self, request: bytes) -> str:
        """Send a request to the administration socket, and return the whole answer. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(self._socket))
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
