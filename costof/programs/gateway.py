"""The process `costof-engine gateway`: a proxy that encrypts columns in the results of a MySQL server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from costof.messages.plan import PLAIN, TlsFiles, Transport
from costof.messages.process import ANSWER_SECONDS, EngineProcess
from costof.model import Model

ROLE = "gateway"
#: Limits of the gateway that are too high to affect a measurement. All clients of a measurement share one address, so
#: the limit of connections per address is high too. The gateway reads the table definitions again only after
#: `catalogue_seconds`, a long time: the definitions do not change, and reading them would use CPU time during a
#: measurement.
NO_LIMITS = {
    "connections": 1_000_000,
    "connections_an_address": 1_000_000,
    "logins": 1_000_000,
    "catalogue_seconds": 1_000_000_000,
}


class GatewayReady(Model):
    """The gateway's first answer: its warnings, and the 'address:port' of each listener, in the order of `GatewayPlan`.

    If a listener in `GatewayPlan` has port 0, the gateway chooses a port, which is then in this answer.
    """

    listeners: list[str]
    warnings: list[str] = Field(default_factory=list)


class GatewayListenerCounters(Model):
    """Counters of one listener.

    `tls` counts the clients' TLS handshakes by version, and `commands` the forwarded commands. `rows` counts the rows
    checked against the rules, `refused` the refused commands, and `errors` the connections that ended with an error.
    `plaintext_bytes` and `ciphertext_bytes` are the sizes of the encrypted values before and after encryption. NULL is
    never encrypted.
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
    """Counters since the gateway's start. The keys of `listeners` are 'address:port'."""

    cpu_ns: int
    listeners: dict[str, GatewayListenerCounters]


class _Reloaded(Model):
    listeners: dict[str, str | None] = Field(
        description="For each listener, why its earlier rules stay in use; null if its new rules are in use."
    )


class GatewayLearning(Model):
    """Settings that make the gateway record, in `file`, the statements that some accounts send.

    The gateway's rules must not restrict these accounts.
    """

    file: Path
    accounts: list[str]


class GatewayListener(Model):
    """A port of the gateway: `address` is its 'address:port', `server` the 'host:port' of the server behind it.

    Clients must use TLS (`tls`) if the gateway uses TLS to the server (`server_transport`), and plaintext otherwise.
    `limits` has the limits that differ from the gateway's defaults, such as {"connections": 100}. Without `learn` the
    gateway records no statements.
    """

    address: str
    rules_file: Path
    server: str
    tls: TlsFiles | None = None
    server_transport: Transport = PLAIN
    learn: GatewayLearning | None = None
    limits: dict[str, int] = Field(default_factory=dict)


class GatewayPlan(Model):
    """The listeners of a gateway process, and the number of threads that serve them."""

    threads: int
    listeners: list[GatewayListener]


class GatewayProcess(EngineProcess):
    """A `costof-engine gateway` process. `prefix` is put before its command line to start it on a host of the lab."""

    def __init__(self, prefix: Sequence[str] = (), *, threads: int = 1) -> None:
        super().__init__("gateway", prefix)
        self._threads = threads

    def begin(self, listeners: Sequence[GatewayListener]) -> GatewayReady:
        """Start to listen. Raises `INSTRUMENT_FAILED`, with the gateway's error text if the rules are invalid."""
        return self._begin(GatewayReady, GatewayPlan(threads=self._threads, listeners=list(listeners)))

    def counters(self) -> GatewayCounters:
        return self._counted(GatewayCounters)

    def reload(self) -> dict[str, str | None]:
        """Make the gateway read all rule files again.

        Return, for each listener, None if its new rules are in use, or else why its earlier rules stay in use.
        """
        self._send({"reload": {}})
        return self._validated(_Reloaded, {"listeners": self._answer(ANSWER_SECONDS).get("reloaded")}).listeners
