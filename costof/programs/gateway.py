"""The engine's `gateway`: what stands before a MySQL server and encrypts columns of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.messages.process import ANSWER_SECONDS, EngineProcess
from costof.model import Model

ROLE = "gateway"
#: For what measures: its clients are many and of one address, and its tables stay as they are. To ask for them in the
#: middle of a slice would be a connection and CPU time that no arm has asked for.
NO_LIMITS = {
    "connections": 1_000_000,
    "connections_an_address": 1_000_000,
    "logins": 1_000_000,
    "catalogue_seconds": 1_000_000_000,
}


class GatewayReady(Model):
    """`listeners` in the plan's order, with the ports that were free; `warnings` in words."""

    listeners: list[str]
    warnings: list[str] = Field(default_factory=list)


class GatewayListenerCounters(Model):
    """`tls`: clients' handshakes by version. `commands` that were passed on, `rows` of answers that were read under
    rules, `refused` commands, `errors`: sessions that broke. Bytes are those of encrypted values, NULLs none."""

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
    """Counters since the start, by listener: 'address:port'."""

    cpu_ns: int
    listeners: dict[str, GatewayListenerCounters]


class _Reloaded(Model):
    listeners: dict[str, str | None] = Field(description="Why the rules before stay, or None for new ones.")


class GatewayLearning(Model):
    """Learn the statements of these accounts, which are not guarded, into a file."""

    file: Path
    accounts: list[str]


class GatewayListener(Model):
    """A port of the gateway's, 'address:port', and the server behind it, 'host:port'.

    `tls` and TLS in `server_transport` go together: both or neither. `limits` by the engine's names, where they are
    not the usual ones. Without `learn` nothing is learned.
    """

    address: str
    rules_file: Path
    server: str
    tls: TlsFiles | None = None
    server_transport: Transport = PLAIN
    learn: GatewayLearning | None = None
    limits: dict[str, int] = Field(default_factory=dict)


class GatewayPlan(Model):
    """All listeners of a process, and how many threads take their connections."""

    threads: int
    listeners: list[GatewayListener]


class GatewayProcess(EngineProcess):
    """`costof-engine gateway`, on the host whose prefix it is given."""

    def __init__(self, prefix: Sequence[str] = (), *, threads: int = 1) -> None:
        super().__init__("gateway", prefix)
        self._threads = threads

    def begin(self, listeners: Sequence[GatewayListener]) -> GatewayReady:
        """Listen. Raises `INSTRUMENT_FAILED`, in the gateway's words where rules are wrong."""
        return self._begin(GatewayReady, GatewayPlan(threads=self._threads, listeners=list(listeners)))

    def counters(self) -> GatewayCounters:
        return self._counted(GatewayCounters)

    def reload(self) -> dict[str, str | None]:
        """Read all rules again, and return by listener why the rules before stay, or None."""
        self._send({"reload": {}})
        return self._validated(_Reloaded, {"listeners": self._answer(ANSWER_SECONDS).get("reloaded")}).listeners
