"""The engine's `origin`: the server behind a balancer, or without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof.ipc.engine_server import EngineProcess
from costof.model import Model

ROLE = "origin"
# Tens of thousands of requests a second: more than any balancer of a lab passes on.
THREADS = 1
READY_SECONDS = 20.0


class OriginReady(Model):
    listeners: list[str]


class ListenerCounters(Model):
    """`tls`: handshakes by version, such as {'TLSv1.3': 600}, `resumed` ones among them."""

    connections: int
    requests: int
    resumed: int
    tls: dict[str, int]


class OriginCounters(Model):
    """Since the start, by listener: 'address:port'."""

    cpu_ns: int
    listeners: dict[str, ListenerCounters]


@dataclass(frozen=True)
class Listener:
    """A port of the origin's. `certificate`: one PEM file of key and certificate, or None for plain HTTP."""

    address: str
    port: int
    certificate: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.address}:{self.port}"

    def plan(self) -> dict[str, Any]:
        if self.certificate is None:
            return {"address": self.name}
        files = {"certificate_file": str(self.certificate), "key_file": str(self.certificate)}
        return {"address": self.name, "tls": files}


class OriginProcess(EngineProcess):
    """`costof-engine origin`, on the host whose prefix it is given."""

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        super().__init__("origin", prefix)

    def begin(self, listeners: Sequence[Listener]) -> OriginReady:
        """Listen. Raises `INSTRUMENT_FAILED`."""
        plan = {"threads": THREADS, "listeners": [listener.plan() for listener in listeners]}
        return self._begin(OriginReady, plan, READY_SECONDS)

    def counters(self) -> OriginCounters:
        """Raises `INSTRUMENT_FAILED` when the process has died."""
        return self._counted(OriginCounters)
