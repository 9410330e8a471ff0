"""A user's own PostgreSQL server: somebody's data, and servers that refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from costof.errors import CostofError, Problem
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.leftovers import reached
from costof.programs.own_database import MARKER_NAME
from costof.programs.postgres.own import OwnPgbench
from costof.programs.postgres.server import ACCESS, DATABASE
from costof.services.open import open_service
from costof.services.own import OwnService
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.postgres import Standing, somebodys_postgres
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
RECORDS = 200


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[Standing]:
    with somebodys_postgres(lab) as server:
        yield server


def small() -> Plan:
    chosen = [f"records={RECORDS}", "transport=plain,tls"]
    return plan_of("postgres-tls", "quick", *chosen, target="postgresql://shown")


def target(server: Standing, user: str = "maker", database: str | None = None) -> OwnService[OwnPgbench]:
    access = Access(server.url(user), server.ca_file, allow_plain=True, database=database)
    service = open_service(small(), access, "a-run")
    assert isinstance(service, OwnService)
    return service


@pytest.mark.parametrize("user", ["maker", "guest"])
def test_a_target_is_measured_and_left_as_it_was(server: Standing, user: str) -> None:
    """In a database of the run's own, or where the account may not make one, in a schema."""
    before, plan = server.places(), small()
    with target(server, user) as service:
        assert server.places() - before == {service.server.name}
        where = service.server.client_settings()
        assert where.database == (service.server.name if user == "maker" else DATABASE)
        with Engines(plan, service) as engines:
            service.prepare(plan.arms[0], engines.load)
            assert service.server.session.ask("SELECT count(*) FROM pgbench_accounts") == [(RECORDS,)]
            assert all(engines.slice(arm, "query", 10).operations == 10 for arm in plan.arms)
    assert server.places() == before


def test_every_write_is_told_and_none_is_done_before(server: Standing, tmp_path: Path) -> None:
    before = server.places()
    done = costof(
        *("run", "postgres-tls", "--profile", "quick", "--set", "transport=plain,tls", "--dry-run"),
        *("--set", f"records={RECORDS}", "--target", server.url("maker")),
        cwd=tmp_path,
    )
    assert done.status == 0, done.err
    told = [line.split()[1] for line in done.out.splitlines() if line.startswith("write")]
    assert told == ["create", "insert", "insert", "drop"]
    assert f"{RECORDS} records" in done.out
    assert server.password.get_secret_value() not in done.out + done.err
    assert server.places() == before


@pytest.mark.parametrize("load", [(), ("--load", "40/s", "--queries-per-connection", "2")])
def test_a_server_that_takes_only_tls_gets_the_figures_of_tls_alone(
    server: Standing, tmp_path: Path, load: tuple[str, ...]
) -> None:
    arguments = ["run", "postgres-tls", "--profile", "quick", "--set", "transport=plain,tls", "--rounds", "3"]
    reached = ["--target", server.url("maker"), "--tls-ca", str(server.ca_file), "--allow-plain"]
    with server.admitting(ACCESS.replace("host all", "hostssl all")):
        done = costof(*arguments, "--set", f"records={RECORDS}", *reached, *load, "--out", "run", cwd=tmp_path)
    assert done.status == 3, done.err
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (alone,) = result["sections"]["one_side"]["connections"]
    assert alone["arm"] == "tls"
    # Whether a server offers TLS is a round trip of its own.
    trips = {each["phase"]: each["round_trips"] for each in alone["phases"]}
    assert trips["tls_request"] == 1
    assert trips["tls"] >= 1
    assert all(
        each["bytes_sent"] > 0 and each["bytes_received"] > 0 for each in alone["phases"] if each["phase"] != "tcp"
    )
    assert 0 < alone["tls_share"] < 1
    assert alone["client_cpu_ms"] > 0
    assert "cannot be told" in done.out
    assert "by itself: a new connection takes" in " ".join(done.out.split())
    assert f"in {trips['tls_request'] + trips['tls']:.0f} round trips" in " ".join(done.out.split())


def refused(server: Standing, user: str, database: str | None = None, **url: str) -> CostofError:
    before = server.places()
    access = Access(server.url(user, **url), server.ca_file, allow_plain=True, database=database)
    with pytest.raises(CostofError) as error, open_service(small(), access, "a-run"):
        pass
    assert server.places() == before
    return error.value


def test_an_account_that_may_make_neither_is_told_what_it_lacks(server: Standing) -> None:
    error = refused(server, "reader")
    assert error.problem is Problem.PRIVILEGES_MISSING
    assert f'ALTER ROLE "reader" CREATEDB; or GRANT CREATE ON DATABASE "{DATABASE}" TO "reader";' in str(error)


def test_a_wrong_password(server: Standing) -> None:
    error = refused(server, "maker", password="wrong-horse")
    assert error.problem is Problem.TARGET_REFUSES_LOGIN
    assert "wrong-horse" not in str(error)


def test_what_is_there_is_not_touched(server: Standing) -> None:
    """A schema, and a database that holds something."""
    assert refused(server, "guest", "theirs").problem is Problem.TARGET_OCCUPIED
    for something in ("CREATE SCHEMA something", "CREATE TYPE pair AS (one int, two int)", "SELECT lo_create(1)"):
        server.ask("CREATE DATABASE held OWNER maker")
        with psycopg.connect(server.url("maker", database="held"), autocommit=True) as inside:
            inside.execute(something.encode())
        assert refused(server, "maker", "held").problem is Problem.TARGET_OCCUPIED
        server.ask("DROP DATABASE held")


def test_a_database_that_was_there_and_empty_stays(server: Standing) -> None:
    server.ask("CREATE DATABASE given OWNER maker")
    before = server.places()
    with target(server, "maker", "given") as service:
        assert service.server.client_settings().database == "given"
    assert server.places() == before
    server.ask("DROP DATABASE given")


@pytest.mark.parametrize("spoiled", ["UPDATE {} SET run = 'another'", "DELETE FROM {}", "DROP TABLE {}"])
def test_without_its_marker_it_is_not_dropped(server: Standing, spoiled: str) -> None:
    with target(server, "guest") as service:
        service.server.session.ask(spoiled.format(MARKER_NAME))
    assert service.server.name in server.places()
    server.ask(f'DROP SCHEMA "{service.server.name}" CASCADE')


@pytest.mark.parametrize("user", ["maker", "guest"])
def test_what_others_have_put_there_stays(server: Standing, user: str) -> None:
    with target(server, user) as service:
        service.server.session.ask("CREATE TABLE of_others AS SELECT 1 AS one")
    name, settings = service.server.name, service.server.client_settings()
    assert name in server.places()
    with psycopg.connect(server.url(user, database=settings.database), autocommit=True) as inside:
        tables = inside.execute("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s)", (f'"{name}"',))
        assert tables.fetchall() == [("of_others",)]
        inside.execute(f'DROP SCHEMA "{name}" CASCADE')
    if user == "maker":
        server.ask(f'DROP DATABASE "{name}"')


def test_a_connection_that_the_server_ended_is_opened_again(server: Standing) -> None:
    before = server.places()
    with target(server) as service:
        ((own,),) = service.server.session.ask("SELECT pg_backend_pid()")
        server.ask(f"SELECT pg_terminate_backend({own}, 60000)")
        assert service.server.session.ask("SELECT count(*) FROM pgbench_branches") == [(32,)]
    assert server.places() == before


@pytest.mark.parametrize("user", ["maker", "guest"])
def test_what_a_killed_run_has_left_is_found_and_removed(server: Standing, user: str) -> None:
    before = server.places()
    service = target(server, user)
    with reached(Access(server.url(user), server.ca_file)) as there:
        with service:
            (found,) = there.find()
            assert found.in_use is not None
            # The run is killed: it lets go of the lock, and cannot tidy up.
            service.server.remove_made = lambda: None  # type: ignore[method-assign]
        (left,) = there.find()
        assert left.marker is not None
        assert left.marker.maker.lives()
        assert there.remove(left)
        assert there.find() == []
    assert server.places() == before


def test_an_empty_database_that_a_run_made_is_found_and_removed(server: Standing) -> None:
    before, name = server.places(), "costof_20261123_101112_study_0a1b2c"
    server.ask(f"CREATE DATABASE {name} OWNER maker")
    with reached(Access(server.url("maker"), server.ca_file)) as there:
        (left,) = there.find()
        assert (left.database, left.marker, left.in_use) == (name, None, None)
        assert there.remove(left)
    assert server.places() == before


def test_a_new_database_that_lets_nobody_in_does_not_stay(server: Standing) -> None:
    access = f"local all all scram-sha-256\nhost {DATABASE} all all scram-sha-256\n"
    with server.admitting(access):
        assert refused(server, "maker").problem is Problem.TARGET_REFUSES_LOGIN
