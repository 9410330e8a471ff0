"""The engine's `gateway`: a proxy for a MySQL server that encrypts columns of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.messages.process import ANSWER_SECONDS, EngineProcess
from costof.model import Model

ROLE = "gateway"
#: Limits for measurements, which have many clients at one address. The tables do not change during a run, so the
#: catalogue is never read again: that would cost a connection and CPU time in the middle of a slice.
NO_LIMITS = {
    "connections": 1_000_000,
    "connections_an_address": 1_000_000,
    "logins": 1_000_000,
    "catalogue_seconds": 1_000_000_000,
}


class GatewayReady(Model):
    """The gateway's first answer: the listeners in the plan's order, with the ports that it chose, and warnings."""

    listeners: list[str]
    warnings: list[str] = Field(default_factory=list)


class GatewayListenerCounters(Model):
    """Counters of one listener.

    `tls` counts clients' handshakes by version, `commands` those forwarded, `rows` the rows checked against rules,
    `refused` the refused commands, and `errors` the sessions that broke. Bytes are those of encrypted values; NULLs
    have none.
    """

    connections: int
    tls: dict[str, int]
    commands: int
    rows: int
    values_encrypted: int
    plaintext_bytes: int
    ciphertext_bytes: int
    refused: int
    errors: int


class GatewayCounters(Model):
    """Counters since the start; the keys of `listeners` are 'address:port'."""

    cpu_ns: int
    listeners: dict[str, GatewayListenerCounters]


class _Reloaded(Model):
    listeners: dict[str, str | None] = Field(
        description="Why the earlier rules stay in use; null if the new ones are in use."
    )


class GatewayLearning(Model):
    """Settings for learning: the statements of these accounts, which are not guarded, are written to a file."""

    file: Path
    accounts: list[str]


class GatewayListener(Model):
    """A port of the gateway, 'address:port', and the server behind it, 'host:port'.

    `tls` and TLS in `server_transport` must be used together or not at all. `limits` are limits that differ from the
    defaults, by the engine's names. Without `learn` nothing is learned.
    """

    address: str
    rules_file: Path
    server: str
    tls: TlsFiles | None = None
    server_transport: Transport = PLAIN
    learn: GatewayLearning | None = None
    limits: dict[str, int] = Field(default_factory=dict)


class GatewayPlan(Model):
    """The listeners of a process, and the number of threads that serve them."""

    threads: int
    listeners: list[GatewayListener]


class GatewayProcess(EngineProcess):
    """A `costof-engine gateway` process. `prefix` is the command that starts a program on its host."""

    def __init__(self, prefix: Sequence[str] = (), *, threads: int = 1) -> None:
        super().__init__("gateway", prefix)
        self._threads = threads

    def begin(self, listeners: Sequence[GatewayListener]) -> GatewayReady:
        """Start to listen. Raises `INSTRUMENT_FAILED`, with the gateway's error text if rules are wrong."""
        return self._begin(GatewayReady, GatewayPlan(threads=self._threads, listeners=list(listeners)))

    def counters(self) -> GatewayCounters:
        return self._counted(GatewayCounters)

    def reload(self) -> dict[str, str | None]:
        """Read all rules again. Return for each listener why the earlier rules stay in use, or None."""
        self._send({"reload": {}})
        return self._validated(_Reloaded, {"listeners": self._answer(ANSWER_SECONDS).get("reloaded")}).listeners
