"""The poolers of a run: PgBouncer before the server, on a host in the middle that has a CPU share of its own.

An arm that asks for a pool has one of its own, with its connections to the server standing before the first slice. A
process serves all arms that ask for the same TLS to the server, the same key and the same number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costof.errors import CostofError, ErrorText, WarningText
from costof.lab.certificates import Authority
from costof.lab.host import throttled_seconds
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.model import Model
from costof.programs.pgbouncer.pooler import BACKLOG, CLIENTS, PACKAGE, ROLE, Pool, Totals, find_pgbouncer
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

# PostgreSQL's client library takes a start long, and few labs have a pooler.
if TYPE_CHECKING:
    from costof.programs.pgbouncer.pooler import PgBouncer

FIRST_PORT = 6432
#: That clients of an arm before began and gave up, which the server logs a little later.
STRAY_SESSIONS = 4


class Pooled(Model):
    """What an arm asks of its pool: PgBouncer's mode, its connections to the server, and the processes before it."""

    mode: str
    size: int
    processes: int
    server_tls: bool = False

    @classmethod
    def of(cls, arm: PlannedArm) -> Pooled | None:
        asked = arm.settings.lab.get("pool")
        return cls.model_validate(asked) if asked else None


@dataclass(frozen=True)
class Front:
    """What processes are started with: arms that ask for the same share them."""

    server_tls: bool
    processes: int
    key: str

    @property
    def name(self) -> str:
        """Such as 'pgbouncer-rsa-2048' or 'pgbouncer-to-tls-x2-rsa-2048'."""
        parts = ["to-tls"] * self.server_tls + [f"x{self.processes}"] * (self.processes > 1)
        return "-".join([PACKAGE, *parts, self.key])


@dataclass(frozen=True)
class Place:
    front: Front
    pool: Pool
    address: str


@dataclass(frozen=True)
class Seen(Observation):
    """A pool's own count, its connections to the server with their TLS, and the sessions that the server counted."""

    totals: Totals
    servers: dict[int, str]
    sessions: int


class Poolers(Entrances):
    """A pool for each arm that asks for one, which shows the site's key where its arm names none."""

    roles = frozenset({ROLE})

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._distances = site.distances
        self._key = site.key
        self._asked: dict[str, tuple[Front, Pool]] = {}
        for number, arm in enumerate(site.arms, 1):
            if pooled := Pooled.of(arm):
                front = Front(pooled.server_tls, pooled.processes, arm.settings.lab.get("key", site.key))
                self._asked[arm.name] = front, Pool(f"pool-{number}", pooled.mode, pooled.size)
        fronts = dict.fromkeys(front for front, _ in self._asked.values())
        self._ports = {front: FIRST_PORT + number for number, front in enumerate(fronts)}
        self._standing: dict[Front, PgBouncer] = {}
        self._failed: dict[Front, str] = {}
        self._contradicted: dict[str, str] = {}
        self._places: dict[str, Place] = {}

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._asked

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._asked:
            return
        from costof.programs.postgres.lab import PostgresServer

        if not isinstance(server, PostgresServer):
            raise CostofError(ErrorText.LAB_FAILED, detail="PgBouncer stands before PostgreSQL alone")
        self._server = server
        self._places = {
            arm: Place(front, pool, f"{self._star.middle_addresses[self._distances[arm]]}:{self._ports[front]}")
            for arm, (front, pool) in self._asked.items()
        }
        find_pgbouncer()
        for front in self._ports:
            pooler = self._standing[front] = self._pooler(front, authority)
            # Connections to the server keep the key that they were opened under.
            server.show_key(front.key)
            try:
                pooler.start()
            except CostofError as error:
                self._failed[front] = str(error)
        server.show_key(self._key)

    def close(self) -> None:
        for pooler in self._standing.values():
            pooler.close()

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        place = self._places[arm.name]
        return settings.model_copy(update={"addresses": [place.address], "database": place.pool.name})

    def arrange(self, arm: PlannedArm) -> None:
        if self._asked:
            self._star.middle.resize(float(arm.settings.lab.get("pooler_cores", 1.0)))

    def proofs(self, arm: PlannedArm) -> dict[str, str]:
        """Say what the server sees of the pool's connections. An arm that this contradicts is lost."""
        seen = self.observe(arm)
        place = self._places.get(arm.name)
        if place is None or seen is None:
            return {}
        tls = self._server.tls_of(seen.servers)
        if {bool(version) for version in tls} != {place.front.server_tls}:
            self._contradicted[arm.name] = f"the server sees {_words(tls)} on the pool's connections"
        pool = f"{place.pool.mode} mode, {len(seen.servers)} standing connections"
        return {"pool": pool, "pool to server, as the server sees it": _words(tls)}

    def counters(self, address: str) -> Counters | None:
        at = (place.front for place in self._places.values() if place.address == address)
        front = next(at, None)
        return self._standing[front].counters() if front else None

    def observe(self, arm: PlannedArm) -> Seen | None:
        """Read pool and server; None without a pool, and where it is dead or says nothing."""
        place = self._places.get(arm.name)
        if place is None or self.why_lost(arm) is not None:
            return None
        pooler, pool = self._standing[place.front], place.pool.name
        try:
            return Seen(pooler.totals(pool), pooler.servers(pool), self._server.counters().connections or 0)
        except CostofError as error:
            self._failed[place.front] = str(error)
            return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        place = self._places.get(arm.name)
        if place is None:
            return Judgement()
        if not isinstance(before, Seen) or not isinstance(after, Seen):
            return Judgement(mismatch=self.why_lost(arm))
        transactions = after.totals.transactions - before.totals.transactions
        sessions = after.sessions - before.sessions
        waited = after.totals.wait_ms - before.totals.wait_ms
        tls = {seen.partition("/")[0] for seen in after.servers.values()}
        return Judgement(
            mismatch=mismatch(place.front.server_tls, tls, sessions, transactions, answer.operations),
            figures={"pool_wait": waited / transactions} if transactions else {},
            facts={"pool to server": _words(tls)},
            counts={"transactions counted by the pooler": transactions, "sessions opened at the server": sessions},
        )

    def why_lost(self, arm: PlannedArm) -> str | None:
        place = self._places.get(arm.name)
        if place is None or place.front not in self._standing:
            return None
        died = self._standing[place.front].why_dead()
        return died or self._failed.get(place.front) or self._contradicted.get(arm.name)

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds([(ROLE, self._star.middle)]) if self._asked else {}

    def warnings(self) -> list[str]:
        if not self._asked or self._star.shares:
            return []
        return [WarningText.NO_CPU_SHARE.text(hosts="the pooler", factors="pooler_cpu")]

    def versions(self) -> dict[str, str]:
        return {PACKAGE: next(iter(self._standing.values())).version} if self._standing else {}

    def facts(self) -> dict[str, str]:
        if not self._asked:
            return {}
        limits = f"one thread a process, max_client_conn {CLIENTS:,}, listen_backlog {BACKLOG:,}"
        return {"PgBouncer": f"{limits}, auth_file with SCRAM secrets, pools full from the start"}

    def _pooler(self, front: Front, authority: Authority) -> PgBouncer:
        from costof.programs.pgbouncer.pooler import PgBouncer, Upstream

        upstream = Upstream.of(self._server, authority.ca_file if front.server_tls else None)
        addresses = list(dict.fromkeys(self._star.middle_addresses.values()))
        return PgBouncer(
            self._lab,
            front.name,
            self._star.middle,
            addresses,
            self._ports[front],
            authority.issue(front.name, front.key, addresses),
            upstream,
            [pool for asked, pool in self._asked.values() if asked == front],
            front.processes,
        )


def middle_cores(arms: Sequence[PlannedArm]) -> float | None:
    """Return all cores there are, until an arm asks for its share; None where no arm asks for a pool."""
    return float(os.cpu_count() or 1) if any(map(Pooled.of, arms)) else None


def mismatch(server_tls: bool, tls: set[str], sessions: int, transactions: int, operations: int) -> str | None:
    """Return why the counts of a pool and the server do not prove a slice's arm, or None where they do."""
    if {bool(version) for version in tls} != {server_tls}:
        return f"the pool's connections to the server had {_words(tls)}"
    if sessions > STRAY_SESSIONS:
        return f"the server counted {sessions} new sessions behind a pool"
    return f"the pool counted {transactions} transactions of {operations}" if transactions < operations else None


def _words(tls: set[str]) -> str:
    return ", ".join(sorted(version or "no TLS" for version in tls)) or "no connection"
