"""Evidence: was a slice really of its arm? From both ends, where the server can tell."""

from __future__ import annotations

from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.study.schema import ArmSettings

# Members of a cluster and the lab's own administration call each other now and then.
STRAY_CONNECTIONS = 4


def mismatch(settings: ArmSettings, view: str, answer: SliceAnswer, moved: Counters, workers: int = 1) -> str | None:
    """Why a slice does not prove its arm, in words; None when it does.

    `moved` is what the server's own counters moved by during the slice; where it does not tell, the client's side
    stands alone. Each of the `workers` may have left a connection unfinished at the end of this slice and of the one
    before, which the client counts nowhere, nor those that failed.
    A slice in which nothing succeeded proves nothing and refutes nothing: its errors speak for it.
    """
    if answer.operations == 0:
        return None
    if view == "wire":
        stray = max(STRAY_CONNECTIONS, 2 * workers) + sum(error.count for error in answer.errors)
        return _client_side(settings, answer) or _server_side(settings, _taken(answer, workers), moved, stray)
    # A program of the user's does not say how many it has opened: one, at the least.
    opened = 1 if view == "command" else int(answer.evidence.get("connections", 0))
    return _server_side(settings, opened, moved, STRAY_CONNECTIONS, exact=False)


def _taken(answer: SliceAnswer, workers: int) -> int:
    """Connections that the server must have counted. What the client has opened and not used to the end when the slice
    was over, one a worker at most, an overloaded server may not have taken yet."""
    opened = int(answer.evidence.get("connections", 0))
    used = answer.phases.get("connect")
    return opened - min(max(0, opened - used.count), workers) if used else opened


def _client_side(settings: ArmSettings, answer: SliceAnswer) -> str | None:
    if settings.transport is None:
        return None
    seen, wanted = answer.evidence, settings.transport
    protocol = seen.get("protocol")
    if not wanted.is_tls:
        return f"the client spoke {protocol}" if protocol else None
    if not protocol:
        return "the client did not speak TLS"
    if wanted.version and protocol != f"TLSv{wanted.version}":
        return f"the client spoke {protocol}"
    if wanted.cipher and seen.get("cipher") != wanted.cipher:
        return f"the cipher was {seen.get('cipher')}"
    for name, value in settings.evidence.items():
        if seen.get(name) != value:
            return f"the server showed a {name} of {seen.get(name)}"
    if wanted.verify != "none" and not seen.get("verified"):
        return "the client did not verify the server's certificate"
    handshakes, resumed = int(seen.get("handshakes", 0)), int(seen.get("resumed", 0))
    if resumed < handshakes if wanted.resumption else resumed:
        return f"{resumed} of {handshakes} handshakes were resumed"
    return None


def _server_side(settings: ArmSettings, opened: int, moved: Counters, stray: int, exact: bool = True) -> str | None:
    if moved.connections is None or opened == 0:
        return None
    if moved.connections < opened:
        return f"the server counted {moved.connections} connections of {opened}"
    if exact and not moved.shared and moved.connections > opened + stray:
        return f"the server counted {moved.connections} connections, {opened} were opened"
    if moved.tls_connections is None or settings.transport is None:
        return None
    tls = sum(moved.tls_connections.values())
    if not settings.transport.is_tls:
        return None if moved.shared or tls <= stray else f"the server counted {tls} TLS connections"
    version = settings.transport.version
    # One that does not count by version counts under 'TLS'.
    if version:
        tls = moved.tls_connections.get(f"TLSv{version}", 0) + moved.tls_connections.get("TLS", 0)
    name = f"TLS {version}" if version else "TLS"
    return f"the server counted {tls} connections with {name} of {opened}" if tls < opened else None
