"""Measurement with redis-py, a Redis driver that applications use, without a shared connection pool.

It measures a new connection with its first GET, and GETs on one persistent connection.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from costof.instruments.drivers.driver import ApplicationDriver, DriverError, serve
from costof.messages.plan import Arm, Plan, Transport
from costof.programs.redis.connection import RedisSettings

# Maps words in an error's text to error classes, since redis-py reports socket errors only as text.
_CLASS_BY_WORDS = (
    ("not valid for", "tls_certificate_name"),
    ("IP address mismatch", "tls_certificate_name"),
    ("Hostname mismatch", "tls_certificate_name"),
    ("certificate has expired", "tls_certificate_expired"),
    ("CERTIFICATE_VERIFY_FAILED", "tls_certificate_untrusted"),
    ("WRONG_VERSION_NUMBER", "tls_refused"),
    ("SSL", "tls_handshake"),
    ("Name or service not known", "resolve"),
    ("max number of clients", "server"),
    ("refused", "refused"),
    ("reset", "reset"),
    ("closed", "closed"),
)


class RedisDriver(ApplicationDriver[RedisSettings]):
    name, version = "redis-py", redis.__version__
    settings = RedisSettings

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._persistent: dict[str, redis.Redis] = {}

    def check(self, arm: Arm) -> str | None:
        if arm.transport.group or arm.transport.cipher or arm.transport.resumption:
            raise DriverError(
                "tls_configuration", "redis-py cannot choose a group or cipher suite, nor resume sessions"
            )
        self._persistent[arm.name] = client = self._client(arm)
        try:
            # First connect without retries, so that an arm (variant) that cannot work fails at once.
            with self._client(arm, retry=Retry(NoBackoff(), 0)) as once:
                once.ping()
            client.ping()
        except redis.TimeoutError as error:
            # A server without TLS reads the ClientHello as the beginning of a command and waits for the rest, so the
            # client gets a timeout.
            error_class = "tls_refused" if arm.transport.is_tls else "timeout"
            raise DriverError(error_class, _words(error)) from error
        except redis.RedisError as error:
            raise _classified(error) from error
        return self.service(arm).addresses_for(arm.transport)[0]

    def connect(self, arm: Arm) -> Iterator[str]:
        """Create a client, connect it, and run a GET.

        redis-py would open the connection only for the first GET. This method opens it earlier, through the client's
        pool, to measure connecting as a separate phase.
        """
        client = self._client(arm)
        try:
            connection = client.connection_pool.get_connection()
            client.connection_pool.release(connection)
            yield "connect"
            self._get(client, arm)
            yield "first_operation"
        except redis.RedisError as error:
            raise _classified(error) from error
        finally:
            client.close()

    def query(self, arm: Arm) -> None:
        try:
            self._get(self._persistent[arm.name], arm)
        except redis.RedisError as error:
            raise _classified(error) from error

    def _get(self, client: redis.Redis, arm: Arm) -> None:
        key = self.service(arm).any_key(self._records, self._random)
        if client.get(key) is None:
            raise DriverError("server", f"there is no key {key}")

    def _client(self, arm: Arm, **options: Any) -> redis.Redis:
        service = self.service(arm)
        host, _, port = service.addresses_for(arm.transport)[0].rpartition(":")
        return redis.Redis(
            host=host,
            port=int(port),
            username=service.username,
            password=service.password.get_secret_value() if service.password else None,
            protocol=service.resp or 2,
            socket_timeout=self._timeout_seconds,
            socket_connect_timeout=self._timeout_seconds,
            **_tls(arm.transport),
            **options,
        )


def _tls(transport: Transport) -> dict[str, Any]:
    if not transport.is_tls:
        return {}
    return {
        "ssl": True,
        "ssl_ca_certs": str(transport.ca_file) if transport.ca_file else None,
        "ssl_cert_reqs": "none" if transport.verify == "none" else "required",
        "ssl_check_hostname": transport.verify == "full",
        "ssl_certfile": str(transport.certificate_file) if transport.certificate_file else None,
        "ssl_keyfile": str(transport.certificate_file) if transport.certificate_file else None,
    }


def _classified(error: redis.RedisError) -> DriverError:
    text = _words(error)
    if isinstance(error, redis.TimeoutError):
        return DriverError("timeout", text)
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.NoPermissionError)):
        return DriverError("authentication", text)
    if isinstance(error, redis.ResponseError):
        return DriverError("server", text)
    classes = (error_class for words, error_class in _CLASS_BY_WORDS if words in text)
    return DriverError(next(classes, "closed"), text)


def _words(error: redis.RedisError) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(serve(RedisDriver))
