"""Connecting to a user's own server: time limits, texts for steps that time out, and the identity of a server.

No program falls back from TLS to plain or from plain to TLS: an attacker in between could make the first try fail and
then receive the password.
"""

from __future__ import annotations

import contextlib
import hashlib
import socket
import ssl
from collections.abc import Callable, Mapping

from costof.errors import CostofError, ErrorText

#: Time limit of each step of a log-in: the TCP connection, a greeting, the TLS handshake, the password.
REACH_SECONDS = 5
#: Time limit of a statement: enough to index all records of the largest run on a slow disk.
ANSWER_SECONDS = 600
#: Time limit of the TCP connection that checks, after a timeout, whether the server accepts connections at all.
PROBE_SECONDS = 1.0

#: Characters of a statement that an error quotes.
STATEMENT_SHOWN = 100

TLS_HANDSHAKE = "the TLS handshake"
LOG_IN = "the log-in"


def step_timeout_text(step: str) -> str:
    """Return the error text for a step that timed out after the TCP connection was made."""
    return f"it accepts connections, but {step} was not complete within {REACH_SECONDS} s"


def timeout_text(host: str, port: int, step: str) -> str:
    """Return the error text for a timeout of a client that does not report whether it had a TCP connection."""
    with contextlib.suppress(OSError), socket.create_connection((host, port), PROBE_SECONDS):
        return step_timeout_text(step)
    return f"there was no TCP connection within {REACH_SECONDS} s"


def failed_statement(error: str, statement: str) -> str:
    """Return the error and the beginning of the statement that failed, in one line."""
    text = " ".join(statement.split())
    text = text if len(text) <= STATEMENT_SHOWN else text[:STATEMENT_SHOWN] + "…"
    return f"{error} (statement: {text})"


#: Facts about a server that must be the same when a run is resumed.
VERSION, SERVER_ID, CERTIFICATE = "version", "server id", "TLS certificate"


def check_identity(target: str, known: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise `OTHER_SERVER` for the first fact that has changed. Facts that are not in both are not compared."""
    for fact, before in known.items():
        now = current.get(fact, before)
        if now != before:
            raise CostofError(ErrorText.OTHER_SERVER, target=target, fact=fact, before=before, now=now)


def fingerprint(certificate: bytes | None) -> dict[str, str]:
    """Return the fingerprint of a certificate (DER) as a fact; {} without a certificate."""
    return {CERTIFICATE: f"SHA-256 {hashlib.sha256(certificate).hexdigest()}"} if certificate else {}


def read_certificate(host: str, port: int, start_tls: Callable[[socket.socket], bool] | None = None) -> dict[str, str]:
    """Return the fingerprint of a server's certificate as a fact; {} if the server presents none.

    `start_tls` does the protocol's negotiation before the handshake and returns whether the server agrees to TLS.
    """
    # No verification is needed: no data is sent here, and the fingerprint only distinguishes servers.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), REACH_SECONDS) as connection:
            if start_tls is not None and not start_tls(connection):
                return {}
            with context.wrap_socket(connection, server_hostname=host) as secure:
                return fingerprint(secure.getpeercert(binary_form=True))
    except (OSError, ValueError):
        return {}
