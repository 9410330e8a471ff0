"""The engine's `origin`: the server behind a balancer, or without one."""

from __future__ import annotations

from collections.abc import Sequence

from costof.messages.plan import TlsFiles
from costof.messages.process import EngineProcess
from costof.model import Model

ROLE = "origin"
# Tens of thousands of requests a second: more than any balancer of a lab passes on.
THREADS = 1


class OriginReady(Model):
    listeners: list[str]


class ListenerCounters(Model):
    """`tls`: handshakes by version, such as {'TLSv1.3': 600}, `resumed` ones among them."""

    connections: int
    requests: int
    resumed: int
    tls: dict[str, int]


class OriginCounters(Model):
    """Counters since the start, by listener: 'address:port'."""

    cpu_ns: int
    listeners: dict[str, ListenerCounters]


class Listener(Model):
    """A port of the origin's, 'address:port'; plain HTTP without `tls`."""

    address: str
    tls: TlsFiles | None = None


class OriginPlan(Model):
    """All listeners of a process, and how many threads take their connections."""

    threads: int = THREADS
    listeners: list[Listener]


class OriginProcess(EngineProcess):
    """`costof-engine origin`, on the host whose prefix it is given."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        super().__init__("origin", prefix)

    def begin(self, listeners: Sequence[Listener]) -> OriginReady:
        return self._begin(OriginReady, OriginPlan(listeners=list(listeners)))

    def counters(self) -> OriginCounters:
        return self._counted(OriginCounters)
