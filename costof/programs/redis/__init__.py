"""Redis."""

from costof.programs.redis.server import RedisServer

__all__ = ["lab_server"]

lab_server = RedisServer
