"""The process `costof-engine origin`: an HTTP server for measurements, reached directly or through a balancer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from costof import __version__
from costof.lab.program import Counters, Description
from costof.messages.plan import TlsFiles
from costof.messages.process import EngineProcess
from costof.model import Model
from costof.programs.http import HttpSettings
from costof.programs.server import LabServer, Place

ROLE = "origin"
# One thread serves tens of thousands of requests a second, more than any balancer of a lab forwards.
THREADS = 1


class OriginReady(Model):
    listeners: list[str]


class ListenerCounters(Model):
    """Counters of one listener: all TLS handshakes by version, such as {'TLSv1.3': 600}, and the `resumed` ones."""

    connections: int
    requests: int
    resumed: int
    tls: dict[str, int]


class OriginCounters(Model):
    """Counters since the origin's start. The keys of `listeners` are 'address:port'."""

    cpu_ns: int
    listeners: dict[str, ListenerCounters]


class Listener(Model):
    """A port of the origin. `address` is its 'address:port'. Without `tls` the port accepts plain HTTP only."""

    address: str
    tls: TlsFiles | None = None


class OriginPlan(Model):
    """The listeners of an origin process, and the number of threads that serve them."""

    threads: int = THREADS
    listeners: list[Listener]


class OriginProcess(EngineProcess):
    """A `costof-engine origin` process. `prefix` is put before its command line to start it on a host of the lab."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        super().__init__("origin", prefix)

    def begin(self, listeners: Sequence[Listener]) -> OriginReady:
        return self._begin(OriginReady, OriginPlan(listeners=list(listeners)))

    def counters(self) -> OriginCounters:
        return self._counted(OriginCounters)


PORT = 8080


class OriginServer(LabServer):
    """A lab's server that is an origin without data. It accepts plain HTTP only."""

    separate_clients = False
    writes = ["nothing: the lab's own server only gets GET requests"]

    def __init__(self, place: Place) -> None:
        self._listener = Listener(address=f"{place.new_address()}:{PORT}")
        self._process = OriginProcess(place.host.prefix)
        self._started = ExitStack()

    def start(self) -> None:
        self._started.enter_context(self._process).begin([self._listener])

    def close(self) -> None:
        self._started.close()

    def client_settings(self) -> HttpSettings:
        return HttpSettings(addresses=[self._listener.address], path="/")

    def counters(self, server: str) -> Counters:
        return Counters(self._process.counters().listeners[self._listener.address].connections)

    def cpu_seconds(self) -> dict[str, float]:
        return {ROLE: self._process.cpu_seconds()}

    def further_processes(self) -> list[tuple[str, int]]:
        return [(ROLE, self._process.pid)]

    def failure_reason(self) -> str | None:
        status = self._process.ended()
        return None if status is None else f"the lab's {ROLE} ended in the middle of the run (status {status})"

    def describe(self) -> Description:
        return Description(versions={ROLE: f"costof-engine {__version__}"}, topology="one origin")


lab_server = OriginServer
