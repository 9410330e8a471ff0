"""Strings of a run's own on a user's own Redis server, reached by URL.

It is somebody's data. All that is written is under keys that begin with the run's own name, and expires by itself; what
is removed is named key by key. No setting of the server is changed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from types import TracebackType
from typing import Any, Self

import redis

from costof.errors import CostofError, Problem
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.own_database import PREFIX, check_ca_file, own_name
from costof.programs.redis.settings import RedisSettings
from costof.programs.redis.url import parse_redis_url
from costof.programs.server import OwnServer

REACH_SECONDS = 5
#: Longer than any run: what a killed one leaves is gone by then.
EXPIRES_SECONDS = 24 * 3600
#: Of keys, in one command: little enough to hold nobody up.
BATCH = 500
NO_EVICTION = "noeviction"


class OwnStrings(OwnServer):
    """Under keys `costof:<run>:key:<number>`, and `costof:<run>:marker`, which says whose they are."""

    def __init__(self, access: Access, study: str, run: str, records: int) -> None:
        self.url = parse_redis_url(access, study)
        self.shown, self.tls, self.ca_file = self.url.shown, self.url.tls, self.url.ca_file
        self.records = records
        name = own_name(access.database, run)
        self.prefix = f"costof:{name.removeprefix(PREFIX)}:"
        self._chosen = access.database
        self._marker = secrets.token_hex(16)
        self._client: redis.Redis | None = None

    def __enter__(self) -> Self:
        check_ca_file(self.ca_file)
        self._client = self._open()
        try:
            self._check_server()
            self._mark()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.ask("GET", self._marker_key) == self._marker:
                for keys in self._batches():
                    self.ask("UNLINK", *keys)
        finally:
            self._close()

    def prepare(self, load: Callable[[], None]) -> None:
        load()

    def client_settings(self) -> RedisSettings:
        url = self.url
        return RedisSettings(
            addresses=[url.plain_address],
            tls_addresses=[url.address],
            username=url.username,
            password=url.password,
            key_prefix=self.prefix,
            expires_after_seconds=EXPIRES_SECONDS,
        )

    def counters(self, server: str) -> Counters:
        """Connections of all its clients."""
        return Counters(int(self.ask("INFO", "stats")["total_connections_received"]), shared=True)

    def describe(self) -> Description:
        version = str(self.ask("INFO", "server")["redis_version"])
        return Description(versions={"server": version}, topology="a single server", facts={"keys": f"{self.prefix}*"})

    def writes(self) -> list[str]:
        prefix = f"costof:{self._chosen or '<run>_<random>'}:"
        return [
            f"write the key {prefix}marker on {self.shown}; refuse when it or one of the run's keys is there",
            f"write {self.records:,} strings of 100 bytes under keys {prefix}key:<number>, again and again",
            f"all expire after {EXPIRES_SECONDS // 3600} hours, and are removed at the end if the marker is this run's",
        ]

    def needs(self) -> list[str]:
        user = self.url.username or "default"
        return [f"ACL SETUSER {user} ~costof:* +get +set +exists +unlink +info +client|info"]

    def ask(self, *command: str) -> Any:
        """Raises `TARGET_FAILED`."""
        assert self._client is not None
        try:
            return self._client.execute_command(*command)  # type: ignore[no-untyped-call]
        except redis.RedisError as error:
            raise self._failed(str(error)) from None

    @property
    def _marker_key(self) -> str:
        return f"{self.prefix}marker"

    def _keys(self) -> Iterator[str]:
        """All that the run writes; the marker last, so that what is left is still the run's."""
        yield from (f"{self.prefix}key:{record:012}" for record in range(self.records))
        yield self._marker_key

    def _batches(self) -> Iterator[list[str]]:
        keys = self._keys()
        return iter(lambda: list(islice(keys, BATCH)), [])

    def _check_server(self) -> None:
        """Before anything is written. Raises `TARGET_FAILED`."""
        if int(self.ask("INFO", "cluster").get("cluster_enabled", 0)):
            raise self._failed(
                "it is one of a cluster, which would send clients elsewhere (MOVED); nothing was written"
            )
        memory = self.ask("INFO", "memory")
        if int(memory["maxmemory"]) and memory["maxmemory_policy"] != NO_EVICTION:
            raise self._failed(
                f"when its memory is full it drops keys of others (maxmemory-policy {memory['maxmemory_policy']}); "
                "nothing was written"
            )
        if any(self.ask("EXISTS", *keys) for keys in self._batches()):
            raise self._occupied()

    def _mark(self) -> None:
        if not self.ask("SET", self._marker_key, self._marker, "NX", "EX", str(EXPIRES_SECONDS)):
            raise self._occupied()

    def _open(self) -> redis.Redis:
        """Under TLS or in plain, as the URL asks; there is no second try by the other way."""
        url = self.url
        client = redis.Redis(
            host=url.host,
            port=url.port,
            username=url.username,
            password=url.password.get_secret_value() if url.password else None,
            socket_connect_timeout=REACH_SECONDS,
            decode_responses=True,
            ssl=url.tls,
            ssl_ca_certs=str(url.ca_file) if url.ca_file else None,
        )
        try:
            client.ping()
        except (redis.AuthenticationError, redis.ResponseError) as error:
            client.close()
            raise CostofError(Problem.TARGET_REFUSES_LOGIN, target=self.shown, detail=error) from None
        except redis.RedisError as error:
            client.close()
            raise CostofError(Problem.TARGET_UNREACHABLE, target=self.shown, detail=error) from None
        return client

    def _close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _failed(self, detail: str) -> CostofError:
        return CostofError(Problem.TARGET_FAILED, target=self.shown, detail=detail)

    def _occupied(self) -> CostofError:
        return self._failed(
            f"keys {self.prefix}* are there already; nothing was written. Take another name with --database"
        )
