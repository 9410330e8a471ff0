"""nghttp2's h2load: HTTP/1.1 requests as fast as the connections allow.

h2load never verifies certificates, and uses the TLS defaults of its OpenSSL. It runs for a number of requests, because
h2load 1.52 with a duration may never end with HTTP/1.1.
"""

from __future__ import annotations

from pydantic import SecretStr

from costof.instruments.clients import (
    Client,
    ClientLoad,
    ClientTest,
    Invocation,
    UnsupportedArmError,
    check_tls,
    closing_headers,
    http_url,
)
from costof.messages.plan import Endpoint
from costof.programs.http import HttpSettings

BODY = "body"
#: The number of requests on each connection, for requests without and with a body. `MOST_REQUESTS` limits the sum over
#: all connections.
REQUESTS, REQUESTS_WITH_BODY = 100, 10
MOST_REQUESTS = 2_000


def _invocation(endpoint: Endpoint, load: ClientLoad) -> Invocation:
    settings = endpoint.service
    assert isinstance(settings, HttpSettings)
    check_tls(endpoint, (None, "1.3"))
    if settings.has_secrets and (settings.headers or settings.body is not None):
        raise UnsupportedArmError("cannot send your headers without showing them in the process list")
    # With :authority, h2load sends this name in the header Host. By default it sends the address in the URL.
    headers = [f":authority: {settings.host}"] if settings.host is not None else []
    headers += [header.get_secret_value() for header in settings.headers]
    headers += closing_headers(settings.requests_per_connection)
    requests = load.requests(REQUESTS if settings.body is None else REQUESTS_WITH_BODY)
    options = [f"--requests={max(load.connections, min(requests, MOST_REQUESTS))}"]
    options += [f"--header={header}" for header in headers]
    files = {}
    if settings.body is not None:
        options.append(f"--data={BODY}")
        files = {BODY: SecretStr(settings.body)}
    return Invocation([*options, http_url(endpoint, settings.path)], files=files)


CLIENT = Client(
    program="h2load",
    package="nghttp2-client",
    services=("http", "firewall", "http_service"),
    run="{program} --h1 --threads {threads} --clients {connections} {test} {options}",
    tests={"requests": ClientTest("", ("requests_per_second",))},
    connections=200,
    invocation=_invocation,
)
