"""What an instrument is told of a server that speaks HTTP, or of a balancer before one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.messages.plan import ServiceSettings
from costof.model import Secret


class HttpSettings(ServiceSettings):
    """The request. `path` has its query; `headers` are whole lines, which may hold a log-in."""

    protocol: Literal["http"] = "http"
    host: str | None = Field(default=None, description="The Host header; the address without.")
    path: str
    headers: list[Secret] = Field(default_factory=list)
    requests_per_connection: int | None = Field(default=None, description="Absent: as many as the server allows.")
    any_status: bool = Field(default=False, description="Whether a response other than 2xx is a success too.")

    def keeps_connections(self, kind: str) -> bool:
        """Return False for those that end after so many requests: they are opened anew in measured time."""
        return self.requests_per_connection is None and super().keeps_connections(kind)
