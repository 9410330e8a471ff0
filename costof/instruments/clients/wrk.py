"""wrk: HTTP requests on 200 connections.

wrk never verifies certificates, uses the defaults of its OpenSSL, and keeps a connection open until the server closes
the connection.
"""

from __future__ import annotations

from costof.instruments.clients import Client, Invocation, UnsupportedArmError, check_tls
from costof.messages.plan import Endpoint
from costof.programs.http import HttpSettings


def _invocation(endpoint: Endpoint) -> Invocation:
    settings = endpoint.service
    assert isinstance(settings, HttpSettings)
    check_tls(endpoint, (None, "1.3"))
    if settings.headers:
        raise UnsupportedArmError("cannot send your headers without showing them in the process list")
    headers = [f"Host: {settings.host}"] if settings.host is not None else []
    match settings.requests_per_connection:
        case None:
            pass
        case 1:
            headers.append("Connection: close")
        case most:
            raise UnsupportedArmError(f"cannot end connections after {most} requests")
    scheme = "https" if endpoint.transport.is_tls else "http"
    options = [word for header in headers for word in ("--header", header)]
    return Invocation([*options, f"{scheme}://{settings.addresses[0]}{settings.path}"])


CLIENT = Client(
    program="wrk",
    package="wrk",
    service="http",
    run="{program} --latency --threads 2 --connections 200 --duration {seconds}s {options}",
    headline=("requests_per_second",),
    invocation=_invocation,
)
