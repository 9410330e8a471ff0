"""Connections to Redis: URL, session, the record (marker) of a run, and leftovers of killed runs.

The hash `costof:runs` holds a marker and the last heartbeat of each run that has strings on the server. With this hash,
leftovers are found without a scan of all keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Literal, Self
from urllib.parse import parse_qsl

import redis
from pydantic import Field, SecretStr, ValidationError
from redis.backoff import NoBackoff
from redis.retry import Retry

from costof.errors import CostofError, ErrorText
from costof.messages.plan import ServiceSettings, Transport
from costof.model import Secret
from costof.programs import reach
from costof.programs.access import Access
from costof.programs.leftovers import Leftover, Leftovers, in_use_by_heartbeat
from costof.programs.target_database import Marker
from costof.urls import UrlError, UrlParts, host_shown, login_shown, split_host, split_url

SCHEMES = {"redis": False, "rediss": True}
EXAMPLE = "rediss://user:password@host:6380/?plain_port=6379"
PORT = 6379
#: The name with which Valkey's server begins its version, where Redis's server says 'Redis'.
VALKEY = "Valkey"
#: The URL option that names the server's plain port, for arms (measured variants) without TLS. Redis has separate ports
#: for plain and TLS.
PLAIN_OPTION = "plain_port"


@dataclass(frozen=True)
class RedisUrl:
    """A parsed URL. `shown` is the URL without secrets.

    If `tls` is True, all connections use TLS, except those of arms (measured variants) without TLS, which need
    --allow-plain.
    """

    host: str
    port: int
    plain_port: int
    username: str | None
    password: SecretStr | None
    tls: bool
    ca_file: Path | None
    shown: str

    @property
    def address(self) -> str:
        return host_shown(self.host, self.port)


def parse_redis_url(access: Access, study: str) -> RedisUrl:
    try:
        parts = split_url(access.url, EXAMPLE)
        host, port = _parse_authority(parts)
        tls = SCHEMES[parts.scheme]
        if access.ca_file is not None and not tls:
            raise UrlError("a CA file needs TLS: write it as rediss://…")
        plain_port = _plain_port(parts.query, port, tls)
    except UrlError as error:
        raise CostofError(ErrorText.BAD_TARGET, study=study, detail=str(error)) from None
    login = login_shown(parts.username, parts.password is not None) if parts.username else ""
    query = f"/?{PLAIN_OPTION}={plain_port}" if plain_port != port else "/"
    return RedisUrl(
        host=host,
        port=port,
        plain_port=plain_port,
        username=parts.username or None,
        password=access.choose_password(parts.password),
        tls=tls,
        ca_file=access.ca_file,
        shown=f"{parts.scheme}://{login}{host_shown(host, port)}{query}",
    )


def _parse_authority(parts: UrlParts) -> tuple[str, int]:
    if parts.scheme not in SCHEMES or parts.path not in ("", "/", "/0"):
        raise UrlError(f"write it as {EXAMPLE}")
    if not parts.hosts:
        raise UrlError("it has no host")
    return split_host(parts.hosts, PORT)


def _plain_port(query: str, port: int, tls: bool) -> int:
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not options:
        return port
    text = options.pop(PLAIN_OPTION, "")
    if options or not tls or not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 16):
        raise UrlError(f"the only option allowed after '?' is {PLAIN_OPTION}, in rediss://… URLs")
    return int(text)


#: The sizes in bytes of the strings that the run loads into Redis. `1024: (10, 1, 1)` means that of each 10 consecutive
#: strings, 1 has 1024 bytes: the one at index 1. (`Strings` in engine/crates/wire must agree with this.)
_STRINGS = {100: (10, 8, 2), 1024: (10, 1, 1), 102400: (1000, 1, 0)}


class RedisSettings(ServiceSettings):
    """The settings of a Redis client: log-in, protocol version, and the strings to read and write."""

    protocol: Literal["redis"] = "redis"
    tls_addresses: list[str] | None = Field(
        default=None, description="Addresses for TLS connections, since Redis has a separate port for TLS."
    )
    username: str | None = None
    password: Secret | None = None
    visible_login: tuple[str, str] | None = Field(
        default=None,
        exclude=True,
        description="User and password of an account that may only use the run's keys, for programs that show their "
        "password in the process list.",
    )
    resp: Literal[2, 3] | None = None
    key_prefix: str | None = None
    value_bytes: Literal[100, 1024, 102400] | None = None
    wait_replicas: int | None = Field(
        default=None, ge=1, description="How many replicas must have a write (workload `write`) before it is answered."
    )

    def addresses_for(self, transport: Transport) -> list[str]:
        return self.tls_addresses if transport.is_tls and self.tls_addresses else self.addresses

    def at_address(self, address: str) -> Self:
        """Return the settings of a client that uses `address`, such as a tunnel's, for plain and TLS connections."""
        return super().at_address(address).model_copy(update={"tls_addresses": None})

    def any_key(self, records: int, random: Random) -> str:
        """Return the key of a random string whose value has `value_bytes`."""
        every, count, first = _STRINGS[self.value_bytes or 100]
        record = random.randrange(max(1, records // every)) * every + first + random.randrange(count)
        return f"{self.key_prefix or ''}key:{record:012}"


MAY_WANT_TLS = "this may be the TLS port: write rediss://…"
# By default, redis-py would retry ten times, for up to a minute.
RETRY_ONCE = Retry(NoBackoff(), 1, (redis.ConnectionError,))
# The hint after a timeout: a plain port takes a TLS ClientHello for the beginning of a command and waits for the rest.
MAY_BE_PLAIN = "the URL requires TLS, but this may be the plain port"


class RedisSession:
    """One connection to a user's server.

    If the server has closed the connection, redis-py opens it again and repeats the interrupted command. This is safe
    for all commands in this file.
    """

    def __init__(self, url: RedisUrl) -> None:
        self._url = url
        self._client: redis.Redis | None = None

    def open(self) -> None:
        self._client = client = self._connect()
        try:
            client.ping()
        except redis.AuthenticationError as error:
            raise CostofError(ErrorText.TARGET_REFUSES_LOGIN, target=self._url.shown, detail=error) from None
        except redis.ResponseError as error:
            raise self._failed(error, "PING") from None
        except redis.RedisError as error:
            detail = f"{self._error_text(error)}{self._hint(error)}"
            raise CostofError(ErrorText.TARGET_UNREACHABLE, target=self._url.shown, detail=detail) from None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def ask(self, *command: str) -> Any:
        try:
            return self.try_to(*command)
        except redis.RedisError as error:
            # The error quotes only the command's first two words, since later words may be data.
            raise self._failed(error, " ".join(command[:2])) from None

    def try_to(self, *command: str) -> Any:
        """Execute a command. Raises `RedisError`."""
        assert self._client is not None
        return self._client.execute_command(*command)  # type: ignore[no-untyped-call]

    def _error_text(self, error: redis.RedisError) -> str:
        if not isinstance(error, redis.TimeoutError):
            return str(error)
        has_read = "reading" in str(error)
        step = reach.TLS_HANDSHAKE if self._url.tls and not has_read else reach.LOG_IN
        return reach.timeout_text(self._url.host, self._url.port, step)

    def _hint(self, error: redis.RedisError) -> str:
        if self._url.tls:
            return f"; {MAY_BE_PLAIN}" if isinstance(error, redis.TimeoutError) else ""
        return f"; {MAY_WANT_TLS}" if any(word in str(error) for word in ("closed", "reset")) else ""

    def _failed(self, error: redis.RedisError, command: str) -> CostofError:
        detail = reach.failed_statement(str(error), command)
        return CostofError(ErrorText.TARGET_FAILED, target=self._url.shown, detail=detail)

    def _connect(self) -> redis.Redis:
        url = self._url
        return redis.Redis(
            host=url.host,
            port=url.port,
            username=url.username,
            password=url.password.get_secret_value() if url.password else None,
            socket_timeout=reach.REACH_SECONDS,
            socket_connect_timeout=reach.REACH_SECONDS,
            retry=RETRY_ONCE,
            decode_responses=True,
            ssl=url.tls,
            ssl_check_hostname=url.tls,
            ssl_ca_certs=str(url.ca_file) if url.ca_file else None,
        )


RUNS = "costof:runs"
#: Number of keys in one command. It is small enough not to delay other clients.
BATCH = 500


class StringsMarker(Marker):
    """A run's record on the server (marker), with the number of strings that the run may have written."""

    records: int


class MarkedStrings:
    """The strings of the run `name`, under keys `costof:<name>:key:<number>`."""

    def __init__(self, session: RedisSession, name: str) -> None:
        self.name = name
        self.prefix = f"costof:{name}:"
        self._session = session

    def mark(self, marker: StringsMarker) -> bool:
        """Write the run's record (`marker`) and return True. Return False if the run already has a record."""
        return bool(self._session.ask("HSETNX", RUNS, self.name, marker.model_dump_json()))

    def marker(self) -> StringsMarker | None:
        text = self._session.ask("HGET", RUNS, self.name)
        try:
            return StringsMarker.model_validate_json(text or "")
        except ValidationError:
            return None

    def any_exists(self, records: int) -> bool:
        return any(self._session.ask("EXISTS", *keys) for keys in self._batches(records))

    def beat(self) -> None:
        """Store the server's current time as the last heartbeat. Raises `RedisError`."""
        seconds, _ = self._session.try_to("TIME")
        self._session.try_to("HSET", RUNS, self._heartbeat_field, str(seconds))

    def seconds_since_heartbeat(self) -> float | None:
        """Return the seconds since the last heartbeat, by the server's clock; None if there was no heartbeat."""
        last = self._session.ask("HGET", RUNS, self._heartbeat_field)
        seconds, _ = self._session.ask("TIME")
        return float(seconds) - float(last) if last and last.isdigit() else None

    def remove(self, marker: StringsMarker) -> bool:
        """Remove the run's keys and return True; return False if the server no longer has the run's `marker`."""
        if self.marker() != marker:
            return False
        for keys in self._batches(marker.records):
            self._session.ask("UNLINK", *keys)
        self._session.ask("HDEL", RUNS, self._heartbeat_field, self.name)
        return True

    @property
    def _heartbeat_field(self) -> str:
        # No name of a run has a colon, so no other run can have this field as its own marker.
        return f"{self.name}:alive"

    def _batches(self, records: int) -> Iterator[list[str]]:
        keys = (f"{self.prefix}key:{record:012}" for record in range(records))
        return iter(lambda: list(islice(keys, BATCH)), [])


class RedisLeftovers(Leftovers):
    schemes = SCHEMES
    url: RedisUrl
    session: RedisSession

    def __init__(self, access: Access) -> None:
        self.url = parse_redis_url(access, "clean")
        self.session = RedisSession(self.url)

    def find(self) -> list[Leftover]:
        # Fields with a colon are heartbeats.
        names = sorted(field for field in self.session.ask("HKEYS", RUNS) if ":" not in field)
        return [
            Leftover(strings.name, marker, in_use_by_heartbeat(marker, strings.seconds_since_heartbeat()))
            for strings in (MarkedStrings(self.session, name) for name in names)
            if (marker := strings.marker())
        ]

    def remove(self, leftover: Leftover) -> bool:
        assert isinstance(leftover.marker, StringsMarker)
        return MarkedStrings(self.session, leftover.database).remove(leftover.marker)
