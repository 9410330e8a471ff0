"""What the balancers of the lab have in common: their entrances, and settings that a good operator would choose.

Every arm uses the same process with the same settings; its entrance, a port, is what differs. Each limit lies beyond
what a study asks for, so that the balancer's CPU is what gives way first.
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
#: Clients at once.
CONNECTIONS = 20_000
#: A client's connection and the one to the origin, and what the program needs for itself.
DESCRIPTORS = 2 * CONNECTIONS + 1_000
#: Slices of other arms come between two of an arm, whose connections stand meanwhile.
IDLE = "1h"
REQUESTS_PER_CONNECTION = 1_000_000
IDLE_TO_ORIGIN = 10_000
CONNECT_SECONDS = 10
#: For what it says of itself.
ANSWER_SECONDS = 60.0
#: What clients may choose from: whatever this OpenSSL has.
SUITES = "ALL:@SECLEVEL=0"
#: Answered by the balancer itself: protocol and cipher of the connection that asks.
PROOF_PATH = "/costof-proof"
#: In the origin's certificate; a balancer that speaks TLS to it checks the name.
ORIGIN_NAME = "origin"


@dataclass(frozen=True)
class Entrance:
    """A port of a balancer. `certificate` (key and certificate in one PEM file) where TLS ends here; `onward` is the
    origin's 'address:port', reached with verified TLS if `reencrypts`, or by passing bytes through."""

    name: str
    port: int
    onward: str
    certificate: Path | None = None
    reencrypts: bool = False
    passes_through: bool = False


class Balancer(ABC):
    """A server program between clients and origin, one process with one thread. `start` it; the lab ends it."""

    name: str

    def __init__(self, lab: Lab, host: Host, address: str, entrances: Sequence[Entrance], ca_file: Path) -> None:
        self.address = address
        self.version = ""
        self._lab = lab
        self._host = host
        self._entrances = list(entrances)
        self._ca_file = ca_file
        self._process: Process | None = None
        #: Connections to its own socket: nginx counts them among all.
        self._asked = 0

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def configuration(self) -> str:
        """Return its whole configuration: nothing of the machine's own is read."""

    @abstractmethod
    def counters(self, entrance: str) -> Counters:
        """What it has counted at an entrance, or as a whole where it does not count apart. One that has ended in the
        meantime tells nothing."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return the settings that matter to a reader of a result."""

    def why_dead(self) -> str | None:
        """Return why nothing goes through it any more, or None while it stands."""
        return self._process.why_dead(f"the balancer {self.name}") if self._process else None

    @property
    def _folder(self) -> Path:
        return self._lab.folder / self.name

    @property
    def _socket(self) -> Path:
        """Where it is asked about itself. Short: the name of a socket may have 107 bytes."""
        return self._folder / "sock"

    def _ask(self, question: bytes) -> str:
        """Return all that it says on its own socket until it ends the connection. Raises OSError."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(ANSWER_SECONDS)
            asking.connect(str(self._socket))
            self._asked += 1
            asking.sendall(question)
            return b"".join(iter(lambda: asking.recv(65536), b"")).decode(errors="replace")

    def _answers(self) -> bool:
        """Return whether it listens: its socket is there before that."""
        return self.counters(self._entrances[0].name) != Counters()

    def _spawn(self, argv: list[str]) -> None:
        """Start it and wait until it tells of itself."""
        self._process = self._lab.spawn(self.name, ROLE, with_descriptors(DESCRIPTORS, argv), host=self._host)
        self._lab.wait_until(f"starting {self.name}", self._answers, only=self._process)
