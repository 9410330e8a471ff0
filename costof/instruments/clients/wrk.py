"""wrk: HTTP requests as fast as the connections allow.

wrk never verifies certificates, uses the TLS defaults of its OpenSSL, and keeps a connection open until the server
closes it.
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

SCRIPT = "request.lua"


def _invocation(endpoint: Endpoint, load: ClientLoad) -> Invocation:
    settings = endpoint.service
    assert isinstance(settings, HttpSettings)
    check_tls(endpoint, (None, "1.3"))
    if settings.has_secrets and (settings.headers or settings.body is not None):
        raise UnsupportedArmError("cannot send your headers without writing them to a file or to the process list")
    headers = [f"Host: {settings.host}"] if settings.host is not None else []
    headers += closing_headers(settings.requests_per_connection)
    options = [word for header in headers for word in ("--header", header)]
    files = {}
    if script := _script(settings):
        options += ["--script", SCRIPT]
        files = {SCRIPT: SecretStr(script)}
    return Invocation([*options, http_url(endpoint, settings.path)], files=files)


def _script(settings: HttpSettings) -> str:
    lines = []
    if settings.body is not None:
        lines += ['wrk.method = "POST"', f"wrk.body = {_quoted(settings.body)}"]
    for header in settings.headers:
        name, _, value = header.get_secret_value().partition(":")
        lines.append(f"wrk.headers[{_quoted(name)}] = {_quoted(value.strip())}")
    return "".join(f"{line}\n" for line in lines)


def _quoted(text: str) -> str:
    for sign, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\0", "\\0")):
        text = text.replace(sign, escaped)
    return f'"{text}"'


CLIENT = Client(
    program="wrk",
    package="wrk",
    services=("http", "firewall", "http_service"),
    run="{program} --latency --threads {threads} --connections {connections} --duration {seconds}s {test} {options}",
    tests={"requests": ClientTest("", ("requests_per_second",))},
    connections=200,
    invocation=_invocation,
)
