"""A user's own Redis.

All writes except the run's record (marker) and heartbeat go to keys with the run's prefix. The clean-up removes each
key by its name. No key has an expiry, which would affect the measurement. No setting of the server is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import redis
from redis.exceptions import NoPermissionError, ResponseError

from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.reach import VERSION, read_certificate
from costof.programs.redis.connection import (
    RUNS,
    VALKEY,
    MarkedStrings,
    RedisSession,
    RedisSettings,
    RedisUrl,
    StringsMarker,
    parse_redis_url,
)
from costof.programs.server import NO_USE, PlannedUse, TargetServer
from costof.programs.target_database import PREFIX, Heartbeat, Maker
from costof.urls import host_shown

NO_EVICTION = "noeviction"
#: An upper estimate of the memory per record, in bytes. A value has 300 bytes on average; key and overhead are added.
BYTES_A_RECORD = 1000


class StringsTarget(TargetServer):
    """A user's Redis server that holds the strings of a run.

    The server's counters do not distinguish TLS from plain connections. Instead, each client asks the server for the
    address to which it is connected (the evidence `server_side`). The port shows whether the connection uses TLS.
    """

    url: RedisUrl
    session: RedisSession

    def __init__(self, access: Access, study: str, run: str, records: int, use: PlannedUse = NO_USE) -> None:
        self.url = parse_redis_url(access, study)
        super().__init__(access, study, run, records, use)
        if not self.chosen:
            # Keys begin with `costof:`, so the generated name needs no prefix.
            self.database = self.database.removeprefix(PREFIX)
        self.session = RedisSession(self.url)
        self._strings = MarkedStrings(self.session, self.database)
        self._heartbeat = Heartbeat(self._strings.beat)
        self._marker: StringsMarker | None = None

    def identity(self) -> dict[str, str]:
        """Return the server's version and certificate. Redis's run ID is not used: it changes with each restart."""
        facts = {}
        with contextlib.suppress(redis.RedisError):
            if version := _version(self.session.try_to("INFO", "server")):
                facts[VERSION] = version
        return facts | (read_certificate(self.url.host, self.url.port) if self.tls else {})

    def claim(self) -> None:
        self._check_server()
        self._check_rights()
        occupied = f"already has keys {self._strings.prefix}*, which are not from this run"
        if self._strings.marker() is not None or self._strings.any_exists(self.records):
            raise self._occupied(occupied)
        marker = StringsMarker(
            run=self.run, maker=Maker.this_process(), tables=[], made_database=False, records=self.records
        )
        # Write the heartbeat before the marker (the run's record): another command that finds a marker without a
        # heartbeat considers the run dead.
        try:
            self._heartbeat.start()
        except redis.RedisError as error:
            raise self._refused(f"{error} (commands: TIME and HSET {RUNS})") from None
        if not self._strings.mark(marker):
            raise self._occupied(occupied)
        self._marker = marker

    def remove_created(self) -> None:
        self._heartbeat.stop()
        if self._marker is not None:
            self._strings.remove(self._marker)

    def prepare(self, load: Callable[[], None]) -> None:
        load()

    def client_settings(self) -> RedisSettings:
        url = self.url
        return RedisSettings(
            addresses=[host_shown(url.host, url.plain_port)],
            tls_addresses=[url.address],
            username=url.username,
            password=url.password,
            key_prefix=self._strings.prefix,
        )

    def counters(self, server: str) -> Counters:
        if self.counters_hidden is not None:
            return Counters()
        try:
            stats: dict[str, Any] = self.session.try_to("INFO", "stats")
            return Counters(int(stats["total_connections_received"]), shared=True)
        except ResponseError as error:
            self.counters_hidden = str(error)
        except KeyError as missing:
            self.counters_hidden = f"INFO stats has no {missing}"
        return Counters()

    def describe(self) -> Description:
        version = _version(self._info("server")) or "unknown"
        facts = {"keys": f"{self._strings.prefix}*"}
        return Description(versions={"server": version}, topology="a single server", facts=facts)

    def writes(self) -> list[str]:
        name = self.chosen or "<run>_<random>"
        return [
            f"write a marker and a heartbeat as fields {name} and {name}:alive of the hash {RUNS} on {self.shown}; "
            "refuse if one of the run's keys exists",
            f"write {self.records:,} strings of 100 bytes to 100 kB, 300 on average, under keys "
            f"costof:{name}:key:<number>, repeatedly",
            "remove all of these at the end, key by key, if the marker is this run's",
        ]

    def needs(self) -> list[str]:
        commands = "+ping +get +set +exists +unlink +hsetnx +hset +hget +hkeys +hdel +time +info +client|info"
        return [f"ACL SETUSER {self.url.username or 'default'} ~costof:* {commands}"]

    def _check_server(self) -> None:
        if int(self._info("cluster").get("cluster_enabled", 0)):
            raise self._refused("it belongs to a cluster, which would redirect clients to other nodes (MOVED)")
        memory = self._info("memory")
        most, policy = int(memory.get("maxmemory", 0)), memory.get("maxmemory_policy")
        if most and policy != NO_EVICTION:
            raise self._refused(f"it drops other keys when its memory is full (maxmemory-policy {policy})")
        room = self.records * BYTES_A_RECORD
        if most and int(memory["used_memory"]) + room > most:
            raise self._refused(
                f"a run needs up to {room / 1e6:.0f} MB of memory, and less is left below maxmemory; other clients "
                "could no longer write"
            )

    def _info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO; {} if the server does not have this section.

        Raises `TARGET_FAILED` if the account may not use INFO. Without INFO a run cannot recognize a server that drops
        keys.
        """
        try:
            return dict(self.session.try_to("INFO", section))
        except NoPermissionError as error:
            raise self._refused(f"{error} (command: INFO {section})") from None
        except ResponseError as error:
            self.refused[f"INFO {section}"] = str(error)
            return {}
        except redis.RedisError as error:
            raise self._refused(str(error)) from None

    def _check_rights(self) -> None:
        """Try commands on a missing key, which change nothing. Raises `PRIVILEGES_MISSING`, `TARGET_FAILED`."""
        key = f"{self._strings.prefix}nothing"
        for command in (("GET", key), ("SET", key, "", "XX"), ("UNLINK", key), ("HDEL", RUNS, key)):
            try:
                self.session.try_to(*command)
            except NoPermissionError:
                raise CostofError(
                    ErrorText.PRIVILEGES_MISSING,
                    account=self.url.username or "default",
                    actions=command[0],
                    database=f"{self._strings.prefix}*",
                    target=self.shown,
                    grant=self.needs()[0],
                ) from None
            except redis.RedisError as error:
                raise self._refused(f"{error} (command: {command[0]})") from None

    def _refused(self, reason: str) -> CostofError:
        return CostofError(ErrorText.TARGET_FAILED, target=self.shown, detail=f"{reason}; nothing was written")


def _version(info: Mapping[str, Any]) -> str | None:
    """Return the server's own version, such as '7.0.15' or 'Valkey 8.0.1'; None if INFO does not have it.

    Valkey's `redis_version` is the version of Redis with which it is compatible.
    """
    valkey = info.get("valkey_version")
    return f"{VALKEY} {valkey}" if valkey else info.get("redis_version")
