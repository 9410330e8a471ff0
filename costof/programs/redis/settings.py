"""What an instrument is told of a Redis server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from costof.ipc.plan import ServiceSettings, Transport
from costof.model import Secret


class RedisSettings(ServiceSettings):
    """Who logs in, by which version of the protocol, and which strings are read and written."""

    protocol: Literal["redis"] = "redis"
    tls_addresses: list[str] | None = Field(default=None, description="Redis takes TLS on a port of its own.")
    username: str | None = None
    password: Secret | None = None
    resp: Literal[2, 3] | None = None
    key_prefix: str | None = None
    value_bytes: int | None = None
    expires_after_seconds: int | None = None

    def addresses_for(self, transport: Transport) -> list[str]:
        """Where clients of this transport go."""
        return self.tls_addresses if transport.is_tls and self.tls_addresses else self.addresses
