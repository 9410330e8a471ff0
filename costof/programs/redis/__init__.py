"""Redis."""

from costof.lab.program import located
from costof.programs.redis.connection import SCHEMES as URL_SCHEMES
from costof.programs.redis.connection import opened
from costof.programs.redis.lab import BINARY, RedisServer, find_redis, redis_version
from costof.programs.redis.target import OwnStrings

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = RedisServer
own_server = OwnStrings
NEEDED = {BINARY: located(find_redis, redis_version)}
