"""`costof clean`: what a killed run has left is found and removed; nothing else is touched."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.heartbeat import DEAD_AFTER_SECONDS
from costof.programs.maker import Maker
from costof.programs.mariadb.marked_database import MarkedDatabase
from costof.programs.mariadb.session import MysqlSession
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import read_marker
from costof.services import Service
from costof.services.open import open_service
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.support.command import Outcome, costof
from tests.support.programs import eventually, running_mariadb, url_of, user_of_many_databases
from tests.support.redis import a_redis
from tests.support.small_plans import plan_of

from .conftest import SMALL, Standalone, costof_running, wait_for_slices

pytestmark = pytest.mark.servers


@dataclass
class Theirs:
    """A user's server: its URL, which databases it holds, and how somebody else's table `costof` is made there."""

    url: str
    study: list[str]
    databases: Callable[[], set[str]]
    make: Callable[[str], None]
    kill: Callable[[int], object] = lambda number: None
    #: Where the URL asks for TLS.
    ca_file: Path | None = None

    def clean(self, folder: Path, *more: str) -> Outcome:
        trusting = ["--tls-ca", str(self.ca_file)] if self.ca_file else []
        done = costof("clean", "--target", self.url, *trusting, *more, cwd=folder)
        assert done.status == 0, done.err
        return done

    @contextmanager
    def run_from_elsewhere(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
        """A run whose process cannot be seen from here, with its database made."""
        maker = Maker(host="elsewhere", machine="another", pid=1, started=1)
        monkeypatch.setattr(Maker, "this_process", lambda: maker)
        options = Options("quick", ["transport=plain,tls"], target="shown")
        plan = resolve(load_study(self.study[0]), options)
        with open_service(plan, Access(self.url, self.ca_file, allow_plain=True), "a-run") as service:
            service.prepare(plan.arms[0], lambda arm: None)
            yield service


@pytest.fixture(scope="module")
def mongodb(standalone: Callable[..., Standalone]) -> Iterator[Theirs]:
    server = standalone(50)
    with server.client() as client:
        yield Theirs(
            server.url,
            ["mongodb-tls", *SMALL, "--tls-ca", str(server.ca_file), "--allow-plain"],
            lambda: set(client.list_database_names()),
            lambda name: client[name]["costof"].insert_one({"_id": "made by costof", "run": "theirs"}) and None,
        )


@pytest.fixture(scope="module")
def mysql(lab: Lab, authority: Authority) -> Iterator[Theirs]:
    with running_mariadb(lab, authority=authority) as server:
        user_of_many_databases(server)

        def make(name: str) -> None:
            server._query(f"CREATE DATABASE {name}")
            server._query(f"CREATE TABLE {name}.costof (id VARCHAR(40), run VARCHAR(40), about TEXT)")
            values = "'made by costof', 'theirs', '{}'"
            server._query(f"INSERT INTO {name}.costof VALUES ({values})")  # noqa: S608  # names of our own

        yield Theirs(
            url_of(server),
            [
                *("mysql-transport", "--profile", "quick", "--set", "records=200", "--set", "transport=plain,tls"),
                *("--tls-ca", str(server.ca_file), "--allow-plain"),
            ],
            lambda: {row[0] for row in server._query("SHOW DATABASES")},
            make,
            lambda number: server._query(f"KILL {number}"),
        )


@pytest.fixture(scope="module")
def redis() -> Iterator[Theirs]:
    with Lab() as playing, a_redis(playing) as server:
        yield Theirs(
            server.url(),
            [
                *("redis-tls", "--profile", "quick", "--set", "records=200", "--set", "transport=plain,tls"),
                *("--tls-ca", str(server.ca_file), "--allow-plain"),
            ],
            server.places,
            lambda name: server.ask("SET", f"costof:{name}:key:000000000001", "theirs"),
            ca_file=server.ca_file,
        )


@pytest.fixture(params=["mongodb", "mysql", "redis"])
def theirs(request: pytest.FixtureRequest) -> Theirs:
    found: Theirs = request.getfixturevalue(request.param)
    return found


def test_what_a_killed_run_has_left_is_removed_and_a_live_one_is_not(
    theirs: Theirs, tmp_path: Path, temporary: Path
) -> None:
    before = theirs.databases()
    # As runs are named by themselves.
    run = tmp_path / "20261123-101112-study"
    with costof_running(run, temporary, *theirs.study, "--target", theirs.url, "--rounds", "100000") as process:
        wait_for_slices(process, run, 1)
        (made,) = theirs.databases() - before
        done = theirs.clean(tmp_path, "--yes")
        assert f"its run goes on (process {process.pid} on" in done.out
        assert made in theirs.databases()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert made in theirs.databases()
        # A server notices the end of a connection in its own time.
        eventually("the end of its run", lambda: "left by run" in theirs.clean(tmp_path).out)
    done = theirs.clean(tmp_path)
    assert "nothing was removed; say --yes" in done.out
    assert made in theirs.databases()
    assert "nothing to remove" in theirs.clean(tmp_path, "--yes", "--database", "costof_another").out
    assert f"removed {made}" in theirs.clean(tmp_path, "--yes").out
    assert theirs.databases() == before
    assert "nothing to remove" in theirs.clean(tmp_path, "--yes").out


def test_without_an_intact_marker_nothing_is_listed(theirs: Theirs, tmp_path: Path) -> None:
    theirs.make("costof_like_ours")
    done = theirs.clean(tmp_path, "--yes")
    assert "costof_like_ours" not in done.out
    assert "costof_like_ours" in theirs.databases()


def test_a_run_on_another_machine_is_known_by_its_lock_or_its_signs_of_life(
    theirs: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with theirs.run_from_elsewhere(monkeypatch) as service:
        done = theirs.clean(tmp_path, "--yes")
        assert "process 1 on elsewhere" in done.out
        assert "its run holds its lock" in done.out or "its run showed life" in done.out
        assert service.server.database in theirs.databases()  # type: ignore[attr-defined]


def test_a_run_that_has_long_shown_no_life_is_dead(
    mongodb: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mongodb.run_from_elsewhere(monkeypatch) as service:
        service.server._heartbeat.stop()  # type: ignore[attr-defined]
        kept = service.server.session.client[service.server.database]["costof"]  # type: ignore[attr-defined]
        older = [{"$set": {"at": {"$subtract": ["$at", int(DEAD_AFTER_SECONDS * 1000)]}}}]
        kept.update_one({"_id": "alive"}, older)
        assert f"removed {service.server.database}" in mongodb.clean(tmp_path, "--yes").out  # type: ignore[attr-defined]


def test_a_run_that_lost_its_connection_takes_its_lock_again(
    mysql: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mysql.run_from_elsewhere(monkeypatch) as service:
        session = service.server.session  # type: ignore[attr-defined]
        ((own,),) = session.ask("SELECT CONNECTION_ID()")
        session.try_to("SELECT RELEASE_ALL_LOCKS()")
        assert "left by run" in mysql.clean(tmp_path).out
        mysql.kill(own)
        # Any question finds the connection gone, and makes another.
        assert session.ask("SELECT CONNECTION_ID()") != ((own,),)
        assert "its run holds its lock" in mysql.clean(tmp_path, "--yes").out


def test_what_others_have_put_there_stays(mysql: Theirs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with mysql.run_from_elsewhere(monkeypatch) as service:
        session, name = service.server.session, service.server.database  # type: ignore[attr-defined]
        session.ask(f"CREATE TABLE {name}.theirs (id INT)")
    assert name in mysql.databases()


def test_empty_databases_that_a_run_made_are_found_and_others_are_not(mysql: Theirs, tmp_path: Path) -> None:
    ours, theirs, in_use = "costof_20261123_101112_study_0a1b2c", "costof_notes", "costof_another_run_ffffff"
    session = MysqlSession(parse_mysql_url(Access(mysql.url), "mysql-transport"))
    session.open()
    for name in (ours, theirs, in_use):
        session.ask(f"CREATE DATABASE {name}")
    assert MarkedDatabase(session, in_use).lock()
    done = mysql.clean(tmp_path, "--yes")
    assert f"{ours}  empty, left by some run\n" in done.out
    assert f"removed {ours}" in done.out
    assert f"{in_use}  its run holds its lock" in done.out
    assert theirs not in done.out
    assert mysql.databases() >= {theirs, in_use}
    assert ours not in mysql.databases()
    for name in (theirs, in_use):
        session.ask(f"DROP DATABASE {name}")
    session.close()


def test_a_url_of_another_kind_is_refused(tmp_path: Path) -> None:
    done = costof("clean", "--target", "https://u:S3cret@h/", cwd=tmp_path)
    assert done.status == 2
    assert "S3cret" not in done.err


def test_a_maker_is_known_by_its_number_and_its_start() -> None:
    here = Maker.this_process()
    assert here.lives() is True
    assert here.model_copy(update={"started": here.started - 1}).lives() is False
    assert here.model_copy(update={"pid": 2**22 + 1}).lives() is False
    assert here.model_copy(update={"machine": "another"}).lives() is None


def test_of_two_runs_with_one_database_the_second_is_refused(mysql: Theirs, tmp_path: Path) -> None:
    plan = plan_of("mysql-transport", "quick", "transport=plain,tls", target="shown")
    with open_service(plan, Access(mysql.url, database="costof_shared"), "a-run"):
        done = costof("run", *mysql.study, "--target", mysql.url, "--database", "costof_shared", cwd=tmp_path)
    assert done.status == 1
    assert "is used by another run" in done.told[0]
    assert "costof_shared" not in mysql.databases()


def test_a_marker_that_names_more_than_a_table_is_not_intact() -> None:
    maker = Maker.this_process().model_dump()
    about = {"run": "r", "maker": maker, "made_database": True}
    assert read_marker({**about, "tables": ["usertable"]}) is not None
    for table in ("x`,`mysql`.`user", "", "a b", "a\n"):
        assert read_marker({**about, "tables": [table]}) is None
    assert read_marker({**about, "tables": [], "more": 1}) is None
