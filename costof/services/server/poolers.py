"""The connection poolers of a run: PgBouncer on a host between clients and server, with its own CPU share.

Each arm (measured variant) with a pooler has its own pool, which opens its connections to the server before the first
slice (measured window). Arms with the same `PoolerSettings` share PgBouncer's processes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from costof.errors import CostofError, ErrorText, WarningText
from costof.lab.certificates import Authority
from costof.lab.host import throttled_seconds
from costof.lab.program import Counters
from costof.messages.answers import SliceAnswer
from costof.messages.plan import ServiceSettings
from costof.model import Model
from costof.programs.pgbouncer.pooler import (
    BACKLOG,
    CLIENTS,
    PACKAGE,
    ROLE,
    PgBouncer,
    Pool,
    Totals,
    Upstream,
    find_pgbouncer,
)
from costof.programs.server import LabServer
from costof.services import Judgement, Observation
from costof.services.server.entrances import Entrances, Site
from costof.study.arms import PlannedArm

FIRST_PORT = 6432
#: The server should count no new session in a slice (measured window) of an arm with a pool. This number is permitted,
#: because the server may count abandoned sessions of an earlier arm's clients late.
STRAY_SESSIONS = 4


class ArmPoolSettings(Model):
    """The settings of an arm (measured variant) for its pool.

    `mode` is PgBouncer's `pool_mode`, such as 'transaction'. `size` is the number of connections to the server. With
    `server_tls`, these connections use TLS. With `plain_passwords`, PgBouncer's file of users contains passwords
    instead of SCRAM secrets.
    """

    mode: str
    size: int
    processes: int
    server_tls: bool = False
    plain_passwords: bool = False

    @classmethod
    def from_arm(cls, arm: PlannedArm) -> ArmPoolSettings | None:
        settings = arm.settings.lab.get("pool")
        return cls.model_validate(settings) if settings else None


@dataclass(frozen=True)
class PoolerSettings:
    """The settings of PgBouncer's processes. Arms with equal settings share the processes.

    `key` is the kind of key of PgBouncer's certificate for clients, such as 'rsa-2048'.
    """

    server_tls: bool
    processes: int
    key: str
    plain_passwords: bool = False

    @property
    def name(self) -> str:
        """A unique name, such as 'pgbouncer-to-tls-x2-rsa-2048': two processes with TLS to the server."""
        parts = ["to-tls"] * self.server_tls + [f"x{self.processes}"] * (self.processes > 1)
        parts += ["passwords"] * self.plain_passwords
        return "-".join([PACKAGE, *parts, self.key])


@dataclass(frozen=True)
class ArmPool:
    """The pool of an arm (variant). `address` is the 'address:port' of PgBouncer to which the arm's clients connect."""

    settings: PoolerSettings
    pool: Pool
    address: str


@dataclass(frozen=True)
class PoolObservation(Observation):
    """The state of the pool of an arm (variant) at one instant, as PgBouncer and the server report it.

    `servers` describes the pool's connections to the server: it maps the ID of the server's process to the TLS version
    and cipher. `sessions` is the number of sessions that the server has counted so far.
    """

    totals: Totals
    servers: dict[int, str]
    sessions: int


class Poolers(Entrances):
    """The PgBouncer processes in front of a server, with one pool for each arm (variant) that uses a pooler.

    PgBouncer's certificate has the kind of key that the arm requires or, by default, the kind `Site.key`.
    """

    setting = "pool"
    roles = frozenset({ROLE})

    def __init__(self, site: Site) -> None:
        self._lab = site.lab
        self._star = site.star
        self._distances = site.distances
        self._key = site.key
        self._settings: dict[str, tuple[PoolerSettings, Pool]] = {}
        for number, arm in enumerate(site.arms, 1):
            if pool := ArmPoolSettings.from_arm(arm):
                key = arm.settings.lab.get("key", site.key)
                settings = PoolerSettings(pool.server_tls, pool.processes, key, pool.plain_passwords)
                self._settings[arm.name] = settings, Pool(f"pool-{number}", pool.mode, pool.size)
        different = dict.fromkeys(settings for settings, _ in self._settings.values())
        self._site = site
        self._ports = {settings: site.port(FIRST_PORT) + number for number, settings in enumerate(different)}
        self._poolers: dict[PoolerSettings, PgBouncer] = {}
        self._failed: dict[PoolerSettings, str] = {}
        self._mismatches: dict[str, str] = {}
        self._pools: dict[str, ArmPool] = {}

    def has(self, arm: PlannedArm) -> bool:
        return arm.name in self._settings

    def start(self, server: LabServer, authority: Authority) -> None:
        if not self._settings:
            return
        from costof.programs.postgres.lab import PostgresServer

        if not isinstance(server, PostgresServer):
            raise CostofError(ErrorText.LAB_FAILED, detail="PgBouncer works only with PostgreSQL")
        self._server = server
        self._pools = {
            arm: ArmPool(settings, pool, f"{self._star.middle_addresses[self._distances[arm]]}:{self._ports[settings]}")
            for arm, (settings, pool) in self._settings.items()
        }
        find_pgbouncer()
        for settings in self._ports:
            pooler = self._poolers[settings] = self._make_pooler(settings, authority)
            # PgBouncer opens its connections to the server at its start and keeps them, so the server must first switch
            # to the key that the pooler's arms (measured variants) require.
            server.show_key(settings.key)
            try:
                pooler.start()
            except CostofError as error:
                self._failed[settings] = str(error)
        server.show_key(self._key)

    def close(self) -> None:
        for pooler in self._poolers.values():
            pooler.close()

    def redirect(self, settings: ServiceSettings, arm: PlannedArm) -> ServiceSettings:
        arm_pool = self._pools[arm.name]
        return settings.model_copy(update={"addresses": [arm_pool.address], "database": arm_pool.pool.name})

    def arrange(self, arm: PlannedArm) -> None:
        if self._settings:
            self._star.middle.resize(float(arm.settings.lab.get("pooler_cores", 1.0)))

    def evidence(self, arm: PlannedArm) -> dict[str, str]:
        """Return facts about an arm's pool, such as the TLS version that the server reports for its connections.

        If the TLS version contradicts the arm's settings, the arm fails.
        """
        observation = self.observe(arm)
        arm_pool = self._pools.get(arm.name)
        if arm_pool is None or observation is None:
            return {}
        tls = self._server.tls_versions(observation.servers)
        if {bool(version) for version in tls} != {arm_pool.settings.server_tls}:
            self._mismatches[arm.name] = f"the server sees {_tls_text(tls)} on the pool's connections"
        pool = f"{arm_pool.pool.mode} mode, {len(observation.servers)} open connections"
        passwords = self._poolers[arm_pool.settings].password_form()
        return {"pool": pool, "pool to server, as the server sees it": _tls_text(tls), "pooler's users": passwords}

    def counters(self, address: str) -> Counters | None:
        matching = (pool.settings for pool in self._pools.values() if pool.address == address)
        settings = next(matching, None)
        return self._poolers[settings].counters() if settings else None

    def observe(self, arm: PlannedArm) -> PoolObservation | None:
        """Return the present state of an arm's pool; None if the arm has no pool, or if PgBouncer does not work."""
        arm_pool = self._pools.get(arm.name)
        if arm_pool is None or self.failure_reason(arm) is not None:
            return None
        pooler, pool = self._poolers[arm_pool.settings], arm_pool.pool.name
        try:
            return PoolObservation(pooler.totals(pool), pooler.servers(pool), self._server.counters().connections or 0)
        except CostofError as error:
            self._failed[arm_pool.settings] = str(error)
            return None

    def judge(
        self, arm: PlannedArm, before: Observation | None, after: Observation | None, answer: SliceAnswer
    ) -> Judgement:
        arm_pool = self._pools.get(arm.name)
        if arm_pool is None:
            return Judgement()
        if not isinstance(before, PoolObservation) or not isinstance(after, PoolObservation):
            return Judgement(mismatch=self.failure_reason(arm))
        transactions = after.totals.transactions - before.totals.transactions
        sessions = after.sessions - before.sessions
        wait_ms = after.totals.wait_ms - before.totals.wait_ms
        tls = {version.partition("/")[0] for version in after.servers.values()}
        return Judgement(
            mismatch=mismatch(arm_pool.settings.server_tls, tls, sessions, transactions, answer.operations),
            figures={"pool_wait": wait_ms / transactions} if transactions else {},
            facts={"pool to server": _tls_text(tls)},
            counts={"transactions counted by the pooler": transactions, "sessions opened at the server": sessions},
        )

    def failure_reason(self, arm: PlannedArm) -> str | None:
        arm_pool = self._pools.get(arm.name)
        if arm_pool is None or arm_pool.settings not in self._poolers:
            return None
        dead = self._poolers[arm_pool.settings].why_dead()
        return dead or self._failed.get(arm_pool.settings) or self._mismatches.get(arm.name)

    def throttled_seconds(self) -> dict[str, float]:
        return throttled_seconds([(ROLE, self._star.middle)]) if self._settings else {}

    def warnings(self) -> list[str]:
        if not self._settings or self._star.shares:
            return []
        return [WarningText.NO_CPU_SHARE.text(hosts="the pooler", factors="pooler_cpu")]

    def versions(self) -> dict[str, str]:
        return {PACKAGE: next(iter(self._poolers.values())).version} if self._poolers else {}

    def facts(self) -> dict[str, str]:
        if not self._settings:
            return {}
        limits = f"one thread a process, max_client_conn {CLIENTS:,}, listen_backlog {BACKLOG:,}"
        return {"PgBouncer": f"{limits}, auth_file with one user, pools full from the start"}

    def _make_pooler(self, settings: PoolerSettings, authority: Authority) -> PgBouncer:
        upstream = Upstream.of(self._server, authority.ca_file if settings.server_tls else None)
        addresses = list(dict.fromkeys(self._star.middle_addresses.values()))
        name = self._site.name(settings.name)
        return PgBouncer(
            self._lab,
            name,
            self._star.middle,
            addresses,
            self._ports[settings],
            authority.issue(name, settings.key, addresses),
            upstream,
            [pool for each, pool in self._settings.values() if each == settings],
            settings.processes,
            settings.plain_passwords,
        )


def middle_cores(arms: Sequence[PlannedArm]) -> float | None:
    """Return the CPU share in cores for the poolers' host at the start; None if no arm has a pool.

    The share is all cores of this machine. `Poolers.arrange` reduces it before each slice (measured window).
    """
    return float(os.cpu_count() or 1) if any(map(ArmPoolSettings.from_arm, arms)) else None


def mismatch(server_tls: bool, tls: set[str], sessions: int, transactions: int, operations: int) -> str | None:
    """Return why a slice (measured window) contradicts the settings of its arm with a pool; None if it does not.

    `tls` are the TLS versions of the pool's connections to the server. With `server_tls` these connections must use
    TLS. Three numbers count what happened in the slice: new `sessions` at the server, `transactions` in the pool, and
    the client's `operations`.
    """
    if {bool(version) for version in tls} != {server_tls}:
        return f"the pool's connections to the server had {_tls_text(tls)}"
    if sessions > STRAY_SESSIONS:
        return f"the server counted {sessions} new sessions although a pool was used"
    return f"the pool counted {transactions} transactions of {operations}" if transactions < operations else None


def _tls_text(tls: set[str]) -> str:
    return ", ".join(sorted(version or "no TLS" for version in tls)) or "no connection"
