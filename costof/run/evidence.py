"""Evidence: was a slice really of its arm? From both ends, where the server can tell."""

from __future__ import annotations

from costof.ipc.process import SliceAnswer
from costof.lab.program import Counters
from costof.study.plan import AS_SERVED
from costof.study.transport import SUITES, VERSIONS, says_transport, speaks_tls

# Members of a cluster and the lab's own administration call each other now and then.
STRAY_CONNECTIONS = 4
#: Connections an application's client opens at the least: one to monitor, one to work.
CONNECTIONS_PER_CLIENT = 2


def mismatch(levels: dict[str, str], view: str, answer: SliceAnswer, moved: Counters, workers: int = 1) -> str | None:
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
        return _client_side(levels, answer) or _server_side(levels, _taken(answer, workers), moved, stray)
    opened = int(answer.evidence.get("clients", 0)) * CONNECTIONS_PER_CLIENT
    return _server_side(levels, opened, moved, STRAY_CONNECTIONS, exact=False)


def _taken(answer: SliceAnswer, workers: int) -> int:
    """Connections that the server must have counted. What the client has opened and not used to the end when the slice
    was over, one a worker at most, an overloaded server may not have taken yet."""
    opened = int(answer.evidence.get("connections", 0))
    used = answer.phases.get("connect")
    return opened - min(max(0, opened - used.count), workers) if used else opened


def _client_side(levels: dict[str, str], answer: SliceAnswer) -> str | None:
    if not says_transport(levels):
        return None
    seen = answer.evidence
    protocol = seen.get("protocol")
    if not speaks_tls(levels):
        return f"the client spoke {protocol}" if protocol else None
    if not protocol:
        return "the client did not speak TLS"
    suite = levels.get("suite", "")
    wanted = levels.get("tls_version") or VERSIONS.get(suite)
    if wanted and protocol != f"TLSv{wanted}":
        return f"the client spoke {protocol}"
    if suite in SUITES and seen.get("cipher") != SUITES[suite]:
        return f"the cipher was {seen.get('cipher')}"
    if levels.get("key", AS_SERVED) != AS_SERVED and seen.get("key") != levels["key"]:
        return f"the server showed a key of {seen.get('key')}"
    if levels.get("verify", "full") != "none" and not seen.get("verified"):
        return "the client did not verify the server's certificate"
    handshakes, resumed = int(seen.get("handshakes", 0)), int(seen.get("resumed", 0))
    if levels.get("resumption") == "on" and resumed < handshakes:
        return f"{resumed} of {handshakes} handshakes were resumed"
    if levels.get("resumption") == "off" and resumed:
        return f"{resumed} handshakes were resumed"
    return None


def _server_side(levels: dict[str, str], opened: int, moved: Counters, stray: int, exact: bool = True) -> str | None:
    if moved.connections is None or opened == 0:
        return None
    if moved.connections < opened:
        return f"the server counted {moved.connections} connections of {opened}"
    if exact and not moved.shared and moved.connections > opened + stray:
        return f"the server counted {moved.connections} connections, {opened} were opened"
    return (
        None
        if moved.tls_connections is None
        else _tls_counted(levels, opened, moved.tls_connections, moved.shared, stray)
    )


def _tls_counted(levels: dict[str, str], opened: int, counted: dict[str, int], shared: bool, stray: int) -> str | None:
    tls = sum(counted.values())
    if not says_transport(levels):
        return None
    if not speaks_tls(levels):
        return None if shared or tls <= stray else f"the server counted {tls} TLS connections"
    version = levels.get("tls_version")
    # One that does not count by version counts under 'TLS'.
    if version:
        tls = counted.get(f"TLSv{version}", 0) + counted.get("TLS", 0)
    return f"the server counted {tls} connections with TLS {version or ''} of {opened}" if tls < opened else None
