"""Redis."""

from costof.lab.program import located
from costof.programs.redis.binary import BINARY, find_redis, redis_version
from costof.programs.redis.leftovers import opened
from costof.programs.redis.own import OwnStrings
from costof.programs.redis.server import RedisServer
from costof.programs.redis.url import SCHEMES as URL_SCHEMES

__all__ = ["NEEDED", "URL_SCHEMES", "lab_server", "opened", "own_server"]

lab_server = RedisServer
own_server = OwnStrings
NEEDED = {BINARY: located(find_redis, redis_version)}
