"""A user's own MySQL server: somebody's data, and servers that refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mariadb.own import OwnSysbench
from costof.programs.mariadb.server import MariadbServer
from costof.programs.mariadb.url import parse_mysql_url
from costof.programs.own_database import MARKER_NAME
from costof.services.open import open_service
from costof.services.own import OwnService
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.programs import databases, somebodys_mariadb, url_of, user_of_many_databases
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers
RECORDS = 200


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with somebodys_mariadb(lab) as server:
        yield server


def small(*settings: str) -> Plan:
    chosen = [f"records={RECORDS}", *(settings or ("transport=plain,tls",))]
    return plan_of("mysql-transport", "quick", *chosen, target="mysql://shown")


def target(server: MariadbServer, url: str | None = None, ca_file: Path | None = None) -> OwnService[OwnSysbench]:
    access = Access(url or url_of(server), ca_file or server.ca_file, allow_plain=True)
    service = open_service(small(), access, "a-run")
    assert isinstance(service, OwnService)
    return service


def test_a_target_is_measured_and_left_as_it_was(server: MariadbServer) -> None:
    before = databases(server)
    plan = small()
    with target(server) as service:
        assert databases(server) - before == {service.server.database}
        with Engines(plan, service) as engines:
            service.prepare(plan.arms[0], engines.load)
            counted = server._query(f"SELECT COUNT(*) FROM {service.server.database}.sbtest1")  # noqa: S608  # our own name
            assert counted == ((RECORDS,),)
            assert all(engines.slice(arm, "query", 10).operations == 10 for arm in plan.arms)
        assert not service.cautions()
    assert databases(server) == before
    assert server._query("SELECT * FROM theirs.data") == ((1,),)


def test_every_write_is_told_and_none_is_done_before(server: MariadbServer, tmp_path: Path) -> None:
    before = databases(server)
    done = costof(
        *("run", "mysql-transport", "--profile", "quick", "--set", "transport=plain,tls", "--dry-run"),
        *("--set", f"records={RECORDS}", "--target", url_of(server)),
        cwd=tmp_path,
    )
    assert done.status == 0, done.err
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("write")] == [
        "create",
        "insert",
        "insert",
        "drop",
    ]
    assert f"{RECORDS} records" in done.out
    assert server.password.get_secret_value() not in done.out + done.err
    assert databases(server) == before


def test_a_database_that_is_there_is_not_touched(server: MariadbServer) -> None:
    service = target(server)
    server._query(f"CREATE DATABASE {service.server.database}")
    with pytest.raises(CostofError) as refused, service:
        pass
    assert refused.value.problem is Problem.TARGET_OCCUPIED
    assert service.server.database in databases(server)
    server._query(f"DROP DATABASE {service.server.database}")


@pytest.mark.parametrize("spoiled", ["UPDATE {} SET run = 'another'", "DELETE FROM {}", "DROP TABLE {}"])
def test_without_its_marker_it_is_not_dropped(server: MariadbServer, spoiled: str) -> None:
    with target(server) as service:
        server._query(spoiled.format(f"{service.server.database}.{MARKER_NAME}"))
    assert service.server.database in databases(server)
    server._query(f"DROP DATABASE {service.server.database}")


def test_a_user_who_must_use_tls_is_let_in_by_it(lab: Lab) -> None:
    other = MariadbServer(lab, Authority(lab.folder / "other"), [lab.address(5)], name="strict")
    other.start()
    user_of_many_databases(other, requires="SSL")
    # No CA at hand means plain first, which this user may not.
    plan = small()
    with target(other) as service, Engines(plan, service) as engines:
        errors = {name: ready.error for name, ready in engines.ready.items()}
        assert errors["tls"] is None
        assert errors["plain"] is not None
        assert errors["plain"].error_class == "authentication"
    other.stop()


def test_a_connection_that_the_server_ended_is_opened_again(server: MariadbServer) -> None:
    before = databases(server)
    with target(server) as service:
        ((own,),) = service.server.session.ask("SELECT CONNECTION_ID()")
        server._query(f"KILL {own}")
        assert service.counters("any").connections is not None
    assert databases(server) == before


def refused(server: MariadbServer, url: str, ca_file: Path | None = None) -> CostofError:
    before = databases(server)
    with pytest.raises(CostofError) as error, target(server, url, ca_file):
        pass
    assert databases(server) == before
    return error.value


def test_a_wrong_password(server: MariadbServer) -> None:
    error = refused(server, url_of(server, password="wrong-horse"))
    assert error.problem is Problem.TARGET_REFUSES_LOGIN
    assert "wrong-horse" not in str(error)


def test_a_user_who_may_make_no_database(server: MariadbServer) -> None:
    server._query("CREATE USER reader IDENTIFIED BY %s", server.password.get_secret_value())
    error = refused(server, url_of(server, user="reader"))
    assert error.problem is Problem.PRIVILEGES_MISSING
    assert r"GRANT CREATE, DROP, SELECT, INSERT, INDEX ON `costof\_%`.* TO 'reader'@'%';" in str(error)


def test_nobody_there(server: MariadbServer, lab: Lab) -> None:
    error = refused(server, f"mysql://u:secret-word@{lab.address(99)}/")
    assert error.problem is Problem.TARGET_UNREACHABLE
    assert "refused" in str(error)
    assert "secret-word" not in str(error)


def test_a_ca_file_that_is_none(server: MariadbServer, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    assert refused(server, url_of(server), tmp_path / "ca.pem").problem is Problem.TLS_CA_INVALID


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("postgres://u:p@h/", "mysql://user:password@host"),
        ("mysql://u:p@h/theirs", "a database of its own"),
        ("mysql://u:p@h/?wait=1", "ssl-mode"),
        ("mysql://:p@h/", "no user"),
        ("mysql://u:p@/", "no host"),
        ("mysql://u:p@h:port/", "ort"),
    ],
)
def test_a_url_that_is_none(url: str, told: str) -> None:
    with pytest.raises(CostofError, match=told) as error:
        parse_mysql_url(Access(url), "mysql-transport")
    assert error.value.problem is Problem.BAD_TARGET
    assert ":p@" not in str(error.value)


def test_a_url_may_quote_and_leave_out_the_port() -> None:
    place = parse_mysql_url(Access("mysql://a%40b:p%3A%2Fw@[::1]"), "mysql-transport")
    assert (place.username, place.password.get_secret_value(), place.address) == ("a@b", "p:/w", "[::1]:3306")


def test_tunnels_are_refused_with_what_to_say_instead(server: MariadbServer, tmp_path: Path) -> None:
    asked = ["--set", "transport=plain,tls,ssh-aes256-ctr", "--target", url_of(server)]
    done = costof("run", "mysql-transport", "--profile", "quick", *asked, cwd=tmp_path)
    assert done.status == 2
    (told,) = done.told
    assert "ssh-aes256-ctr" in told
    assert "--set transport=plain,tls" in told
    assert not (tmp_path / "runs").exists()


def test_pymysql_is_given_the_password_as_it_is(server: MariadbServer) -> None:
    password = "pässwörd-密"
    server._query("CREATE USER unicode IDENTIFIED BY %s", password)
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=server.address, user="unicode", password=password.encode("utf-16"), ssl_disabled=True)
    server._query("GRANT ALL ON `costof\\_%%`.* TO unicode".replace("%%", "%"))
    plan = small()
    url = url_of(server, "unicode", "p%C3%A4ssw%C3%B6rd-%E5%AF%86")
    with target(server, url) as service, Engines(plan, service) as engines:
        assert all(ready.error is None for ready in engines.ready.values())
