"""What an instrument is told of a Redis server."""

from __future__ import annotations

from random import Random
from typing import Literal, Self

from pydantic import Field

from costof.messages.plan import ServiceSettings, Transport
from costof.model import Secret

#: By the size of their values: of every so many strings, so many from the first on (the engine's `Strings`).
_STRINGS = {100: (10, 8, 2), 1024: (10, 1, 1), 102400: (1000, 1, 0)}


class RedisSettings(ServiceSettings):
    """Who logs in, by which version of the protocol, and which strings are read and written."""

    protocol: Literal["redis"] = "redis"
    tls_addresses: list[str] | None = Field(default=None, description="Redis takes TLS on a port of its own.")
    username: str | None = None
    password: Secret | None = None
    resp: Literal[2, 3] | None = None
    key_prefix: str | None = None
    value_bytes: Literal[100, 1024, 102400] | None = None

    def addresses_for(self, transport: Transport) -> list[str]:
        """Where clients of this transport go."""
        return self.tls_addresses if transport.is_tls and self.tls_addresses else self.addresses

    def entered_at(self, address: str) -> Self:
        """What stands there takes TLS and plain as its own affair."""
        return super().entered_at(address).model_copy(update={"tls_addresses": None})

    def any_key(self, records: int, random: Random) -> str:
        """Of one of the strings that are asked for."""
        every, count, first = _STRINGS[self.value_bytes or 100]
        record = random.randrange(max(1, records // every)) * every + first + random.randrange(count)
        return f"{self.key_prefix or ''}key:{record:012}"
