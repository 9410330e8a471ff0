"""A log-in to a user's own Redis server for administration: under TLS or in plain, as its URL asks.

There is no second try by the other way: whoever stands between could make the first one fail, and be sent the password.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from costof.errors import CostofError, Problem
from costof.programs import reach
from costof.programs.redis.url import RedisUrl

MAY_WANT_TLS = "its port may be the one that takes TLS: write rediss://…"
# By itself redis-py would try ten times in a minute.
AGAIN_IF_HUNG_UP = Retry(NoBackoff(), 1, (redis.ConnectionError,))
# Such a port takes a client's hello for the beginning of a command, and waits for the rest.
MAY_BE_PLAIN = "TLS is asked for, and its port may be the one that takes plain connections"


class RedisSession:
    """One connection; redis-py opens another when the server hung up. Nothing that is asked here does harm when it is
    asked twice."""

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        self._client: redis.Redis | None = None

    def open(self) -> None:
        """Raises `TARGET_REFUSES_LOGIN`, `TARGET_UNREACHABLE`."""
        self._client = client = self._connect()
        try:
            client.ping()
        except redis.AuthenticationError as error:
            raise CostofError(Problem.TARGET_REFUSES_LOGIN, target=self._url.shown, detail=error) from None
        except redis.ResponseError as error:
            raise self._failed(error, "PING") from None
        except redis.RedisError as error:
            told = f"{self._words_of(error)}{self._hint(error)}"
            raise CostofError(Problem.TARGET_UNREACHABLE, target=self._url.shown, detail=told) from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def ask(self, *command: str) -> Any:
        """Raises `TARGET_FAILED`."""
        try:
            return self.try_to(*command)
        except redis.RedisError as error:
            # Later words may be values.
            raise self._failed(error, " ".join(command[:2])) from None

    def try_to(self, *command: str) -> Any:
        """Raises `RedisError`."""
        assert self._client is not None
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def _words_of(self, error: redis.RedisError) -> str:
        if not isinstance(error, redis.TimeoutError):
            return str(error)
        has_read = "reading" in str(error)
        step = reach.TLS_HANDSHAKE if self._url.tls and not has_read else reach.LOG_IN
        return reach.silent(self._url.host, self._url.port, step)

    def _hint(self, error: redis.RedisError) -> str:
        if self._url.tls:
            return f"; {MAY_BE_PLAIN}" if isinstance(error, redis.TimeoutError) else ""
        return f"; {MAY_WANT_TLS}" if any(word in str(error) for word in ("closed", "reset")) else ""

    def _failed(self, error: redis.RedisError, command: str) -> CostofError:
        detail = reach.failed_statement(str(error), command)
        return CostofError(Problem.TARGET_FAILED, target=self._url.shown, detail=detail)

    def _connect(self) -> redis.Redis:
        url = self._url
        return redis.Redis(
            host=url.host,
            port=url.port,
            username=url.username,
            password=url.password.get_secret_value() if url.password else None,
            socket_timeout=reach.REACH_SECONDS,
            socket_connect_timeout=reach.REACH_SECONDS,
            retry=AGAIN_IF_HUNG_UP,
            decode_responses=True,
            ssl=url.tls,
            ssl_check_hostname=url.tls,
            ssl_ca_certs=str(url.ca_file) if url.ca_file else None,
        )
