"""Evidence that a slice (a measured window) really had its arm's settings, such as the TLS version.

It comes from the client and, if the server has counters, also from the server.
"""

from __future__ import annotations

from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.study.schema import ArmSettings

#: Maximum number of connections in a slice (measured window) that the server counts but that do not come from measured
#: clients. They come from cluster members and from the lab itself.
STRAY_CONNECTIONS = 4


def mismatch(settings: ArmSettings, view: str, answer: SliceAnswer, increase: Counters, workers: int = 1) -> str | None:
    """Return text that says how a slice's evidence contradicts its arm's settings; None if it does not.

    `increase` is the change of the server's counters during the slice (measured window). A slice without a successful
    operation has no evidence and is not checked, and neither is a server without counters.

    The server may count more connections than the client. It also counts failed connections. It also counts unfinished
    connections, of which each of the `workers` may have one at the end of this slice and of the slice before.
    """
    if answer.operations == 0:
        return None
    if view == "wire":
        stray = max(STRAY_CONNECTIONS, 2 * workers) + sum(error.count for error in answer.errors)
        return _client_side(settings, answer) or _server_side(
            settings, _counted_connections(answer, workers), increase, stray
        )
    # A user's program does not report how many connections it has opened, but it needs at least one.
    opened = 1 if view == "command" else int(answer.evidence.get("connections", 0))
    return _server_side(settings, opened, increase, STRAY_CONNECTIONS, exact=False)


def _counted_connections(answer: SliceAnswer, workers: int) -> int:
    """Return the minimum number of connections that the server must have counted.

    Each worker may have one unfinished connection at the end of the slice (measured window). These connections are not
    required, because an overloaded server may not have accepted them yet.
    """
    opened = int(answer.evidence.get("connections", 0))
    used = answer.phases.get("connect")
    return opened - min(max(0, opened - used.count), workers) if used else opened


def _client_side(settings: ArmSettings, answer: SliceAnswer) -> str | None:
    if settings.transport is None:
        return None
    evidence, transport = answer.evidence, settings.transport
    protocol = evidence.get("protocol")
    if not transport.is_tls:
        return f"the client used {protocol}" if protocol else None
    if not protocol:
        return "the client did not use TLS"
    if transport.version and protocol != f"TLSv{transport.version}":
        return f"the client used {protocol}"
    if transport.cipher and evidence.get("cipher") != transport.cipher:
        return f"the cipher was {evidence.get('cipher')}"
    for name, value in settings.evidence.items():
        if evidence.get(name) != value:
            return f"the server had {evidence.get(name)} as its {name}"
    if transport.verify != "none" and not evidence.get("verified"):
        return "the client did not verify the server's certificate"
    handshakes, resumed = int(evidence.get("handshakes", 0)), int(evidence.get("resumed", 0))
    if resumed < handshakes if transport.resumption else resumed:
        return f"{resumed} of {handshakes} handshakes were resumed"
    return None


def _server_side(settings: ArmSettings, opened: int, increase: Counters, stray: int, exact: bool = True) -> str | None:
    if increase.connections is None or opened == 0:
        return None
    if increase.connections < opened:
        return f"the server counted only {increase.connections} of {opened} connections"
    if exact and not increase.shared and increase.connections > opened + stray:
        return f"the server counted {increase.connections} connections, but the client opened {opened}"
    if increase.tls_connections is None or settings.transport is None:
        return None
    tls = sum(increase.tls_connections.values())
    if not settings.transport.is_tls:
        return None if increase.shared or tls <= stray else f"the server counted {tls} TLS connections"
    version = settings.transport.version
    # A server that does not count TLS versions separately counts all TLS connections under 'TLS'.
    if version:
        tls = increase.tls_connections.get(f"TLSv{version}", 0) + increase.tls_connections.get("TLS", 0)
    name = f"TLS {version}" if version else "TLS"
    return f"the server counted only {tls} of {opened} connections with {name}" if tls < opened else None
