"""Clients of an HTTP server or of a balancer in front of it: the settings for measurements, and test connections."""

from __future__ import annotations

import http.client
import ssl
from typing import Literal

from pydantic import Field

from costof.lab.host import Host
from costof.messages.plan import ServiceSettings
from costof.model import Secret


class HttpSettings(ServiceSettings):
    """The request to send. `path` includes the query. `headers` are whole header lines and may hold credentials."""

    protocol: Literal["http"] = "http"
    host: str | None = Field(default=None, description="The Host header; if absent, the address is sent.")
    path: str
    headers: list[Secret] = Field(default_factory=list)
    has_secrets: bool = Field(
        default=True,
        exclude=True,
        description="Whether headers and body may hold secrets of a user, as a lab's never do.",
    )
    body: str | None = Field(default=None, description="The body of the request, which is then a POST.")
    requests_per_connection: int | None = Field(
        default=None,
        description="Number of requests after which a connection is closed; if absent, as many as the server allows.",
    )
    any_status: bool = Field(default=False, description="Whether a response other than 2xx is a success too.")

    def keeps_connections(self, kind: str) -> bool:
        """Return whether connections stay open.

        With `requests_per_connection` they do not, because each connection is closed after that number of requests.
        """
        return self.requests_per_connection is None and super().keeps_connections(kind)


ANSWER_SECONDS = 60


class HostConnection(http.client.HTTPConnection):
    """An HTTP connection that is opened from a host of the lab, with TLS if there is a `context`."""

    def __init__(self, host: Host, address: str, context: ssl.SSLContext | None = None) -> None:
        super().__init__(address)
        self._from = host
        self._context = context

    def connect(self) -> None:
        plain = self._from.socket()
        plain.settimeout(ANSWER_SECONDS)
        self.sock = plain
        plain.connect((self.host, self.port))
        if self._context is not None:
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)
