"""Tests that a run on each kind of target (a user's own servers) must pass.

The run measures the target, writes only what its dry run announced, and leaves the target as it was.
"""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.reach import CERTIFICATE, VERSION
from costof.programs.target_database import Maker
from costof.services import Service
from tests.integration.conftest import costof_running, wait_for_slices
from tests.support.command import Outcome, costof
from tests.support.engines import Engines
from tests.support.programs import eventually
from tests.support.small_plans import small_study
from tests.support.users_servers import CHOSEN, SPOILED, THEIRS, USERS_SERVERS, UsersServer

pytestmark = pytest.mark.servers
#: Servers on which a database can be empty. On other servers a database exists only while it has content.
KEEP_EMPTY = pytest.mark.parametrize(
    "server", ["mariadb", pytest.param("postgres-database", marks=pytest.mark.slow)], indirect=True
)


#: `make test` leaves out these servers, because other tests run the same code: `test_postgres_target.py` and
#: `test_mongodb_target.py`.
SLOW = {"postgres-database", "postgres-commits", "mongodb"}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in USERS_SERVERS]
)
def server(request: pytest.FixtureRequest) -> Iterator[UsersServer]:
    with Lab() as lab, contextlib.ExitStack() as stack:
        yield USERS_SERVERS[request.param](stack, lab)


@contextlib.contextmanager
def loaded(server: UsersServer, access: Access | None = None) -> Iterator[tuple[Service, str, Engines]]:
    """Load the records of a run. Yield the service, the place of the records, and the engines.

    The place is the name of a database or schema, or a prefix of keys, that the run created on the server.
    """
    plan = server.plan()
    with server.open(access) as service, Engines(plan, service, server.workloads) as engines:
        service.prepare(plan.arms[:1], engines.load)
        yield service, server.place_of(service), engines


def measure(server: UsersServer, access: Access | None = None) -> str:
    """Make a small run, and return the place of its records: a database, a schema or a prefix of keys."""
    before = server.places()
    with loaded(server, access) as (_, place, engines):
        assert server.places() - before <= {place}
        assert place in server.places()
        for workload in server.measured:
            assert all(engines.slice(arm, workload, 10).operations == 10 for arm in server.plan().arms)
    return place


def refused(server: UsersServer, access: Access) -> CostofError:
    before = server.state()
    with pytest.raises(CostofError) as error, server.open(access) as service:
        service.prepare(server.plan().arms[:1], lambda arm: None)
    assert server.state() == before
    assert server.password not in str(error.value)
    return error.value


def options(server: UsersServer, study: str | None = None) -> list[str]:
    chosen = ["--profile", "quick", "--seed", "1", *(word for each in server.settings for word in ("--set", each))]
    return [study or server.study, *chosen, "--target", server.url(), "--tls-ca", str(server.ca_file), "--allow-plain"]


def clean(server: UsersServer, folder: Path, *more: str, url: str | None = None) -> Outcome:
    done = costof("clean", "--target", url or server.url(), "--tls-ca", str(server.ca_file), *more, cwd=folder)
    assert done.status == 0, done.err
    return done


def test_run_leaves_nothing_behind_on_a_target(server: UsersServer) -> None:
    before = server.state()
    measure(server)
    assert server.state() == before


def test_resumed_run_refuses_a_target_with_another_certificate(server: UsersServer) -> None:
    before = server.state()
    with server.open() as service:
        identity = service.identity()
    assert {VERSION, CERTIFICATE} <= {*identity}
    resumed = server.open()
    resumed.known_identity = {**identity, CERTIFICATE: "SHA-256 of another"}
    with pytest.raises(CostofError) as error, resumed:
        pass
    assert error.value.message is ErrorText.OTHER_SERVER
    assert server.state() == before


def test_dry_run_lists_every_write_and_writes_nothing_on_the_target(server: UsersServer, tmp_path: Path) -> None:
    before = server.state()
    done = costof("run", *options(server), "--dry-run", "--database", CHOSEN, cwd=tmp_path)
    assert done.status == 0, done.err
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("write")] == server.writes
    assert re.search(server.inserted, done.out)
    assert CHOSEN in done.out
    assert server.needs in done.out
    unnamed = [costof("run", *options(server), "--dry-run", cwd=tmp_path).out for _ in range(2)]
    assert unnamed[0] == unnamed[1]
    assert "<run>_<random>" in unnamed[0]
    assert server.password not in done.out + done.err + unnamed[0]
    assert server.state() == before


def test_missing_privilege_is_reported_with_a_sufficient_grant(server: UsersServer, tmp_path: Path) -> None:
    before = server.state()
    for lacking in server.privileges:
        with server.limited(lacking) as url:
            error = refused(server, server.access(url, CHOSEN))
            assert error.message is ErrorText.PRIVILEGES_MISSING
            assert f"may not {lacking}" in str(error)
            unnamed = str(refused(server, server.access(url)))
            assert ("which --database names" in unnamed) == server.grants_one_place
            server.grant(str(error))
            with loaded(server, server.access(url, CHOSEN)):
                assert (
                    lacking != server.privileges[-1]
                    or "its run is still active" in clean(server, tmp_path, url=url).out
                )
        assert server.state() == before


def test_unreachable_target_is_reported_without_its_password(server: UsersServer, tmp_path: Path) -> None:
    no_ca = tmp_path / "ca.pem"
    no_ca.write_text("not a certificate")
    for access, expected in (
        (server.access(server.url(password="wrong-horse")), ErrorText.TARGET_REFUSES_LOGIN),
        (server.access(f"{server.scheme}://u:wrong-horse@127.0.0.1:1/"), ErrorText.TARGET_UNREACHABLE),
        (replace(server.access(), ca_file=no_ca), ErrorText.TLS_CA_INVALID),
    ):
        error = refused(server, access)
        assert error.message is expected
        assert "wrong-horse" not in str(error)


def test_invalid_database_name_is_refused(server: UsersServer) -> None:
    for name in ("", "mysql", "Admin", "a b", "a`b", "1st", "a" * 64, "costof-run", "näme"):
        with pytest.raises(CostofError) as error:
            server.open(server.access(database=name))
        assert error.value.message is ErrorText.BAD_DATABASE, name


def test_database_or_key_prefix_with_data_of_other_users_is_refused(server: UsersServer) -> None:
    server.occupy(CHOSEN)
    assert refused(server, server.access(database=CHOSEN)).message is ErrorText.TARGET_OCCUPIED
    server.drop(CHOSEN)


def test_second_run_in_a_database_or_key_prefix_is_refused_while_the_first_run_uses_it(server: UsersServer) -> None:
    before = server.state()
    with loaded(server, server.access(database=CHOSEN)) as (_, _, engines):
        assert refused(server, server.access(database=CHOSEN)).message is ErrorText.TARGET_OCCUPIED
        assert engines.slice(server.plan().arms[0], server.measured[-1], 10).operations == 10
    assert server.state() == before


@KEEP_EMPTY
def test_empty_database_that_existed_before_is_kept(server: UsersServer) -> None:
    server.make_empty(CHOSEN)
    before = server.state()
    measure(server, server.access(database=CHOSEN))
    assert server.state() == before
    server.drop(CHOSEN)


def test_data_that_the_run_did_not_create_is_never_removed(server: UsersServer, tmp_path: Path) -> None:
    for how in SPOILED:
        with loaded(server) as (_, place, _):
            server.spoil(place, how)
        assert place in server.places(), how
        server.drop(place)
    with loaded(server) as (_, place, _):
        server.put(place)
    assert server.contents(place) == {THEIRS}
    server.drop(place)
    server.forge("costof_like_ours")
    assert "costof_like_ours" not in clean(server, tmp_path, "--yes").out
    assert "costof_like_ours" in server.places()
    server.drop("costof_like_ours")


def test_costof_clean_removes_data_of_killed_runs_and_keeps_data_of_live_runs(
    server: UsersServer, tmp_path: Path, temporary: Path
) -> None:
    before, places = server.state(), server.places()
    # By default, costof names a run folder in this way.
    run, study = tmp_path / "20261123-101112-study", small_study(server.study, tmp_path)
    with costof_running(run, temporary, *options(server, study), "--rounds", "100000") as process:
        wait_for_slices(process, run, 1)
        # Stop the run without ending it: the process is alive, so `clean` must keep its data.
        process.send_signal(signal.SIGSTOP)
        (made,) = server.places() - places
        assert f"its run is still active (process {process.pid} on" in clean(server, tmp_path, "--yes").out
        assert made in server.places()
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert made in server.places()
        # The server holds the run's lock until it notices, after a while, that the connection has ended.
        eventually("the end of its run", lambda: "left by run" in clean(server, tmp_path).out)
    assert "nothing was removed; add --yes" in clean(server, tmp_path).out
    assert "nothing to remove" in clean(server, tmp_path, "--yes", "--database", "costof_another").out
    assert made in server.places()
    assert re.search(rf"^removed (\w+\.)?{made}$", clean(server, tmp_path, "--yes").out, re.MULTILINE)
    assert server.state() == before
    assert "nothing to remove" in clean(server, tmp_path, "--yes").out


def test_costof_clean_keeps_data_of_a_remote_run_that_holds_a_lock_or_sends_heartbeats(
    server: UsersServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Maker(host="elsewhere", machine="another", pid=1, started=1)
    monkeypatch.setattr(Maker, "this_process", lambda: maker)
    with loaded(server) as (_, place, _):
        output = clean(server, tmp_path, "--yes").out
        assert "process 1 on elsewhere" in output
        assert "its run holds its lock" in output or "its run's last heartbeat was" in output
        assert place in server.places()


@KEEP_EMPTY
def test_costof_clean_removes_an_empty_database_only_if_its_name_was_generated(
    server: UsersServer, tmp_path: Path
) -> None:
    ours, theirs = "costof_20261123_101112_study_0a1b2c", "costof_notes"
    for name in (ours, theirs):
        server.make_empty(name)
    output = clean(server, tmp_path, "--yes").out
    assert f"{ours}  empty, left by an unknown run\n" in output
    assert f"removed {ours}" in output
    assert theirs not in output
    assert theirs in server.places()
    assert ours not in server.places()
    server.drop(theirs)
