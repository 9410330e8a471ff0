"""The settings of an instrument that sends requests to an HTTP server, or to a balancer in front of an HTTP server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.messages.plan import ServiceSettings
from costof.model import Secret


class HttpSettings(ServiceSettings):
    """The request to send. `path` includes the query. `headers` are whole header lines and may hold credentials."""

    protocol: Literal["http"] = "http"
    host: str | None = Field(default=None, description="The Host header; if absent, the address is sent.")
    path: str
    headers: list[Secret] = Field(default_factory=list)
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
