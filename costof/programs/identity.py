"""What tells a user's own server from others: compared when a run on it is resumed."""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Callable, Mapping

from costof.errors import CostofError, Problem
from costof.programs import reach

VERSION, SERVER_ID, CERTIFICATE = "version", "server id", "TLS certificate"


def check_identity(target: str, known: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raise `OTHER_SERVER` for the first fact that has changed. A fact that either lacks is not compared."""
    for fact, before in known.items():
        now = found.get(fact, before)
        if now != before:
            raise CostofError(Problem.OTHER_SERVER, target=target, fact=fact, before=before, now=now)


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
        with socket.create_connection((host, port), reach.REACH_SECONDS) as connection:
            if ask_for_tls is not None and not ask_for_tls(connection):
                return {}
            with context.wrap_socket(connection, server_hostname=host) as secure:
                return fingerprint(secure.getpeercert(binary_form=True))
    except (OSError, ValueError):
        return {}
