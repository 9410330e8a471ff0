"""Clients as people use them, through the gateway: the round trip of an ordinary application, with each role.

What this machine lacks for a client is said by the test that is left out.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
import sqlalchemy

from costof import encrypted
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.server import DATABASE, MariadbServer
from tests.clients import command_line, database, objects, programs
from tests.clients.facts import PROTECTED, TABLES, check
from tests.clients.programs import Absent
from tests.support.programs import running_mariadb

pytestmark = pytest.mark.servers

KEY = "00112233445566778899aabbccddeeff"
# Accounts, by what they are to see.
ACCOUNTS = {"plain": "shop", "sealed": "stranger"}
CATALOGUE = "catalogue"


@dataclass(frozen=True)
class Login:
    """An account's way through the gateway."""

    address: str
    user: str
    password: str = field(repr=False)

    @property
    def sealed(self) -> bool:
        return self.user == ACCOUNTS["sealed"]

    @property
    def settings(self) -> dict[str, Any]:
        host, port = self.address.split(":")
        return {"host": host, "port": int(port), "user": self.user, "password": self.password, "database": DATABASE}


def rules(password: str) -> str:
    columns = "".join(
        f'[[columns]]\ndatabase = "{DATABASE}"\ntable = "{table}"\ncolumn = "{column}"\n'
        for table, names in PROTECTED.items()
        for column in names
    )
    return f"""
unknown_clients = "ciphertext"
[master_keys]
app = "{KEY}"
[[accounts]]
name = "{ACCOUNTS["plain"]}"
role = "plaintext"
[[accounts]]
name = "{ACCOUNTS["sealed"]}"
role = "ciphertext"
master_key = "app"
[check]
username = "{CATALOGUE}"
password = "{password}"
{columns}"""


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with running_mariadb(lab) as server:
        server.ask(f"USE {DATABASE}")
        for statement in TABLES.split(";"):
            server.ask(statement)
        for user in (*ACCOUNTS.values(), CATALOGUE):
            server.add_user(user)
        yield server


@pytest.fixture(scope="module")
def gateway(lab: Lab, server: MariadbServer) -> Iterator[str]:
    """Its address."""
    rules_file = lab.folder / "rules.toml"
    write_private(rules_file, rules(server.password.get_secret_value()).encode())
    with GatewayProcess() as process:
        ready = process.begin(
            [GatewayListener(address="127.0.0.1:0", rules_file=rules_file, server=f"{server.address}:{server.port}")]
        )
        assert not ready.warnings
        yield ready.listeners[0]


@pytest.fixture(params=ACCOUNTS)
def login(request: pytest.FixtureRequest, gateway: str, server: MariadbServer) -> Login:
    return Login(gateway, ACCOUNTS[request.param], server.password.get_secret_value())


@pytest.fixture(scope="module")
def everybody(gateway: str, server: MariadbServer) -> list[Login]:
    return [Login(gateway, user, server.password.get_secret_value()) for user in ACCOUNTS.values()]


@contextlib.contextmanager
def present() -> Iterator[None]:
    """What is missing for a client leaves its tests out."""
    try:
        yield
    except Absent as absent:
        pytest.skip(str(absent))


def connector(login: Login, *, pure: bool) -> Any:
    if not pure:
        pytest.importorskip("_mysql_connector", exc_type=ImportError)
    return mysql.connector.connect(**login.settings, use_pure=pure, ssl_disabled=True)


def decrypting(login: Login) -> encrypted.Connection:
    return encrypted.connect(master_keys={"app": KEY}, **login.settings, ssl_disabled=True)


# Those of the database API: what connects, and how a cursor is made.
CONNECTIONS: dict[str, tuple[Callable[[Login], Any], dict[str, Any]]] = {
    "pymysql": (lambda login: pymysql.connect(**login.settings, ssl_disabled=True), {}),
    "connector": (functools.partial(connector, pure=True), {}),
    "connector-prepared": (functools.partial(connector, pure=True), {"prepared": True}),
    # Not prepared too: 9.4's extension then spoils its process's memory, before a server alone as well.
    "connector-c": (functools.partial(connector, pure=False), {}),
}
ENGINES: dict[str, str] = {
    "pymysql": "mysql+pymysql",
    "connector": "mysql+mysqlconnector",
}


@pytest.mark.parametrize("client", CONNECTIONS)
def test_a_driver_of_python(client: str, login: Login) -> None:
    connect, cursor = CONNECTIONS[client]
    owner = f"{client}-{login.user}"
    connection = connect(login)
    try:
        check(database.round_trip(connection, owner, **cursor), owner, sealed=login.sealed)
    finally:
        connection.close()


@pytest.mark.parametrize("client", ENGINES)
def test_sqlalchemy(client: str, login: Login) -> None:
    settings = {**login.settings, "username": login.user}
    del settings["user"]
    url = sqlalchemy.URL.create(ENGINES[client], **settings)
    engine = sqlalchemy.create_engine(
        url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args={"ssl_disabled": True}
    )
    owner = f"alchemy-{client}-{login.user}"
    try:
        check(objects.round_trip(engine, owner), owner, sealed=login.sealed)
    finally:
        engine.dispose()


def test_what_decrypts_sees_all(everybody: list[Login]) -> None:
    (login,) = (login for login in everybody if login.sealed)
    with decrypting(login) as connection:
        check(database.round_trip(connection, "decrypting"), "decrypting", sealed=False)
    engine = sqlalchemy.create_engine("mysql+pymysql://", creator=lambda: decrypting(login))
    try:
        check(objects.round_trip(engine, "alchemy-decrypting"), "alchemy-decrypting", sealed=False)
    finally:
        engine.dispose()


def test_mariadbs_client(login: Login, tmp_path: Path) -> None:
    owner = f"command-line-{login.user}"
    with present():
        lines = command_line.round_trip(login.address, login.user, login.password, DATABASE, owner, tmp_path)
    check(lines, owner, sealed=login.sealed)


def test_mariadbs_client_at_a_terminal(login: Login, tmp_path: Path) -> None:
    """It asks for every table's columns at its start, and for the server's name."""
    typed = f"use {DATABASE}\nshow tables;\nselect count(*) as seen from cities where name = 'nobody';"
    with present():
        screen = command_line.at_a_terminal(login.address, login.user, login.password, DATABASE, typed, tmp_path)
    assert "Database changed" in screen
    for table in ("cities", "people", "visits"):
        assert f"| {table} " in screen, screen
    assert "| seen |" in screen
    assert "ERROR" not in screen


GO = {"prepared": "", "interpolated": "&interpolateParams=true"}


@pytest.fixture(scope="module")
def told_by_go(everybody: list[Login]) -> dict[str, list[str]]:
    """All its round trips in one process, by client and account."""
    trips = []
    for login in everybody:
        for name, option in GO.items():
            dsn = f"{login.user}:{login.password}@tcp({login.address})/{DATABASE}?parseTime=true{option}"
            trips.append(
                (f"{name} {login.user}", dsn, f"go-{name}-{login.user}", "sealed" if login.sealed else "plain")
            )
    with present():
        return programs.run(programs.go(), trips)


@pytest.mark.parametrize("statements", GO)
def test_gos_driver(statements: str, login: Login, told_by_go: dict[str, list[str]]) -> None:
    check(told_by_go[f"{statements} {login.user}"], f"go-{statements}-{login.user}", sealed=login.sealed)


JDBC = {"mysql": "sslMode=DISABLED", "mariadb": "sslMode=disable"}
JDBC_STATEMENTS = {"text": "", "prepared": "&useServerPrepStmts=true"}


@pytest.fixture(scope="module")
def told_by_java(everybody: list[Login]) -> dict[str, list[str]]:
    """Likewise."""
    trips = []
    for login in everybody:
        for driver, tls in JDBC.items():
            for name, option in JDBC_STATEMENTS.items():
                url = f"jdbc:{driver}://{login.address}/{DATABASE}?{tls}{option}"
                owner = f"{driver}-{name}-{login.user}"
                kind = "sealed" if login.sealed else "plain"
                trips.append((owner, url, login.user, login.password, owner, kind))
    with present():
        return programs.run(programs.java(), trips)


@pytest.mark.parametrize("statements", JDBC_STATEMENTS)
@pytest.mark.parametrize("driver", JDBC)
def test_hibernate(driver: str, statements: str, login: Login, told_by_java: dict[str, list[str]]) -> None:
    owner = f"{driver}-{statements}-{login.user}"
    check(told_by_java[owner], owner, sealed=login.sealed)
