"""Redis."""

from costof.programs.redis.own import OwnStrings
from costof.programs.redis.server import RedisServer

__all__ = ["lab_server", "own_server"]

lab_server = RedisServer
own_server = OwnStrings
