"""wrk: requests of HTTP on 200 connections.

It verifies no certificate, offers what its OpenSSL does, and keeps connections for as long as the server does.
"""

from __future__ import annotations

from costof.instruments.clients import Called, CannotError, Client, check_tls
from costof.messages.plan import Endpoint
from costof.programs.http import HttpSettings


def _called(endpoint: Endpoint) -> Called:
    settings = endpoint.service
    assert isinstance(settings, HttpSettings)
    check_tls(endpoint, (None, "1.3"))
    if settings.headers:
        raise CannotError("cannot send headers of yours without showing them in the process list")
    headers = [f"Host: {settings.host}"] if settings.host is not None else []
    match settings.requests_per_connection:
        case None:
            pass
        case 1:
            headers.append("Connection: close")
        case most:
            raise CannotError(f"cannot end connections after {most} requests")
    scheme = "https" if endpoint.transport.is_tls else "http"
    options = [word for header in headers for word in ("--header", header)]
    return Called([*options, f"{scheme}://{settings.addresses[0]}{settings.path}"])


CLIENT = Client(
    program="wrk",
    package="wrk",
    of="http",
    run="{program} --latency --threads 2 --connections 200 --duration {seconds}s {options}",
    headline=("requests_per_second",),
    called=_called,
)
