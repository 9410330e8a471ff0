"""Redis."""

from costof.lab.program import located
from costof.programs.redis.connection import RedisLeftovers
from costof.programs.redis.lab import BINARY, RedisServer, find_redis, redis_version
from costof.programs.redis.target import OwnStrings

__all__ = ["NEEDED", "lab_server", "leftovers", "own_server"]

lab_server = RedisServer
own_server = OwnStrings
leftovers = RedisLeftovers
NEEDED = {BINARY: located(find_redis, redis_version)}
