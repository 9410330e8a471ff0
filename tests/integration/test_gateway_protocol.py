"""The gateway's checks of the MySQL protocol, in front of a real MariaDB: log-ins, flags, commands and sizes.

All tests share one server and one gateway. After each test, all bytes that its clients of the guarded account have
received are searched for protected values.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, USER, MariadbServer
from tests.gateway.canaries import Canaries
from tests.gateway.shop import approval
from tests.support import raw_mysql as mysql
from tests.support.programs import check_of, eventually, running_mariadb
from tests.support.raw_mysql import Answer, Client

pytestmark = pytest.mark.servers

KEY = "00112233445566778899aabbccddeeff"
SHOP, CATALOGUE, ELSEWHERE = "shop", "catalogue", "elsewhere"
NAMES = (b"Abercrombie", b"Zaphod-the-Secret")
CANARIES = Canaries(NAMES, ())
RULES = f"""
unknown_clients = "ciphertext"
default_role = "plaintext"
[master_keys]
app = "{KEY}"
[[accounts]]
name = "{SHOP}"
role = "ciphertext"
master_key = "app"
[[columns]]
database = "{DATABASE}"
table = "people"
column = "name"
"""
#: The statements that the gateway accepts from the guarded account, which may only send approved statements.
APPROVED = [
    approval("SELECT name FROM people"),
    approval("SELECT HEX(?)", outputs=["plain"]),
    approval("SELECT id FROM people WHERE name = ?", values=["text"]),
    approval("SELECT city FROM elsewhere.people WHERE id = ?"),
    approval("UPDATE people SET city = ? WHERE id = ?"),
]
LIMITED = {"connections_an_address": 3, "statement_bytes": 1000, "long_data_bytes": 100, "prepared_statements": 2}
#: Codes of accepted commands: QUIT, INIT_DB, QUERY, PING, RESET_CONNECTION, and prepared statements without FETCH.
ALLOWED = {0x01, 0x02, 0x03, 0x0E, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1F}
CUT = (
    mysql.COMPRESS,
    mysql.LOCAL_FILES,
    mysql.MULTI_STATEMENTS,
    mysql.SESSION_TRACK,
    mysql.OPTIONAL_METADATA,
    mysql.QUERY_ATTRIBUTES,
)
ALL_NAMES = b"SELECT name FROM people"


@dataclass
class Site:
    server: MariadbServer
    process: GatewayProcess
    address: str
    limited: str
    guarded: list[Client] = field(default_factory=list)

    @property
    def direct(self) -> str:
        return f"{self.server.address}:{self.server.port}"

    def client(self, user: str | bytes = SHOP, address: str | None = None, **settings: Any) -> Client:
        """Connect to the gateway as one of the accounts in its rules.

        At the end of the tests, all bytes that guarded accounts received are searched for protected values. A guarded
        account may only send approved statements.
        """
        name = user if isinstance(user, bytes) else user.encode()
        client = Client(
            address or self.address, name, self.server.password.get_secret_value(), DATABASE.encode(), **settings
        )
        if user != USER and address != self.direct:
            self.guarded.append(client)
        return client

    def refusal(self, user: str | bytes = SHOP, **settings: Any) -> tuple[int, str]:
        """Try to log in, which must fail. Return the code and message of the error."""
        with self.client(user, **settings) as client:
            assert client.refusal is not None
            return client.refusal


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server:
        for user in (SHOP, CATALOGUE):
            server.add_user(f"'{user}'")
        for database in (DATABASE, ELSEWHERE):
            server.ask(f"CREATE DATABASE IF NOT EXISTS {database}")
            server.ask(f"CREATE TABLE {database}.people (id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))")
            server.ask(f"GRANT ALL ON {database}.* TO {SHOP}")
            server.ask(f"GRANT SELECT ON {database}.* TO {CATALOGUE}")
            server.ask(f"USE {database}")
            for place, name in enumerate(NAMES):
                shown = name.decode() if database == DATABASE else "nobody"
                server._query("INSERT INTO people VALUES (%s, %s, DATABASE())", place, shown)
        rules_file = lab.folder / "protocol.toml"
        check = check_of(CATALOGUE, server.password.get_secret_value())
        write_private(rules_file, (RULES + check + "".join(APPROVED)).encode())
        listener = GatewayListener(
            address="127.0.0.1:0", rules_file=rules_file, server=f"{server.address}:{server.port}"
        )
        limited = GatewayListener(
            address="127.0.0.1:0", rules_file=rules_file, server=f"{server.address}:{server.port}", limits=LIMITED
        )
        with GatewayProcess() as process:
            yield Site(server, process, *process.begin([listener, limited]).listeners)


@pytest.fixture(autouse=True)
def nothing_leaks(site: Site) -> Iterator[None]:
    site.guarded.clear()
    yield
    assert not [found for client in site.guarded for found in CANARIES.found(bytes(client.received))]


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    with site.client() as client:
        assert client.refusal is None
        yield client


@pytest.fixture
def hostile_settings(site: Site) -> Iterator[None]:
    """Change settings of the server on which the meaning of statements depends."""
    modes = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,ORACLE,STRICT_TRANS_TABLES"
    before = site.server.ask("SELECT @@GLOBAL.sql_mode")[0][0]
    site.server.ask(f"SET GLOBAL sql_mode = '{modes}'")
    init = "SET character_set_results = utf16, character_set_client = gbk, profiling = 1, sql_auto_is_null = 1"
    site.server.ask(f"SET GLOBAL init_connect = '{init}'")
    yield
    site.server.ask("SET GLOBAL init_connect = ''")
    site.server.ask(f"SET GLOBAL sql_mode = '{before}'")


def refused(answer: Answer, words: str = "") -> bool:
    """Return whether the gateway sent no rows and either closed the connection or reported an error with `words`."""
    gateway_words = ("the gateway", "not approved", "value ")
    message = "" if answer.error is None else answer.error[1]
    return not answer.rows and (answer.over or (any(each in message for each in gateway_words) and words in message))


@pytest.mark.usefixtures("hostile_settings")
def test_gateway_overrides_session_settings_of_the_server(site: Site) -> None:
    with site.client(USER) as plain:
        ((mode,),) = plain.query(b"SELECT @@sql_mode").rows
        assert "ORACLE".encode("utf-16-be") in (mode or b""), "a session without a guard is left alone"
    with site.client() as client:
        for command, body in ((mysql.PING, b""), (mysql.RESET_CONNECTION, b""), (mysql.INIT_DB, DATABASE.encode())):
            assert client.command(command, body).error is None
            settings = client.query(b"SELECT @@sql_mode, @@character_set_results").rows
            # `hostile_settings` has set the sql_mode ORACLE on the server. Only its NO_AUTO_CREATE_USER may remain.
            assert settings == [(b"STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER", b"utf8mb4")]
            # Without ANSI_QUOTES the double-quoted text is a string, not a column name.
            assert client.query(b'SELECT HEX("name\\\\")').rows == [(b"6E616D655C",)]
            assert client.query(ALL_NAMES).is_sealed(0)


def test_session_reset_keeps_the_database_and_drops_prepared_statements(client: Client) -> None:
    number = client.prepare(ALL_NAMES).statement
    assert number is not None
    assert client.command(mysql.INIT_DB, ELSEWHERE.encode()).error is None
    assert client.command(mysql.RESET_CONNECTION).error is None
    assert client.query(b"SELECT DATABASE()").rows == [(b"elsewhere",)]
    assert client.execute(number).error is not None, "what was prepared is forgotten"
    assert client.command(mysql.INIT_DB, b"nowhere").error == (1044, "Access denied to this database")
    assert refused(client.command(mysql.INIT_DB, b"#mysql50#" + DATABASE.encode()), "name of this form")


def test_logins_with_an_unsupported_character_set_or_wrong_credentials_are_rejected(site: Site) -> None:
    for gbk in (28, 87):
        code, words = site.refusal(charset=gbk)
        assert (code, "utf8mb4" in words) == (1045, True)
    # Collations of latin1, utf8mb3 and binary, and the default of MySQL 8's clients.
    for collation in (8, 33, 63, 255):
        with site.client(charset=collation) as client:
            assert client.query(b"SELECT HEX('\xc3\xa9')").rows == [(b"C3A9",)]
    for name in (b"x" * 33, f"'{SHOP}'".encode(), "m\U0001f600ller".encode(), b"sh\xfcp"):
        code, words = site.refusal(name)
        assert (code, "which account" in words) == (1045, True)
    # The error code depends on the authentication plugin that the server picks for an unknown account.
    assert site.refusal("nobody")[0] in (1045, 1698)
    with Client(site.address, SHOP.encode(), "wrong") as wrong:
        assert wrong.refusal == (1045, "Access denied for this account")


@pytest.mark.parametrize("claims", [*CUT, mysql.EVERYTHING], ids=hex)
def test_capability_flags_that_the_gateway_does_not_offer_have_no_effect(site: Site, claims: int) -> None:
    """A client that sets flags that the gateway does not offer is rejected, or the flags have no effect."""
    elsewhere = b"SELECT city FROM elsewhere.people WHERE id = 0"
    with site.client(USER, site.direct, claims=mysql.NO_SCHEMA) as direct:
        assert direct.query(elsewhere).rows == [(b"costof",)], "so the server reads it under this flag"
    with site.client(claims=claims) as client:
        if claims in CUT and claims != mysql.MULTI_STATEMENTS:
            assert not client.offered & claims
        if client.refusal is None:
            assert refused(client.query(b"SELECT 1; SELECT name FROM people"), "")
            assert refused(client.query(b"SELECT 1; SELECT CONCAT(name) FROM people"), "")
            answer = client.query(ALL_NAMES)
            assert answer.over or answer.error or answer.is_sealed(0)
    if claims == mysql.EVERYTHING:
        with site.client(claims=claims) as client:
            assert client.query(elsewhere).rows == [(b"elsewhere",)]
            client.send(mysql.INIT_DB, ELSEWHERE.encode())
            assert len(client.packet()) == 7, "no session's state behind the OK"


def test_gateway_rejects_protocol_commands_that_are_not_allowed(site: Site, client: Client) -> None:
    bodies = {
        mysql.FIELD_LIST: b"people\0",
        mysql.CHANGE_USER: USER.encode() + b"\0\0" + DATABASE.encode() + b"\0-\0mysql_native_password\0",
    }
    for command in sorted(set(range(256)) - ALLOWED):
        for body in {b"", bytes(4), bodies.get(command, b"")}:
            assert refused(client.command(command, body)), hex(command)
    assert refused(client.query(b"SELECT 1; SELECT name FROM people"))
    assert refused(client.query(b"(" * 100_000))
    assert client.command(mysql.PING).error is None


def test_gateway_enforces_its_configured_limits(site: Site) -> None:
    before = site.process.counters().listeners[site.limited].errors
    with contextlib.ExitStack() as stack:
        guarded, other, plain = (stack.enter_context(site.client(user, site.limited)) for user in (SHOP, SHOP, USER))
        code, words = site.refusal(address=site.limited)
        assert (code, "3 connections from one address" in words) == (1040, True)
        with site.client(address=site.limited, source="127.0.0.2") as elsewhere:
            assert elsewhere.command(mysql.PING).error is None
        long = b"SELECT '" + b"x" * 1000 + b"'"
        assert len(plain.query(long).rows) == 1
        assert refused(guarded.query(long), "at most 1000 bytes")
        for _ in range(2):
            assert guarded.prepare(b"SELECT 1").error is None
        assert refused(guarded.prepare(b"SELECT 1"), "2 prepared statements")
        # SEND_LONG_DATA has no answer, so the answer to the next command reports the error.
        number = other.prepare(b"UPDATE people SET city = ? WHERE id = 0").statement
        assert number is not None
        for _ in range(2):
            other.send(mysql.SEND_LONG_DATA, struct.pack("<IH", number, 0) + b"x" * 60)
        assert refused(other.execute(number, b"\0\x01\xfe\0"), "at most 100 bytes")
    assert site.process.counters().listeners[site.limited].errors == before + 2

    def free() -> bool:
        with site.client(address=site.limited) as client:
            return client.refusal is None

    eventually("a place", free)
