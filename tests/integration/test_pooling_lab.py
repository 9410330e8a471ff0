"""The lab of the pooling study: TLS on each side, reused server sessions, and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from costof.messages.answers import SliceAnswer
from costof.messages.plan import Workload
from costof.messages.process import application
from costof.programs.pgbouncer.pooler import ROLE
from costof.programs.postgres.lab import USER, PostgresServer
from costof.services import Judgement
from costof.services.server.lab import ServerLab
from costof.services.server.poolers import ArmPoolSettings, mismatch
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.engines import WORKLOADS, Engines, patient_plan
from tests.support.programs import HANGS_SECONDS, eventually
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

STUDY = "postgres-pooling"
#: Levels of the factor `path` that cover TLS on each side and both pool modes; other levels combine these.
PATHS = "path=plain,tls,transaction-client,transaction-server,session-both"
RECORDS = 200
CLIENTS = 60
STORM = Workload(name="storm", kind="connect", workers=CLIENTS)


def plan_for(*settings: str) -> Plan:
    return plan_of(STUDY, "quick", f"records={RECORDS}", *settings)


@dataclass
class Pools:
    plan: Plan
    lab: ServerLab
    engines: Engines

    @property
    def server(self) -> PostgresServer:
        assert isinstance(self.lab.server, PostgresServer)
        return self.lab.server

    @property
    def pooled(self) -> list[PlannedArm]:
        return [arm for arm in self.plan.arms if ArmPoolSettings.from_arm(arm)]

    def slice(self, arm: PlannedArm, workload: str, operations: int) -> tuple[SliceAnswer, Judgement]:
        self.lab.arrange(arm)
        before = self.lab.observe(arm)
        answer = self.engines.slice(arm, workload, operations)
        return answer, self.lab.judge(arm, before, self.lab.observe(arm), answer)


@pytest.fixture(scope="module")
def pools() -> Iterator[Pools]:
    plan = plan_for(PATHS, "pooler_cpu=1")
    with ServerLab(plan) as lab, Engines(plan, lab, (*WORKLOADS, STORM)) as engines:
        lab.prepare(plan.arms[:1], engines.load)
        pools = Pools(plan, lab, engines)
        # In the workload `storm` all clients log in at once, and wait for each other longer than PostgreSQL's default
        # timeout.
        pools.server.ask("ALTER SYSTEM SET authentication_timeout = '10min'")
        pools.server.ask("SELECT pg_reload_conf()")
        eventually("the reload", lambda: pools.server.ask("SHOW authentication_timeout") == [("10min",)])
        yield pools


def test_pooler_uses_tls_on_the_sides_that_the_arm_requires(pools: Pools) -> None:
    assert len(pools.pooled) == 3
    for arm in pools.plan.arms:
        pools.lab.arrange(arm)
        answer = pools.engines.slice(arm, "connect", 5)
        assert answer.evidence["protocol"] == ("TLSv1.3" if arm.settings.speaks_tls else None)
        pooled = ArmPoolSettings.from_arm(arm)
        # The evidence `server_side` is the process ID that PostgreSQL sends at log-in, and that a pool hides.
        assert (answer.evidence["server_side"] is None) == (pooled is not None)
        version = pools.lab.collect_evidence(arm, "start").get("pool to server, as the server sees it")
        assert version == (pooled and ("TLSv1.3" if pooled.server_tls else "no TLS"))
        assert pools.lab.failure_reason(arm) is None


@pytest.mark.parametrize("workload", ["connect", "query"])
def test_pooled_clients_create_no_new_server_sessions(pools: Pools, workload: str) -> None:
    for arm in pools.plan.arms:
        before = pools.server.counters()
        answer, judged = pools.slice(arm, workload, 50)
        increase = pools.server.counters().since(before)
        assert (answer.operations, answer.errors) == (50, [])
        assert judged.mismatch is None
        if ArmPoolSettings.from_arm(arm):
            assert increase.connections == 0
            assert judged.counts["transactions counted by the pooler"] >= 50
            assert judged.figures["pool_wait"] >= 0
        else:
            assert judged == Judgement()
            assert (increase.connections or 0) >= (50 if workload == "connect" else 1)


@pytest.mark.parametrize(
    ("tls_requested", "tls", "sessions", "transactions", "expected"),
    [
        (True, {"TLSv1.3"}, 0, 50, None),
        (False, {""}, 4, 51, None),
        (True, {""}, 0, 50, "no TLS"),
        (False, {"TLSv1.3", ""}, 0, 50, "TLSv1.3, no TLS"),
        (True, set(), 0, 50, "no connection"),
        (False, {""}, 50, 50, "50 new sessions"),
        (False, {""}, 0, 49, "49 transactions of 50"),
    ],
)
def test_pooler_counters_that_contradict_the_arm_are_reported_as_a_mismatch(
    tls_requested: bool, tls: set[str], sessions: int, transactions: int, expected: str | None
) -> None:
    reason = mismatch(tls_requested, tls, sessions, transactions, 50)
    assert reason is None if expected is None else reason is not None and expected in reason


@pytest.mark.slow
def test_connection_storm_fails_without_a_pool_and_succeeds_with_one(pools: Pools) -> None:
    for arm in pools.plan.arms:
        answer, judged = pools.slice(arm, "storm", CLIENTS)
        assert (answer.operations, answer.errors, judged.mismatch) == (CLIENTS, [], None)
    # The server accepts only as many connections as all pools keep open, so that it refuses clients without a pool.
    connections = sum(pooled.size for pooled in map(ArmPoolSettings.from_arm, pools.pooled) if pooled)
    pools.server.ask(f"ALTER ROLE {USER} CONNECTION LIMIT {connections}")
    try:
        for arm in pools.plan.arms:
            answer, _ = pools.slice(arm, "storm", CLIENTS)
            if ArmPoolSettings.from_arm(arm):
                assert (answer.operations, answer.errors) == (CLIENTS, [])
            else:
                (error,) = answer.errors
                assert error.error_class == "server"
                assert "53300" in error.detail
                assert (error.count, answer.operations) == (CLIENTS, 0)
    finally:
        pools.server.ask(f"ALTER ROLE {USER} CONNECTION LIMIT -1")


@pytest.mark.parametrize("driver", ["postgres", pytest.param("asyncpg", marks=pytest.mark.slow)])
def test_drivers_work_through_a_transaction_pool(pools: Pools, driver: str) -> None:
    arms = [arm for arm in pools.pooled if arm.settings.lab["pool"]["mode"] == "transaction"]
    version = [pools.lab.endpoint(arm).named(arm.name) for arm in arms]
    with application(driver, {}, pools.lab.prefix(arms[0])) as client:
        ready = client.plan(patient_plan(version, WORKLOADS, RECORDS))
        assert [arm.error for arm in ready.arms] == [None] * len(arms)
        for arm in arms:
            pools.lab.arrange(arm)
            before = pools.server.counters()
            for workload in ("connect", "query"):
                answer = client.slice(1, arm.name, workload, 20, HANGS_SECONDS)
                assert (answer.operations, answer.errors) == (20, [])
            assert pools.server.counters().since(before).connections == 0


@pytest.mark.slow
def test_two_pgbouncer_processes_share_a_port_and_resume_tls_sessions() -> None:
    plan = plan_for("path=plain,transaction-client", "resumption=on", "processes=2", "pool_size=5", "key=ecdsa-p256")
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms[:1], engines.load)
        (arm,) = plan.protected
        pools = Pools(plan, lab, engines)
        # Each process of the pooler has its own ticket keys. A client therefore resumes a session only if it reaches
        # the same process again.
        answer, judged = pools.slice(arm, "connect", 40)
        assert (answer.operations, answer.errors, judged.mismatch) == (40, [], None)
        assert answer.evidence["resumed"] > 0
        assert answer.evidence["key"] == "ecdsa-p256"
        used = [process for process in lab._lab.processes.values() if process.role == ROLE]
        logins = [process.log.read_text().count("db=pool-3 ") for process in used]
        assert len(logins) == 2
        # Each process logged in to the server five times to fill its pool. Clients cause all further log-ins, so both
        # processes have served clients.
        assert min(logins) > 5
        assert sum(logins) >= 2 * 5 + 40
