"""Runs on a user's own PostgreSQL. `tests/contract/test_targets.py` tests what all such runs have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.messages.answers import SliceAnswer
from costof.messages.plan import Workload
from costof.programs.access import Access
from costof.programs.flushes import FLUSHES, LOG_BYTES
from costof.programs.postgres.lab import ACCESS, DATABASE
from costof.programs.postgres.target import PgbenchTarget
from costof.services.open import lacking_levels, open_service
from costof.services.target import TargetService
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.postgres import RunningServer, users_postgres
from tests.support.small_plans import plan_of, small_study

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[RunningServer]:
    with users_postgres(lab) as server:
        yield server


def small() -> Plan:
    return plan_of("postgres-tls", "quick", "records=200", "transport=plain,tls", target="postgresql://shown")


def target(server: RunningServer, database: str | None = None) -> TargetService[PgbenchTarget]:
    access = Access(server.url("maker"), server.ca_file, allow_plain=True, database=database)
    service = open_service(small(), access, "a-run")
    assert isinstance(service, TargetService)
    return service


@pytest.mark.slow
@pytest.mark.parametrize("load", [(), ("--load", "40/s", "--queries-per-connection", "2")])
def test_server_that_accepts_only_tls_is_measured_with_tls(
    server: RunningServer, tmp_path: Path, load: tuple[str, ...]
) -> None:
    arguments = [
        "run",
        small_study("postgres-tls", tmp_path),
        "--profile",
        "quick",
        "--set",
        "transport=plain,tls",
        "--rounds",
        "3",
    ]
    reached = ["--target", server.url("maker"), "--tls-ca", str(server.ca_file), "--allow-plain"]
    with server.admitting(ACCESS.replace("host all", "hostssl all")):
        done = costof(*arguments, "--set", "records=200", *reached, *load, "--out", "run", cwd=tmp_path)
    assert done.status == 3, done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (alone,) = result["sections"]["one_side"]["connections"]
    assert alone["arm"] == "tls"
    # The client first asks whether the server offers TLS, which takes a separate round trip.
    trips = {each["phase"]: each["round_trips"] for each in alone["phases"]}
    assert trips["tls_request"] == 1
    assert trips["tls"] >= 1
    assert all(
        each["bytes_sent"] > 0 and each["bytes_received"] > 0 for each in alone["phases"] if each["phase"] != "tcp"
    )
    assert 0 < alone["tls_share"] < 1
    assert alone["client_cpu_ms"] > 0
    assert " is unknown, because " in " ".join(done.out.split())
    assert "A new connection with " in " ".join(done.out.split())
    assert f"{trips['tls_request'] + trips['tls']:.0f} round trips" in " ".join(done.out.split())


def test_sessions_on_a_target_have_the_commit_setting_of_their_arm(server: RunningServer) -> None:
    before, settings = server.places(), server.settings()
    plan = plan_of("postgres-durability", "quick", "commit=off,local", "clients=1", target="postgresql://shown")
    commit = Workload(name="commit", kind="ycsb", ycsb={"phase": "load", "field_length": 10})
    with commits_target(server, plan) as service, Engines(plan, service, (commit,)) as engines:
        service.prepare(plan.arms[:1], engines.load)
        for arm, value, flushes in ((plan.controls[0], "off", 0.0), (plan.protected[0], "local", 1.0)):
            engines.slice(arm, "commit", 1, reconnect=True)
            observed = service.observe(arm)
            answer = engines.slice(arm, "commit", 100, disconnect=True)
            service.finish_counting(arm)
            judgement = service.judge(arm, observed, service.observe(arm), answer)
            assert judgement.mismatch is None
            assert judgement.figures[FLUSHES] == pytest.approx(flushes, abs=0.2)
            shown = f"application_name={service.server.database}, synchronous_commit={value}"
            assert (answer.evidence["session_settings"], answer.evidence["protocol"]) == (shown, "TLSv1.3")
        # A slice is discarded if its session had other settings, or if the log had too few flushes.
        other = answer.model_copy(update={"evidence": {**answer.evidence, "session_settings": "none"}})
        assert "the server had none" in (service.judge(arm, observed, observed, other).mismatch or "")
        assert "flushed its log only 0 times" in (
            service.server.mismatch(arm.settings.target, {FLUSHES: 0.0, LOG_BYTES: 1e6}, answer) or ""
        )
        assert service.warnings() == []
        others = service.server.mismatch(plan.controls[0].settings.target, {FLUSHES: 1e9}, without_settings(answer))
        assert others is None
        assert "other sessions of the server flushed its log" in service.warnings()[0]
    assert (server.places(), server.settings()) == (before, settings)


def test_commit_settings_that_need_a_standby_are_refused_on_a_postgres_without_standby(server: RunningServer) -> None:
    before = server.places()
    plan = plan_of("postgres-durability", "quick", "commit=off,on", target="postgresql://shown")
    with pytest.raises(CostofError, match=r"synchronous_standby_names is empty.*give --set commit=off,local") as error:
        commits_target(server, plan).__enter__()
    assert error.value.message is ErrorText.LEVELS_UNSUPPORTED
    access = Access(server.url("maker"), server.ca_file)
    lacking = lacking_levels(plan.study, access, connect=True)
    assert {*lacking} == {"remote_write", "on", "remote_apply"}
    assert server.places() == before


def without_settings(answer: SliceAnswer) -> SliceAnswer:
    """Return the slice's answer without the session's settings, which application drivers do not report."""
    evidence = {name: value for name, value in answer.evidence.items() if name != "session_settings"}
    return answer.model_copy(update={"evidence": evidence})


def commits_target(server: RunningServer, plan: Plan) -> TargetService[PgbenchTarget]:
    service = open_service(plan, Access(server.url("maker"), server.ca_file), "a-run")
    assert isinstance(service, TargetService)
    return service


def refused(server: RunningServer, database: str | None = None) -> CostofError:
    before = server.places()
    with pytest.raises(CostofError) as error, target(server, database):
        pass
    assert server.places() == before
    return error.value


def test_postgres_database_with_content_is_refused_and_not_changed(server: RunningServer) -> None:
    for something in ("CREATE SCHEMA something", "CREATE TYPE pair AS (one int, two int)", "SELECT lo_create(1)"):
        server.ask("CREATE DATABASE held OWNER maker")
        with psycopg.connect(server.url("maker", database="held"), autocommit=True) as inside:
            inside.execute(something.encode())
        assert refused(server, "held").message is ErrorText.TARGET_OCCUPIED
        server.ask("DROP DATABASE held")


def test_connection_closed_by_postgres_is_reopened(server: RunningServer) -> None:
    before = server.places()
    with target(server) as service:
        assert server.places() - before == {service.server.database}
        ((own,),) = service.server.session.ask("SELECT pg_backend_pid()")
        server.ask(f"SELECT pg_terminate_backend({own}, 60000)")
        assert service.server.session.ask("SELECT count(*) FROM pgbench_branches") == [(32,)]
    assert server.places() == before


def test_new_postgres_database_that_rejects_logins_is_removed(server: RunningServer) -> None:
    access = f"local all all scram-sha-256\nhost {DATABASE} all all scram-sha-256\n"
    with server.admitting(access):
        assert refused(server).message is ErrorText.TARGET_REFUSES_LOGIN
