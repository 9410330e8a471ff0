"""YCSB's Redis binding (`site.ycsb.db.RedisClient`): `redis.host`, `redis.port` and `redis.password`."""

from __future__ import annotations

import redis
from pydantic import SecretStr

from costof.cli.ycsb.databases import Database
from costof.cli.ycsb.job import Properties
from costof.errors import CostofError, ErrorText
from costof.messages.plan import Endpoint
from costof.programs.reach import LOG_IN, REACH_SECONDS, timeout_text
from costof.programs.redis.connection import PORT, RETRY_ONCE, RedisSettings
from costof.urls import UrlError, host_shown, split_host

#: The sorted set of all keys. Redis has no tables, so YCSB's binding adds each record's key to this set.
INDEX = "_indices"


class RedisDatabase(Database):
    """A Redis database, reached without TLS as the default user: YCSB's binding supports nothing else."""

    PROPERTIES = frozenset({"redis.host", "redis.port", "redis.password"})

    def __init__(self, properties: Properties, table: str) -> None:
        host, port = properties.get("redis.host", "localhost"), properties.get("redis.port", str(PORT))
        try:
            self._host, self._port = split_host(f"{host}:{port}", PORT)
        except UrlError as error:
            raise CostofError(ErrorText.BAD_TARGET, study="ycsb", detail=str(error)) from None
        password = properties.get("redis.password", "")
        self._password = SecretStr(password) if password else None
        self.shown = f"redis://{host_shown(self._host, self._port)}"

    def endpoint(self) -> Endpoint:
        settings = RedisSettings(addresses=[host_shown(self._host, self._port)], password=self._password)
        return Endpoint(service=settings)

    def holds_records(self, fields: int) -> bool:
        password = self._password.get_secret_value() if self._password else None
        with redis.Redis(
            host=self._host,
            port=self._port,
            password=password,
            socket_timeout=REACH_SECONDS,
            socket_connect_timeout=REACH_SECONDS,
            retry=RETRY_ONCE,
        ) as client:
            try:
                return bool(client.exists(INDEX))
            except (redis.AuthenticationError, redis.ResponseError) as error:
                raise CostofError(ErrorText.TARGET_REFUSES_LOGIN, target=self.shown, detail=error) from None
            except redis.TimeoutError:
                detail = timeout_text(self._host, self._port, LOG_IN)
                raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self.shown, detail=detail) from None
            except redis.RedisError as error:
                raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self.shown, detail=error) from None


DATABASE = RedisDatabase
