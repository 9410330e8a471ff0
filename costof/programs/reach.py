"""Time limits of a session with a user's own server, and the words for a step of a log-in that takes longer."""

from __future__ import annotations

import contextlib
import socket

#: Each step of a log-in: the TCP connection, a greeting, the TLS handshake, the password.
REACH_SECONDS = 5
#: A statement: an index over all records of the largest run, on a slow disk.
ANSWER_SECONDS = 600
#: Whether a server takes connections at all is asked again, when it has been silent for `REACH_SECONDS`.
PROBE_SECONDS = 1.0

#: How much of a statement an error names.
STATEMENT_SHOWN = 100

TLS_HANDSHAKE = "the TLS handshake"
LOG_IN = "the log-in"


def silent_at(step: str) -> str:
    """Return why a server cannot be reached that took a TCP connection and not this step in time."""
    return f"it takes connections, and {step} was not complete within {REACH_SECONDS} s"


def silent(host: str, port: int, step: str) -> str:
    """Return the same for a client that does not say whether there was a TCP connection."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), PROBE_SECONDS):
        return silent_at(step)
    return f"there was no TCP connection within {REACH_SECONDS} s"


def failed_statement(error: str, statement: str) -> str:
    """Return the error with the beginning of the statement that had it, in one line."""
    text = " ".join(statement.split())
    text = text if len(text) <= STATEMENT_SHOWN else text[:STATEMENT_SHOWN] + "…"
    return f"{error} (it was asked: {text})"
