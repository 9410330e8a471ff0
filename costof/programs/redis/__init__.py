"""Redis in a lab, and a user's own Redis as a target."""

from costof.lab.program import located
from costof.programs.redis.connection import RedisLeftovers
from costof.programs.redis.lab import BINARY, RedisServer, find_redis, redis_version
from costof.programs.redis.target import StringsTarget

__all__ = ["NEEDED", "lab_server", "leftovers", "target_server"]

lab_server = RedisServer
target_server = StringsTarget
leftovers = RedisLeftovers
NEEDED = {BINARY: located(find_redis, redis_version)}
