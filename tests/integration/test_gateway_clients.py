"""Common clients through the gateway, which first learns a client's statements and then accepts only these.

A test is skipped, with the reason, if this machine lacks its client.
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

from costof import encrypted
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayLearning, GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, MariadbServer
from tests.clients import database, programs
from tests.clients.facts import PROTECTED, TABLES, check
from tests.clients.programs import Absent
from tests.support.programs import check_of, running_mariadb

pytestmark = pytest.mark.servers

KEY = "00112233445566778899aabbccddeeff"
# From the account SHOP the gateway accepts only approved statements, except while it learns statements. The account
# CATALOGUE reads which columns exist.
SHOP, CATALOGUE = "shop", "catalogue"


@dataclass(frozen=True)
class Login:
    """The log-in of a client at an address of the gateway. If `sealed`, clients there get encrypted values."""

    address: str
    password: str = field(repr=False)
    sealed: bool

    @property
    def settings(self) -> dict[str, Any]:
        host, port = self.address.split(":")
        return {"host": host, "port": int(port), "user": SHOP, "password": self.password, "database": DATABASE}


def rules(password: str) -> str:
    columns = "".join(
        f'[[columns]]\ndatabase = "{DATABASE}"\ntable = "{table}"\ncolumn = "{column}"\n'
        for table, names in PROTECTED.items()
        for column in names
    )
    account = f'[[accounts]]\nname = "{SHOP}"\nrole = "ciphertext"\nmaster_key = "app"\n'
    keys = f'unknown_clients = "ciphertext"\n[master_keys]\napp = "{KEY}"\n'
    return keys + account + check_of(CATALOGUE, password) + columns


@dataclass
class Site:
    process: GatewayProcess
    rules: str
    rules_file: Path
    learned: Path
    learning: Login
    guarded: Login

    def approve(self, statements: str) -> None:
        write_private(self.rules_file, (self.rules + statements).encode())
        assert set(self.process.reload().values()) == {None}

    def reviewed(self) -> str:
        """Return the learned statements with a reviewer's change: computed outputs may be plaintext."""
        return self.learned.read_text().replace('"encrypt"', '"plain"')

    def assert_round_trip(self, trip: Callable[[Login, str], list[str]], client: str) -> None:
        """Check that the gateway rejects a client's statements until it has learned them.

        The error message advises to let the gateway learn. `trip` runs the client, with two arguments: a log-in, and a
        name that all rows of the client contain.
        """
        self.approve("")
        error = outcome(lambda: trip(self.guarded, f"{client}-early"))
        assert "is not approved for this account" in error, error
        assert "costof gateway --learn" in error, error
        check(trip(self.learning, client), client, sealed=False)
        self.approve(self.reviewed())
        check(trip(self.guarded, client), client, sealed=True)
        error = outcome(
            lambda: database.round_trip(Unlearned(pymysql.connect(**self.guarded.settings, ssl_disabled=True)), client)
        )
        assert "is not approved for this account: select" in error, error


class Unlearned:
    """A connection whose `ping` sends a statement that the gateway has not learned."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def ping(self) -> None:
        with self._inner.cursor() as cursor:
            cursor.execute("SELECT name, city FROM people WHERE salary > 1000")


def outcome(work: Callable[[], list[str]]) -> str:
    try:
        return "\n".join(work())
    except Exception as error:
        return str(error)


@pytest.fixture(scope="module")
def server(lab: Lab) -> Iterator[MariadbServer]:
    with running_mariadb(lab) as server:
        server.ask(f"USE {DATABASE}")
        for statement in TABLES.split(";"):
            server.ask(statement)
        for user in (SHOP, CATALOGUE):
            server.add_user(user)
        yield server


@pytest.fixture(scope="module")
def site(lab: Lab, server: MariadbServer) -> Iterator[Site]:
    rules_file, learned = lab.folder / "rules.toml", lab.folder / "learned.toml"
    password = server.password.get_secret_value()
    write_private(rules_file, rules(password).encode())
    back = f"{server.address}:{server.port}"
    guarded = GatewayListener(address="127.0.0.1:0", rules_file=rules_file, server=back)
    learning = guarded.model_copy(update={"learn": GatewayLearning(file=learned, accounts=[SHOP])})
    with GatewayProcess() as process:
        addresses = process.begin([learning, guarded]).listeners
        logins = [Login(address, password, sealed) for address, sealed in zip(addresses, (False, True), strict=True)]
        yield Site(process, rules(password), rules_file, learned, *logins)


@contextlib.contextmanager
def present() -> Iterator[None]:
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


# For each driver of the Python database API: a function that connects, and arguments for a cursor.
CONNECTIONS: dict[str, tuple[Callable[[Login], Any], dict[str, Any]]] = {
    "pymysql": (lambda login: pymysql.connect(**login.settings, ssl_disabled=True), {}),
    "connector": (functools.partial(connector, pure=True), {}),
    "connector-prepared": (functools.partial(connector, pure=True), {"prepared": True}),
    # No case with prepared statements: with them, version 9.4 of the C extension corrupts memory, even without a
    # gateway.
    "connector-c": (functools.partial(connector, pure=False), {}),
}


@pytest.mark.parametrize("client", CONNECTIONS)
def test_statements_of_python_drivers_are_rejected_until_approved(client: str, site: Site) -> None:
    connect, cursor = CONNECTIONS[client]

    def trip(login: Login, owner: str) -> list[str]:
        connection = connect(login)
        try:
            return database.round_trip(connection, owner, **cursor)
        finally:
            connection.close()

    site.assert_round_trip(trip, client)


def test_statements_of_sqlalchemy_are_rejected_until_approved(site: Site) -> None:
    # Imported here, because the import takes half a second in each process of the tests.
    import sqlalchemy

    from tests.clients import objects

    def trip(login: Login, owner: str) -> list[str]:
        settings = {**login.settings, "username": SHOP}
        del settings["user"]
        engine = sqlalchemy.create_engine(
            sqlalchemy.URL.create("mysql+pymysql", **settings),
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
            connect_args={"ssl_disabled": True},
        )
        try:
            return objects.round_trip(engine, owner)
        finally:
            engine.dispose()

    site.assert_round_trip(trip, "alchemy")


def test_decrypting_driver_reads_plaintext(site: Site) -> None:
    with contextlib.closing(connector(site.learning, pure=True)) as connection:
        database.round_trip(connection, "decrypting")
    with contextlib.closing(pymysql.connect(**site.learning.settings, ssl_disabled=True)) as connection:
        database.round_trip(connection, "decrypting")
    site.approve(site.reviewed())
    with decrypting(site.guarded) as connection:
        check(database.round_trip(connection, "decrypting"), "decrypting", sealed=False)


GO = {"prepared": "", "interpolated": "&interpolateParams=true"}


@pytest.mark.slow
@pytest.mark.parametrize("statements", GO)
def test_statements_of_the_go_driver_are_rejected_until_approved(statements: str, site: Site) -> None:
    def trip(login: Login, owner: str) -> list[str]:
        dsn = f"{SHOP}:{login.password}@tcp({login.address})/{DATABASE}?parseTime=true{GO[statements]}"
        arguments = (owner, dsn, owner, "sealed" if login.sealed else "plain")
        return programs.run(programs.go(), [arguments])[owner]

    with present():
        programs.go()
    site.assert_round_trip(trip, f"go-{statements}")


JDBC = {"text": "", "prepared": "&useServerPrepStmts=true"}


@pytest.mark.slow
@pytest.mark.parametrize("statements", JDBC)
def test_statements_of_hibernate_are_rejected_until_approved(statements: str, site: Site) -> None:
    def trip(login: Login, owner: str) -> list[str]:
        url = f"jdbc:mysql://{login.address}/{DATABASE}?sslMode=DISABLED{JDBC[statements]}"
        # The gateway must learn the statements of the application's two entity classes, for plain and for encrypted
        # columns.
        kinds = ("sealed",) if login.sealed else ("plain", "sealed")
        arguments = [(kind, url, SHOP, login.password, owner, kind) for kind in kinds]
        return programs.run(programs.java(), arguments)[kinds[0]]

    with present():
        programs.java()
    site.assert_round_trip(trip, f"jdbc-{statements}")
