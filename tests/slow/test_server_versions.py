"""Labs with several versions of a server, which `costof fetch` downloads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from costof.lab.download import FetchError
from costof.programs.server import fetchable_releases
from costof.report.result import Result
from costof.services.server.lab import ServerLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers


def fetched(*names: str) -> None:
    """Fetch releases that the cache lacks. Skip the test if that is impossible here."""
    for name in names:
        release = fetchable_releases()[name]
        if not release.path.is_file():
            try:
                release.fetch()
            except (FetchError, OSError) as error:
                pytest.skip(f"{name} cannot be had: {error}")


@contextmanager
def loaded(plan: Plan) -> Iterator[tuple[ServerLab, Engines]]:
    with ServerLab(plan) as lab, Engines(plan, lab) as engines:
        lab.prepare(plan.arms, engines.load)
        yield lab, engines


def counted(lab: ServerLab, engines: Engines, arm: PlannedArm) -> int:
    """Open 20 connections on an arm, and return how many of them its server has counted."""
    lab.arrange(arm)
    before = lab.counters(engines.server(arm))
    answer = engines.slice(arm, "connect", 20)
    assert answer.operations == 20, answer.errors
    return (lab.counters(engines.server(arm)).since(before)).connections or 0


def test_arms_of_each_postgres_version_use_a_server_of_this_version() -> None:
    fetched("postgres@15", "postgres@18")
    plan = plan_of("postgres-tls", "quick", "server_version=15,18", "transport=plain,tls", "records=100")
    with loaded(plan) as (lab, engines):
        for arm in plan.arms:
            version = lab.collect_evidence(arm, "start")["server_version"]
            assert version.partition(".")[0] == arm.levels["server_version"]
            assert counted(lab, engines, arm) == 20
        assert lab.describe().versions["postgres"] == "15.15 | 18.1"


def test_postgres_17_accepts_direct_tls_and_postgres_15_does_not() -> None:
    fetched("postgres@15", "postgres@17")
    settings = ("server_version=15,17", "transport=tls", "negotiation=at-once", "records=100")
    plan = plan_of("postgres-tls", "quick", *settings)
    old, new = (next(arm for arm in plan.protected if arm.levels["server_version"] == each) for each in ("15", "17"))
    with loaded(plan) as (lab, engines):
        assert engines.ready[old.name].error is not None
        lab.arrange(new)
        answer = engines.slice(new, "connect", 5)
        assert answer.operations == 5, answer.errors
        assert "tls_request" not in answer.phases, "no round trip asks for TLS"


def test_tunnel_leads_to_the_server_with_the_mariadb_version_that_its_arm_measures() -> None:
    fetched("mariadb@10.11", "mariadb@11.4")
    settings = ("server_version=10.11,11.4", "transport=plain,tls,ssh-aes256-ctr", "distance=lan", "records=100")
    plan = plan_of("mysql-transport", "quick", *settings)
    with loaded(plan) as (lab, engines):
        for arm in plan.arms:
            assert lab.collect_evidence(arm, "start")["version"].startswith(arm.levels["server_version"])
            assert counted(lab, engines, arm) >= 20


def test_run_of_two_versions_without_tls_answers_what_the_upgrade_costs(tmp_path: Path) -> None:
    """All arms of the run are controls, each on another version, so that the upgrade is the only comparison."""
    fetched("postgres@15", "postgres@18")
    settings = ("--set", "server_version=15,18", "--set", "transport=plain", "--set", "records=100")
    done = costof("run", "postgres-tls", "--profile", "quick", *settings, "--rounds", "5", "--json", cwd=tmp_path)
    assert done.status == 0, done.err
    summary = Result.model_validate_json(done.out).summary
    assert summary.verdict.startswith("An upgrade from PostgreSQL 15 to 18 (plain) ")
    assert len(summary.figures) > 1


def test_folder_of_a_users_own_build_can_be_a_server_version(tmp_path: Path) -> None:
    fetched("postgres@18")
    folder = fetchable_releases()["postgres@18"].path.parent
    plan = plan_of("postgres-tls", "quick", f"server_version={folder}", "transport=plain,tls", "records=100")
    with loaded(plan) as (lab, engines):
        assert lab.collect_evidence(plan.arms[0], "start")["server_version"] == "18.1"
        assert counted(lab, engines, plan.arms[0]) == 20
