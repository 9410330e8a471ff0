"""Accounts that may do little: what is missing is told before anything is written, and the least is enough."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pymongo
import pytest

from costof.errors import CostofError, Problem
from costof.lab.certificates import Authority
from costof.lab.lab import Lab
from costof.programs.access import Access
from costof.programs.mariadb.own import OwnSysbench
from costof.programs.mariadb.server import MariadbServer
from costof.services.encryption.own import OwnTpcc
from costof.services.open import open_service
from costof.study.plan import Plan
from tests.support.command import costof
from tests.support.engines import Engines
from tests.support.programs import HANGS_SECONDS, databases, running_mariadb, url_of
from tests.support.small_plans import plan_of

from .conftest import PASSWORD, Standalone

pytestmark = pytest.mark.servers
USER = "bench-user"
STUDIES = {"mysql-transport": OwnSysbench, "mysql-column-encryption": OwnTpcc}
LACKING = [(study, name) for study, target in STUDIES.items() for name in target.PRIVILEGES]


@pytest.fixture(scope="module")
def server(lab: Lab, authority: Authority) -> Iterator[MariadbServer]:
    with running_mariadb(lab, authority=authority) as server:
        yield server


@contextmanager
def user(server: MariadbServer, *grants: str) -> Iterator[str]:
    """The URL of an account that has these and no others."""
    server._query(f"CREATE USER '{USER}' IDENTIFIED BY %s", server.password.get_secret_value())
    try:
        for grant in grants:
            server._query(grant.format(user=f"'{USER}'"))
        yield url_of(server, USER)
    finally:
        server._query(f"DROP USER '{USER}'")


def small(study: str) -> Plan:
    settings = ["transport=plain,tls"] if study == "mysql-transport" else ["encrypted=direct,0"]
    return plan_of(study, "quick", *settings, target="shown")


@pytest.mark.parametrize(("study", "lacking"), LACKING)
def test_a_privilege_that_is_missing_is_told_before_anything_is_written(
    server: MariadbServer, study: str, lacking: str
) -> None:
    before = databases(server)
    rest = ", ".join(name for name in STUDIES[study].PRIVILEGES if name != lacking)
    with user(server, f"GRANT {rest} ON `costof\\_%`.* TO {{user}}") as url:
        with pytest.raises(CostofError) as refused, open_service(small(study), Access(url), "a-run"):
            pass
        assert refused.value.problem is Problem.PRIVILEGES_MISSING
        assert f"{USER}@% may not {lacking} in costof_" in str(refused.value)
        assert databases(server) == before
        # What it says is ready to be pasted.
        (grant,) = re.findall(r"GRANT .*;", str(refused.value))
        server._query(grant)
        with open_service(small(study), Access(url), "a-run"):
            assert databases(server) != before
    assert databases(server) == before


def test_privileges_may_come_by_a_role(server: MariadbServer) -> None:
    server._query("CREATE ROLE bench")
    server._query(f"GRANT {', '.join(OwnSysbench.PRIVILEGES)} ON `costof\\_%`.* TO bench")
    role = ("GRANT bench TO {user}", "SET DEFAULT ROLE bench FOR {user}")
    with user(server, *role) as url, open_service(small("mysql-transport"), Access(url), "a-run"):
        pass
    server._query("DROP ROLE bench")


def measure(plan: Plan, access: Access) -> None:
    """All that a run does on its target, in little."""
    with open_service(plan, access, "a-run") as service, Engines(plan, service) as engines:
        service.prepare(plan.arms[0], engines.load)
        assert all(engines.slice(arm, "query", 5).operations == 5 for arm in plan.arms)


def refused(plan: Plan, access: Access) -> CostofError:
    with pytest.raises(CostofError) as error, open_service(plan, access, "a-run"):
        pass
    assert PASSWORD not in str(error.value)
    return error.value


def test_one_database_is_enough_and_stays_where_it_was_there(server: MariadbServer) -> None:
    grant = f"GRANT {', '.join(OwnSysbench.PRIVILEGES)} ON `shop\\_bench`.* TO {{user}}"
    plan = small("mysql-transport")
    with user(server, grant) as url:
        access = Access(url, server.ca_file, database="shop_bench", allow_plain=True)
        assert "which --database names" in str(refused(plan, replace(access, database=None)))
        for made_before in (False, True):
            if made_before:
                server._query("CREATE DATABASE shop_bench")
            before = databases(server)
            measure(plan, access)
            assert databases(server) == before
        assert server._query("SHOW TABLES FROM shop_bench") == ()
        server._query("CREATE TABLE shop_bench.theirs (id INT)")
        assert refused(plan, access).problem is Problem.TARGET_OCCUPIED
        assert server._query("SHOW TABLES FROM shop_bench") == (("theirs",),)
    server._query("DROP DATABASE shop_bench")


def test_a_dry_run_names_the_database_that_a_run_will_use_and_the_grant(tmp_path: Path) -> None:
    """Nobody is asked: nothing listens there."""
    for study, url, grant in (
        (
            "mysql-transport",
            "mysql://u@127.0.0.1:1/",
            "GRANT CREATE, DROP, SELECT, INSERT, INDEX ON `shop\\_bench`.* TO 'u'@'%';",
        ),
        (
            "mongodb-tls",
            "mongodb://u@127.0.0.1:1/",
            '.grantRolesToUser("u", [{"role": "readWrite", "db": "shop_bench"}])',
        ),
    ):
        ask = ["run", study, "--profile", "quick", "--set", "transport=plain,tls", "--dry-run", "--target", url]
        told = costof(*ask, "--database", "shop_bench", cwd=tmp_path).out
        assert "create database shop_bench on" in told
        assert grant in told
        unnamed = [costof(*ask, "--seed", "1", cwd=tmp_path).out for _ in range(2)]
        assert unnamed[0] == unnamed[1]
        assert "create database costof_<run>_<random>" in unnamed[0]


@pytest.mark.parametrize("name", ["", "mysql", "Admin", "a b", "a`b", "1st", "a" * 64, "costof-run", "näme"])
def test_a_name_that_cannot_be_is_refused(name: str) -> None:
    for study, url in (("mysql-transport", "mysql://u@h/"), ("mongodb-tls", "mongodb://u@h/")):
        plan = plan_of(study, "quick", "transport=plain,tls", target="shown")
        with pytest.raises(CostofError) as refused:
            open_service(plan, Access(url, database=name), "a-run")
        assert refused.value.problem is Problem.BAD_DATABASE


@pytest.fixture(scope="module")
def mongod(standalone: Callable[..., Standalone]) -> Standalone:
    return standalone(60, names=None)


@contextmanager
def mongodb_user(server: Standalone, *roles: dict[str, str]) -> Iterator[str]:
    with server.client() as client:
        client.admin.command("createUser", USER, pwd=PASSWORD, roles=list(roles))
        yield f"mongodb://{USER}:{PASSWORD}@{server.address}/"
        client.admin.command("dropUser", USER)


def mongodb_plan() -> Plan:
    settings = ["transport=plain,tls", "records=50"]
    return plan_of("mongodb-tls", "quick", *settings, target="shown")


def test_read_write_on_one_mongodb_database_is_enough(mongod: Standalone, tmp_path: Path) -> None:
    plan = mongodb_plan()
    with mongod.client() as client, mongodb_user(mongod, {"role": "readWrite", "db": "shop_bench"}) as url:
        access = Access(url, mongod.ca_file, database="shop_bench", allow_plain=True)
        before = set(client.list_database_names())
        told = str(refused(plan, replace(access, database=None)))
        assert "readWriteAnyDatabase" in told
        assert "which --database names" in told
        measure(plan, access)
        assert set(client.list_database_names()) == before
        client["shop_bench"]["theirs"].insert_one({})
        assert refused(plan, access).problem is Problem.TARGET_OCCUPIED
        assert client["shop_bench"].list_collection_names() == ["theirs"]
        client.drop_database("shop_bench")
        # And what a killed run leaves can be found and removed by the same account.
        with open_service(plan, access, "a-run") as service:
            service.prepare(plan.arms[0], lambda arm: None)
            assert "its run goes on" in costof("clean", "--target", url, "--yes", cwd=tmp_path).out


def test_what_a_mongodb_account_may_not_is_told_before_anything_is_written(mongod: Standalone) -> None:
    plan = mongodb_plan()
    with mongod.client() as client, mongodb_user(mongod, {"role": "read", "db": "shop_bench"}) as url:
        access = Access(url, mongod.ca_file, database="shop_bench", allow_plain=True)
        before = set(client.list_database_names())
        told = str(refused(plan, access))
        assert "may not insert, update, remove, createCollection, dropCollection in shop_bench" in told
        assert set(client.list_database_names()) == before
        line = r'grantRolesToUser\("(?P<user>[^"]*)", \[\{"role": "(?P<role>\w+)", "db": "(?P<db>\w+)"'
        grant = re.search(line, told)
        assert grant is not None
        client.admin.command("grantRolesToUser", grant["user"], roles=[{"role": grant["role"], "db": grant["db"]}])
        measure(plan, access)


def test_a_mongodb_action_granted_on_other_collections_is_not_ours(mongod: Standalone) -> None:
    actions = ["find", "insert", "update", "remove", "createCollection", "listCollections", "dropCollection"]
    with mongod.client() as client:
        for collection, enough in (("others", False), ("", True)):
            privilege = {"resource": {"db": "shop_bench", "collection": collection}, "actions": actions}
            listing = {"resource": {"db": "shop_bench", "collection": ""}, "actions": ["listCollections"]}
            client.admin.command("createRole", "bench", privileges=[privilege, listing], roles=[])
            with mongodb_user(mongod, {"role": "bench", "db": "admin"}) as url:
                plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
                service = open_service(plan, Access(url, database="shop_bench"), "a-run")
                if enough:
                    with service:
                        pass
                else:
                    with pytest.raises(CostofError, match="may not find") as refused, service:
                        pass
                    assert refused.value.problem is Problem.PRIVILEGES_MISSING
            client.admin.command("dropRole", "bench")


def test_a_server_that_asks_nobody_who_he_is_lets_everybody(lab: Lab) -> None:
    from costof.programs.mongod.binary import find_mongod

    host, folder = lab.address(61), lab.folder / "open-mongod"
    folder.mkdir()
    argv = [str(find_mongod()), "--dbpath", str(folder), "--bind_ip", host, "--port", "27017"]
    lab.spawn("open-mongod", "server", [*argv, "--nounixsocket", "--wiredTigerCacheSizeGB", "0.25"])
    client: pymongo.MongoClient[dict[str, object]]
    patience_ms = HANGS_SECONDS * 1000
    with pymongo.MongoClient(host, directConnection=True, serverSelectionTimeoutMS=patience_ms) as client:
        client.admin.command("ping")
        plan = plan_of("mongodb-tls", "quick", "transport=plain,tls", target="shown")
        with open_service(plan, Access(f"mongodb://{host}/"), "a-run") as service:
            service.prepare(plan.arms[0], lambda arm: None)
            assert service.needs() == []
            assert any(name.startswith("costof_") for name in client.list_database_names())
        assert not any(name.startswith("costof_") for name in client.list_database_names())
