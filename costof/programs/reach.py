"""Reaching a user's own server: time limits, the words for a step that takes longer, and what tells it from others.

No program tries a second time by the other way, plain after TLS or TLS after plain: whoever stands between could make
the first try fail, and be sent the password.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
from collections.abc import Callable, Mapping

from costof.errors import CostofError, ErrorText

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


#: Facts that are compared when a run on a server is resumed.
VERSION, SERVER_ID, CERTIFICATE = "version", "server id", "TLS certificate"


def check_identity(target: str, known: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise `OTHER_SERVER` for the first fact that has changed. A fact that either lacks is not compared."""
    for fact, before in known.items():
        now = found.get(fact, before)
        if now != before:
            raise CostofError(ErrorText.OTHER_SERVER, target=target, fact=fact, before=before, now=now)


def fingerprint(certificate: bytes | None) -> dict[str, str]:
    """Return the fact of a certificate (DER); nothing where there is none."""
    return {CERTIFICATE: f"SHA-256 {hashlib.sha256(certificate).hexdigest()}"} if certificate else {}


def certificate_of(host: str, port: int, ask_for_tls: Callable[[socket.socket], bool] | None = None) -> dict[str, str]:
    """Return the fact of the certificate that a server shows; nothing where it shows none.

    `ask_for_tls` is what a protocol says before the handshake; it returns whether the server agrees.
    """
    # Nothing is verified, since nothing is said over this connection: it only tells one server from another.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), REACH_SECONDS) as connection:
            if ask_for_tls is not None and not ask_for_tls(connection):
                return {}
            with context.wrap_socket(connection, server_hostname=host) as secure:
                return fingerprint(secure.getpeercert(binary_form=True))
    except (OSError, ValueError):
        return {}
