"""The base class of parts: optional features of a lab's Redis, such as a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.programs.parts import Configuration, ServerPart

if TYPE_CHECKING:
    from costof.programs.redis.lab import RedisServer


class RedisPart(ServerPart[Configuration]):
    server: RedisServer
