"""Time limits and error texts of connections to a user's own server, and checks of the server's identity.

A connection that fails with TLS is never tried again without TLS, nor the other way round. Otherwise an attacker
between client and server could make the first attempt fail and receive the password at the second.
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
#: Time limit of a statement. It is enough to index all records of the largest run on a slow disk.
ANSWER_SECONDS = 600
#: Time limit of the TCP connection that checks, after a timeout, whether the server accepts connections at all.
PROBE_SECONDS = 1.0

QUOTED_CHARACTERS = 100

TLS_HANDSHAKE = "the TLS handshake"
LOG_IN = "the log-in"


def step_timeout_text(step: str) -> str:
    """Return the error text for a step that timed out after the TCP connection was made."""
    return f"it accepts connections, but {step} was not complete within {REACH_SECONDS} s"


def timeout_text(host: str, port: int, step: str) -> str:
    """Return the error text for a timeout of a client library that does not report which step timed out.

    The function tries a new TCP connection to the server. If this succeeds, the text names `step`, such as the TLS
    handshake; otherwise it names the TCP connection.
    """
    with contextlib.suppress(OSError), socket.create_connection((host, port), PROBE_SECONDS):
        return step_timeout_text(step)
    return f"there was no TCP connection within {REACH_SECONDS} s"


def failed_statement(error: str, statement: str) -> str:
    """Return one line: the error, and the beginning of the statement that failed."""
    text = " ".join(statement.split())
    text = text if len(text) <= QUOTED_CHARACTERS else text[:QUOTED_CHARACTERS] + "…"
    return f"{error} (statement: {text})"


#: Names of facts about a server that must be the same when a run is resumed.
VERSION, SERVER_ID, CERTIFICATE = "version", "server id", "TLS certificate"


def check_identity(target: str, known: Mapping[str, str], current: Mapping[str, str]) -> None:
    """Raise `OTHER_SERVER` for the first fact that both `known` and `current` have, with different values."""
    for fact, before in known.items():
        now = current.get(fact, before)
        if now != before:
            raise CostofError(ErrorText.OTHER_SERVER, target=target, fact=fact, before=before, now=now)


def fingerprint(certificate: bytes | None) -> dict[str, str]:
    """Return the SHA-256 fingerprint of a DER certificate, under the key `CERTIFICATE`; {} without a certificate."""
    return {CERTIFICATE: f"SHA-256 {hashlib.sha256(certificate).hexdigest()}"} if certificate else {}


def read_certificate(host: str, port: int, start_tls: Callable[[socket.socket], bool] | None = None) -> dict[str, str]:
    """Connect to a server and return the `fingerprint` of its certificate; {} if there is no certificate.

    `start_tls` sends the protocol's request for TLS before the handshake and returns whether the server agrees.
    """
    # The certificate need not be verified: no data is sent, and the fingerprint only serves to distinguish servers.
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
