"""Runs of the pooling study on a user's own PgBouncer and PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.postgres.lab import DATABASE, USER
from costof.services import Service
from costof.services.open import offered_levels, open_service
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.pgbouncer import POOL, PORT, pooler_before
from tests.support.postgres import RunningServer, users_postgres

pytestmark = pytest.mark.servers
RECORDS = 200


@dataclass
class UsersServer:
    server: RunningServer
    pooler_url: str

    def access(self, pooler_url: str | None = None) -> Access:
        url = self.server.url(USER)
        return Access(url, self.server.ca_file, allow_plain=True, pooler_url=pooler_url or self.pooler_url)


@pytest.fixture(scope="module")
def users_server(lab: Lab) -> Iterator[UsersServer]:
    with users_postgres(lab) as server, pooler_before(server, lab, server.authority):
        password = server.password.get_secret_value()
        yield UsersServer(server, f"postgresql://{USER}:{password}@{lab.address(2)}:{PORT}/{POOL.name}")


def small(access: Access) -> Plan:
    study = load_study("postgres-pooling")
    offered = offered_levels(study, access)
    options = Options("quick", [f"records={RECORDS}"], seed=1, target="postgresql://shown", offered=offered)
    return resolve(study, options)


def target(access: Access) -> tuple[Plan, Service]:
    plan = small(access)
    return plan, open_service(plan, access, "a-run")


def test_users_pooler_and_server_are_measured_and_left_unchanged(users_server: UsersServer) -> None:
    before = users_server.server.places()
    plan, service = target(users_server.access())
    assert {arm.levels["path"] for arm in plan.arms} == {"plain", "tls", "your-pool", "your-pool-tls"}
    with service:
        # The data is in a new schema of the URL's database: the pooler would not know a new database.
        (made,) = users_server.server.places() - before
        assert made.startswith("costof_")
        with Engines(plan, service) as engines:
            service.prepare(plan.arms[:1], engines.load)
            for arm in plan.arms:
                pooled = "your-pool" in arm.levels["path"]
                address = service.endpoint(arm).service.addresses[0]
                assert address.endswith(f":{PORT}") == pooled
                answer = engines.slice(arm, "query", 10)
                assert (answer.operations, answer.errors) == (10, [])
                assert bool(answer.evidence["protocol"]) == arm.settings.speaks_tls
    assert users_server.server.places() == before


def refused(access: Access) -> CostofError:
    plan, service = target(access)
    with pytest.raises(CostofError) as error, service, Engines(plan, service) as engines:
        service.prepare(plan.arms[:1], engines.load)
    return error.value


def test_pooler_url_that_leads_to_another_server_is_rejected(users_server: UsersServer) -> None:
    before = users_server.server.places()
    itself = refused(users_server.access(users_server.server.url(USER)))
    assert (itself.message, "a server itself answers there" in str(itself)) == (ErrorText.NO_POOLER, True)
    elsewhere = users_server.access()
    # The pooler connects clients to the database DATABASE, but the run creates its schema in the database `postgres`.
    users_server.server.ask(f"GRANT CREATE ON DATABASE postgres TO {USER}")
    elsewhere = Access(
        users_server.server.url(USER, database="postgres"),
        elsewhere.ca_file,
        allow_plain=True,
        pooler_url=elsewhere.pooler_url,
    )
    other = refused(elsewhere)
    assert (other.message, "does not have the schema" in str(other)) == (ErrorText.NO_POOLER, True)
    assert users_server.server.password.get_secret_value() not in str(itself) + str(other)
    assert users_server.server.places() == before


@pytest.mark.parametrize(
    ("study", "arguments", "message"),
    [
        ("postgres-pooling", ["--set", "path=plain,your-pool"], "needs your own pooler"),
        ("postgres-pooling", ["--pooler", "postgresql://u@h/d"], "--pooler works only with --target"),
        (
            "postgres-pooling",
            ["--target", "postgresql://u@h/d", "--set", "path=plain,your-pool"],
            "or --pooler URL if you have a pooler",
        ),
        (
            "postgres-tls",
            ["--target", "postgresql://u@h/d", "--pooler", "postgresql://u@h:6432/d"],
            "does not measure a pooler; remove --pooler",
        ),
    ],
)
def test_option_pooler_is_required_or_rejected_depending_on_the_study(
    study: str, arguments: list[str], message: str, tmp_path: Path
) -> None:
    ended = costof("run", study, "--profile", "quick", *arguments, cwd=tmp_path)
    assert (ended.status, len(ended.error_lines)) == (2, 1)
    assert message in ended.err


def test_dry_run_lists_every_write(users_server: UsersServer, tmp_path: Path) -> None:
    reached = ["--target", users_server.server.url(USER), "--pooler", users_server.pooler_url]
    ended = costof("run", "postgres-pooling", "--profile", "quick", "--dry-run", *reached, cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert f"in database {DATABASE}; refuse if it exists" in ended.out
    assert "create database" not in ended.out
    assert "GRANT CREATE ON DATABASE" in ended.out
    assert "ALTER ROLE" not in ended.out
    assert users_server.server.password.get_secret_value() not in ended.out + ended.err
