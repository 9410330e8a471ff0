"""`costof gateway`: the engine's gateway before a server of the user's own, in the foreground."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from costof.errors import CostofError, Problem
from costof.programs.gateway import PLAIN, GatewayListener, GatewayProcess

#: What the engine calls mistakes that are the user's to put right.
USERS_OWN = ("plan: ", "tls_configuration: ")
#: How often it is looked whether the engine still runs.
LOOK_SECONDS = 1.0
ENDS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class GatewayOptions:
    """What the command line said. `server_ca` is of the server's certificate, whose name is verified; `limits` by their
    names in the engine's plan, which knows them."""

    rules: Path
    server: str
    listen: str = "127.0.0.1:3307"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    server_ca: Path | None = None
    limits: Mapping[str, int] = field(default_factory=dict)

    def listener(self, listen: str) -> GatewayListener:
        """Raises `GATEWAY_ADDRESS`."""
        host, colon, port = listen.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise CostofError(Problem.GATEWAY_ADDRESS, text=listen)
        return GatewayListener(
            address=host,
            port=int(port),
            rules_file=self.rules.absolute(),
            server=self.server,
            certificate=self.tls_cert and self.tls_cert.absolute(),
            key=self.tls_key and self.tls_key.absolute(),
            transport=self._transport(),
            limits=self.limits,
        )

    def _transport(self) -> dict[str, Any]:
        if self.server_ca is None:
            return PLAIN
        return {"kind": "tls", "ca_file": str(self.server_ca.absolute()), "verify": "full", "resumption": False}


def check(options: GatewayOptions) -> list[str]:
    """Read the rules as a gateway would, and hold them against the server where they say how; the warnings.

    Raises `GATEWAY_REFUSED`.
    """
    with GatewayProcess() as process:
        return _begin(process, options.listener("127.0.0.1:0"))[1]


def serve(options: GatewayOptions, say: Callable[[str], None], warn: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; SIGHUP reads the rules again.

    Raises `GATEWAY_ADDRESS`, `GATEWAY_REFUSED`, and `INSTRUMENT_FAILED` when the engine dies.
    """
    with GatewayProcess() as process:
        signals = _signals()
        addresses, warnings = _begin(process, options.listener(options.listen))
        for warning in warnings:
            warn(warning)
        say(f"gateway ready on {addresses[0]} before {options.server}")
        while True:
            try:
                if signals.get(timeout=LOOK_SECONDS) != signal.SIGHUP:
                    return
                _reload(process, warn)
            except Empty:
                if process.ended() is not None:
                    process.counters()


def _signals() -> SimpleQueue[int]:
    """Those that come from now on. Blocked and waited for they would be lost to threads that libraries have started."""
    received: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGHUP, *ENDS):
        signal.signal(number, lambda number, frame: received.put(number))
    return received


def _begin(process: GatewayProcess, listener: GatewayListener) -> tuple[list[str], list[str]]:
    try:
        ready = process.begin([listener])
    except CostofError as error:
        _, _, detail = str(error).partition(" stopped: ")
        mistake = next((start for start in USERS_OWN if detail.startswith(start)), None)
        if mistake is None:
            raise
        raise CostofError(Problem.GATEWAY_REFUSED, detail=detail.removeprefix(mistake)) from None
    return ready.listeners, ready.warnings


def _reload(process: GatewayProcess, warn: Callable[[str], None]) -> None:
    for address, why in process.reload().items():
        warn(f"{address}: new rules hold" if why is None else f"{address}: the rules before stay: {why}")
