"""A user's own Redis.

It is somebody's data. All that is written is under keys of the run's own, but for its marker; what is removed is named
key by key. Nothing expires, since that would cost what is measured. No setting of the server is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import redis
from redis.exceptions import NoPermissionError, ResponseError

from costof.errors import CostofError, ErrorText
from costof.lab.program import Counters, Description
from costof.programs.access import Access
from costof.programs.reach import VERSION, certificate_of
from costof.programs.redis.connection import (
    RUNS,
    MarkedStrings,
    RedisSession,
    RedisSettings,
    RedisUrl,
    StringsMarker,
    parse_redis_url,
)
from costof.programs.server import TargetServer
from costof.programs.target_database import PREFIX, Heartbeat, Maker
from costof.urls import host_shown

NO_EVICTION = "noeviction"
#: Of memory, at most: a value has 300 on average, and a key and what Redis keeps beside them are less.
BYTES_A_RECORD = 1000


class StringsTarget(TargetServer):
    """Its counters do not tell TLS from plain: at which of its addresses it was reached is in the engine's evidence
    (`server_side`)."""

    url: RedisUrl
    session: RedisSession

    def __init__(self, access: Access, study: str, run: str, records: int) -> None:
        self.url = parse_redis_url(access, study)
        super().__init__(access, study, run, records)
        if not self.chosen:
            # All keys of a run begin with it.
            self.database = self.database.removeprefix(PREFIX)
        self.session = RedisSession(self.url)
        self._strings = MarkedStrings(self.session, self.database)
        self._heartbeat = Heartbeat(self._strings.beat)
        self._marker: StringsMarker | None = None

    def identity(self) -> dict[str, str]:
        """Redis has an id of its own, which is another one after each restart."""
        found = {}
        with contextlib.suppress(redis.RedisError, KeyError):
            found[VERSION] = str(self.session.try_to("INFO", "server")["redis_version"])
        return found | (certificate_of(self.url.host, self.url.port) if self.tls else {})

    def claim(self) -> None:
        self._check_server()
        self._check_rights()
        taken = f"has keys {self._strings.prefix}* already, which this run did not make"
        if self._strings.marker() is not None or self._strings.any_is_there(self.records):
            raise self._occupied(taken)
        marker = StringsMarker(
            run=self.run, maker=Maker.this_process(), tables=[], made_database=False, records=self.records
        )
        # In this order: a marker without a sign of life is a dead run's.
        try:
            self._heartbeat.start()
        except redis.RedisError as error:
            raise self._refused(f"{error} (it was asked: TIME and HSET {RUNS})") from None
        if not self._strings.mark(marker):
            raise self._occupied(taken)
        self._marker = marker

    def remove_made(self) -> None:
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
            told: dict[str, Any] = self.session.try_to("INFO", "stats")
            return Counters(int(told["total_connections_received"]), shared=True)
        except ResponseError as error:
            self.counters_hidden = str(error)
        except KeyError as missing:
            self.counters_hidden = f"INFO stats has no {missing}"
        return Counters()

    def describe(self) -> Description:
        version = str(self._info("server").get("redis_version", "unknown"))
        facts = {"keys": f"{self._strings.prefix}*"}
        return Description(versions={"server": version}, topology="a single server", facts=facts)

    def writes(self) -> list[str]:
        name = self.chosen or "<run>_<random>"
        return [
            f"write a marker and signs of life as fields {name} and {name}:alive of the hash {RUNS} on {self.shown}; "
            "refuse when one of the run's keys is there",
            f"write {self.records:,} strings of 100 bytes to 100 kB, 300 on average, under keys "
            f"costof:{name}:key:<number>, again and again",
            "remove all of that at the end, key by key, if the marker is this run's",
        ]

    def needs(self) -> list[str]:
        commands = "+ping +get +set +exists +unlink +hsetnx +hset +hget +hkeys +hdel +time +info +client|info"
        return [f"ACL SETUSER {self.url.username or 'default'} ~costof:* {commands}"]

    def _check_server(self) -> None:
        """Raise `TARGET_FAILED` before anything is written."""
        if int(self._info("cluster").get("cluster_enabled", 0)):
            raise self._refused("it is one of a cluster, which would send clients elsewhere (MOVED)")
        memory = self._info("memory")
        most, policy = int(memory.get("maxmemory", 0)), memory.get("maxmemory_policy")
        if most and policy != NO_EVICTION:
            raise self._refused(f"when its memory is full it drops keys of others (maxmemory-policy {policy})")
        room = self.records * BYTES_A_RECORD
        if most and int(memory["used_memory"]) + room > most:
            raise self._refused(
                f"a run takes up to {room / 1e6:.0f} MB of its memory, and less is left below maxmemory: then others "
                "could not write"
            )

    def _info(self, section: str) -> dict[str, Any]:
        """Return what the server says of itself; {} where it does not know the section.

        Raises `TARGET_FAILED` where the account may not ask: then a server that drops keys of others is not seen.
        """
        try:
            return dict(self.session.try_to("INFO", section))
        except NoPermissionError as error:
            raise self._refused(f"{error} (it was asked: INFO {section})") from None
        except ResponseError as error:
            self.refused[f"INFO {section}"] = str(error)
            return {}
        except redis.RedisError as error:
            raise self._refused(str(error)) from None

    def _check_rights(self) -> None:
        """Try commands that do nothing to keys that are not there. Raises `PRIVILEGES_MISSING`, `TARGET_FAILED`."""
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
                raise self._refused(f"{error} (it was asked: {command[0]})") from None

    def _refused(self, why: str) -> CostofError:
        return CostofError(ErrorText.TARGET_FAILED, target=self.shown, detail=f"{why}; nothing was written")
