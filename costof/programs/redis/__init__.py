"""Redis in a lab, and a user's own Redis as a target."""

from costof.lab.debian import Packages
from costof.lab.program import located
from costof.programs.redis.connection import RedisLeftovers
from costof.programs.redis.lab import BINARY, PACKAGE, RedisServer, find_redis, redis_version
from costof.programs.redis.target import StringsTarget

__all__ = ["FETCHABLE", "NEEDED", "lab_server", "leftovers", "target_server"]

lab_server = RedisServer
target_server = StringsTarget
leftovers = RedisLeftovers
NEEDED = {BINARY: located(find_redis, redis_version)}
FETCHABLE = [Packages(BINARY, [PACKAGE, "redis-tools"], ["usr/bin/redis-server"])]
