"""The base class of the lab's load balancers, their ports (entrances), and settings that a good operator would choose.

All arms (measured variants) use the same balancer process with the same settings, but connect to different ports. All
limits are above what a study needs, so that the balancer's CPU is the first bottleneck.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from costof.lab.host import Host
from costof.lab.lab import Lab, Process
from costof.lab.program import Counters, with_descriptors

ROLE = "balancer"
CONNECTIONS = 20_000
#: Maximum number of file descriptors: two connections per client (one to the client, one to the origin), and 1,000 for
#: the program itself.
DESCRIPTORS = 2 * CONNECTIONS + 1_000
#: Idle timeout. It is long because the connections of an arm (measured variant) stay open while other arms are
#: measured.
IDLE = "1h"
REQUESTS_PER_CONNECTION = 1_000_000
IDLE_TO_ORIGIN = 10_000
CONNECT_SECONDS = 10
ANSWER_SECONDS = 60.0
SUITES = "ALL:@SECLEVEL=0"
#: The balancer itself answers a request for this path, with the TLS version and cipher of the request's connection.
EVIDENCE_PATH = "/costof-evidence"
#: The name in the certificate of the origin (the HTTP server). A balancer that uses TLS to the origin verifies this
#: name.
ORIGIN_NAME = "origin"
# A shell script that lets a host open thousands of connections a second, with two kernel settings that operators also
# use. A closed connection keeps its port for a minute (TIME_WAIT), so a host would run out of ports without these
# settings. If /proc/sys is not writable, the script changes nothing, and the kernel's default of 28,000 ports must be
# enough.
MANY_PORTS = """
cd /proc/sys/net/ipv4
[ ! -w tcp_tw_reuse ] || echo 1 >tcp_tw_reuse
[ ! -w ip_local_port_range ] || echo "10240 65535" >ip_local_port_range
"""


@dataclass(frozen=True)
class Entrance:
    """A port of a balancer, and how the balancer connects to the origin (the HTTP server) for clients of this port.

    `certificate` (a PEM file with key and certificate) is set if TLS ends at the balancer. `origin` is the origin's
    'address:port'. If `reencrypts`, the balancer connects to the origin with TLS and verifies the origin's certificate.
    If `passes_through`, the balancer forwards bytes unchanged.
    """

    name: str
    port: int
    origin: str
    certificate: Path | None = None
    reencrypts: bool = False
    passes_through: bool = False


class Balancer(ABC):
    """A balancer between clients and origin: one process with one thread, which the lab stops."""

    name: str
    #: The role (group of processes) under which the process's CPU time is counted.
    role = ROLE

    def __init__(self, lab: Lab, host: Host, address: str, entrances: Sequence[Entrance], ca_file: Path) -> None:
        self.address = address
        self.version = ""
        self._lab = lab
        self._host = host
        self._entrances = list(entrances)
        self._ca_file = ca_file
        self._process: Process | None = None
        #: Number of status requests so far. nginx counts status requests as connections, so the number is subtracted.
        self._queries = 0

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def configuration(self) -> str:
        """Return the balancer's complete configuration file. It is used instead of the machine's own file."""

    @abstractmethod
    def counters(self, entrance: str) -> Counters:
        """Return the counters of the port named `entrance`, or of the whole process if it has no counts by port.

        The counters are empty if the process does not answer.
        """

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return one fact for the report: the program's settings as one text, under the program's name."""

    def why_dead(self) -> str | None:
        return self._process.why_dead(f"the balancer {self.name}") if self._process else None

    @property
    def _folder(self) -> Path:
        return self._lab.folder / self.name

    @property
    def _socket(self) -> Path:
        """The balancer's Unix socket for status requests. Its name is short because a path may have only 107 bytes."""
        return self._folder / "sock"

    def _query(self, request: bytes) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            connection.connect(str(self._socket))
            self._queries += 1
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")

    def _answers(self) -> bool:
        """Return whether the balancer answers a status request. The socket's file alone does not prove that."""
        return self.counters(self._entrances[0].name) != Counters()

    def _spawn(self, argv: list[str]) -> None:
        self._process = self._lab.spawn(self.name, self.role, with_descriptors(DESCRIPTORS, argv), host=self._host)
        self._lab.wait_until(f"starting {self.name}", self._answers, only=self._process)
