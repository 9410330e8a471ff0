"""Runs on a user's own MySQL server. `tests/contract/test_targets.py` tests what all such runs have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.leftovers import open_leftovers
from costof.programs.mariadb.connection import MarkedDatabase, MysqlSession, parse_mysql_url
from costof.programs.mariadb.lab import MariadbServer
from costof.programs.mariadb.target import SysbenchTarget
from costof.services.open import open_service
from costof.services.target import TargetService
from costof.study.plan import Plan
from tests.support.engines import Engines
from tests.support.programs import ADMIN, databases, url_of, users_mariadb
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with users_mariadb(lab) as server:
        yield server


def small() -> Plan:
    return plan_of("mysql-transport", "quick", "records=200", "transport=plain,tls", target="mysql://shown")


def target(server: MariadbServer, url: str | None = None) -> TargetService[SysbenchTarget]:
    access = Access(url or url_of(server), server.ca_file, allow_plain=True)
    service = open_service(small(), access, "a-run")
    assert isinstance(service, TargetService)
    return service


def test_only_plain_arms_fail_if_the_mysql_account_requires_tls(server: MariadbServer) -> None:
    server.ask(f"ALTER USER {ADMIN} REQUIRE SSL")
    try:
        with target(server) as service, Engines(small(), service) as engines:
            errors = {name: ready.error for name, ready in engines.ready.items()}
    finally:
        server.ask(f"ALTER USER {ADMIN} REQUIRE NONE")
    assert errors["tls"] is None
    assert errors["plain"] is not None
    assert errors["plain"].error_class == "authentication"


def test_connection_closed_by_mysql_is_reopened_and_takes_its_lock_again(server: MariadbServer) -> None:
    before = databases(server)
    with target(server) as service:
        session = service.server.session
        ((connection_id,),) = session.ask("SELECT CONNECTION_ID()")
        session.try_to("SELECT RELEASE_ALL_LOCKS()")
        server.ask(f"KILL {connection_id}")
        assert service.counters("any").connections is not None
        assert session.ask("SELECT CONNECTION_ID()") != ((connection_id,),)
        other = MysqlSession(parse_mysql_url(Access(url_of(server)), "mysql-transport"))
        other.open()
        assert not MarkedDatabase(other, service.server.database).lock()
        other.close()
    assert databases(server) == before


def test_empty_database_that_a_run_has_locked_is_reported_as_in_use(server: MariadbServer) -> None:
    """The run has created its database, but not yet written the table that marks it as costof's."""
    name = "costof_another_run_ffffff"
    session = MysqlSession(parse_mysql_url(Access(url_of(server)), "mysql-transport"))
    session.open()
    session.ask(f"CREATE DATABASE {name}")
    assert MarkedDatabase(session, name).lock()
    with open_leftovers(Access(url_of(server))) as there:
        (found,) = there.find()
        assert (found.database, found.in_use) == (name, "its run holds its lock")
    session.ask(f"DROP DATABASE {name}")
    session.close()


def test_privileges_granted_by_a_role_are_recognized(server: MariadbServer) -> None:
    server.ask("CREATE ROLE bench")
    server.ask(f"GRANT {', '.join(SysbenchTarget.PRIVILEGES)} ON `costof\\_%`.* TO bench")
    server.ask(f"CREATE USER by_role IDENTIFIED BY '{server.password.get_secret_value()}'")
    server.ask("GRANT bench TO by_role")
    server.ask("SET DEFAULT ROLE bench FOR by_role")
    with target(server, url_of(server, "by_role")):
        pass
    server.ask("DROP USER by_role")
    server.ask("DROP ROLE bench")


def test_password_with_characters_beyond_ascii_is_sent_to_mysql_unchanged(server: MariadbServer) -> None:
    password = "pässwörd-密"
    server._query("CREATE USER unicode IDENTIFIED BY %s", password)
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        pymysql.connect(host=server.address, user="unicode", password=password.encode("utf-16"), ssl_disabled=True)
    server._query("GRANT ALL ON `costof\\_%%`.* TO unicode".replace("%%", "%"))
    plan = small()
    url = url_of(server, "unicode", "p%C3%A4ssw%C3%B6rd-%E5%AF%86")
    with target(server, url) as service, Engines(plan, service) as engines:
        assert all(ready.error is None for ready in engines.ready.values())
