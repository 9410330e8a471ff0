"""What a client may say to the gateway before a real MariaDB, whatever drivers say: logins, flags, commands, sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from costof import encrypted
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.server import DATABASE, USER, MariadbServer
from tests.integration.conftest import eventually
from tests.raw_mysql import EVERYTHING, NO_SCHEMA, USUAL, RawClient, RefusedError
from tests.support.programs import check_of, running_mariadb

pytestmark = pytest.mark.servers

KEY = "00112233445566778899aabbccddeeff"
SHOP, LONG, CATALOGUE, ELSEWHERE = "shop", "long-" * 16, "catalogue", "elsewhere"
NAMES = ("Abercrombie", "Zaphod-the-Secret")
RULES = f"""
unknown_clients = "ciphertext"
default_role = "plaintext"
[master_keys]
app = "{KEY}"
[[accounts]]
name = "{SHOP}"
role = "ciphertext"
master_key = "app"
[[accounts]]
name = "{LONG}"
role = "opaque"
[[columns]]
database = "{DATABASE}"
table = "people"
column = "name"
"""
LIMITED = {"connections_an_address": 3, "statement_bytes": 1000, "long_data_bytes": 100, "prepared_statements": 2}
QUIT, INIT_DB, QUERY, STATISTICS, PING, RESET = b"\x01", b"\x02", b"\x03", b"\x09", b"\x0e", b"\x1f"
EXECUTE, SEND_LONG_DATA, STMT_RESET = b"\x17", b"\x18", b"\x1a"
ALLOWED = {0x01, 0x02, 0x03, 0x09, 0x0C, 0x0E, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1F}
MEBIBYTE = 1 << 20


@dataclass
class Site:
    server: MariadbServer
    process: GatewayProcess
    address: str
    limited: str

    def raw(self, user: str | bytes = SHOP, address: str | None = None, **settings: Any) -> RawClient:
        name = user if isinstance(user, bytes) else user.encode()
        return RawClient(address or self.address, name, self.server.password, **{"database": DATABASE, **settings})

    def decrypting(self) -> encrypted.Connection:
        host, port = self.address.split(":")
        return encrypted.connect(
            master_keys={"app": KEY}, host=host, port=int(port), user=SHOP, password=self.server.password,
            database=DATABASE, ssl_disabled=True, read_timeout=300,
        )  # fmt: skip

    def refusal(self, user: str | bytes, **settings: Any) -> tuple[int, str]:
        with pytest.raises(RefusedError) as raised:
            self.raw(user, **settings)
        return raised.value.code, raised.value.words


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server:
        for user in (SHOP, LONG, CATALOGUE):
            server.add_user(f"'{user}'")
        for database in (DATABASE, ELSEWHERE):
            server.ask(f"CREATE DATABASE IF NOT EXISTS {database}")
            server.ask(f"CREATE TABLE {database}.people (id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))")
            server.ask(f"GRANT ALL ON {database}.* TO {SHOP}")
            server.ask(f"GRANT SELECT ON {database}.* TO {CATALOGUE}")
            server.ask(f"USE {database}")
            for place, name in enumerate(NAMES):
                shown = name if database == DATABASE else "nobody"
                server._query("INSERT INTO people VALUES (%s, %s, DATABASE())", place, shown)
        rules_file = lab.folder / "protocol.toml"
        write_private(rules_file, (RULES + check_of(CATALOGUE, server.password)).encode())
        endpoint = f"{server.address}:{server.port}"
        with GatewayProcess() as process:
            ready = process.begin(
                [
                    GatewayListener("127.0.0.1", 0, rules_file, endpoint),
                    GatewayListener("127.0.0.1", 0, rules_file, endpoint, limits=LIMITED),
                ]
            )
            yield Site(server, process, *ready.listeners)


@pytest.fixture
def hostile_settings(site: Site) -> Iterator[None]:
    """A server under whose own settings a statement reads otherwise."""
    modes = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE,ORACLE,STRICT_TRANS_TABLES"
    before = site.server.ask("SELECT @@GLOBAL.sql_mode")[0][0]
    site.server.ask(f"SET GLOBAL sql_mode = '{modes}'")
    init = "SET character_set_results = utf16, character_set_client = gbk, profiling = 1, sql_auto_is_null = 1"
    site.server.ask(f"SET GLOBAL init_connect = '{init}'")
    yield
    site.server.ask("SET GLOBAL init_connect = ''")
    site.server.ask(f"SET GLOBAL sql_mode = '{before}'")


def shows(client: RawClient) -> bool:
    return any(name.encode() in client.received for name in NAMES)


@pytest.mark.usefixtures("hostile_settings")
def test_a_session_is_what_it_must_be_whatever_the_server_makes_of_it(site: Site) -> None:
    with site.raw(USER) as plain:
        (row,) = plain.rows(QUERY + b"SELECT @@sql_mode")
        assert "ORACLE".encode("utf-16-be") in row, "a session without a guard is left alone"
    settings = "SELECT @@sql_mode, @@character_set_results, @@sql_auto_is_null"
    for first in (b"", RESET):
        with site.raw() as client:
            if first:
                assert client.checked(first)[0] == 0
            (row,) = client.rows(QUERY + settings.encode())
            assert row == b"\x27STRICT_TRANS_TABLES,NO_AUTO_CREATE_USER\x07utf8mb4\x010", "ORACLE brings the second"
    with site.decrypting() as connection, connection.cursor() as cursor:
        # A constant, and no name.
        cursor.execute('SELECT "name" FROM people WHERE id = 0')
        assert cursor.fetchall() == (("name",),)


def test_a_session_begins_anew_in_the_database_that_the_server_says(site: Site) -> None:
    with site.raw() as client:
        assert client.checked(INIT_DB + ELSEWHERE.encode())[0] == 0
        client.checked(RESET)
        assert client.rows(QUERY + b"SELECT DATABASE()") == [b"\x09elsewhere"]
        with pytest.raises(RefusedError, match="Access denied to this database"):
            client.checked(INIT_DB + b"nowhere")
        with pytest.raises(RefusedError, match="name of this form"):
            client.checked(INIT_DB + b"#mysql50#" + DATABASE.encode())


def test_names_and_character_sets_that_a_server_would_read_otherwise_are_refused(site: Site) -> None:
    with site.raw(LONG) as client:
        client.rows(QUERY + b"SELECT name FROM people")
        assert not shows(client)
    for name in (f"{LONG}x".encode(), "m\U0001f600ller".encode(), b"sh\xfcp", b"\xff"):
        code, words = site.refusal(name)
        assert (code, "which account" in words) == (1045, True), name
    for gbk in (28, 87):
        code, words = site.refusal(SHOP, collation=gbk)
        assert (code, "utf8mb4" in words) == (1045, True)
    # latin1, utf8mb3, binary, and what MySQL 8's clients say.
    for collation in (8, 33, 63, 255):
        with site.raw(collation=collation) as client:
            assert client.rows(QUERY + b"SELECT '\xc3\xa9' = CONVERT(0xC3A9 USING utf8mb4)") == [b"\x011"]
    with site.raw(f"'{SHOP}'") as quoted:
        quoted.rows(QUERY + b"SELECT name FROM people")
        assert not shows(quoted)
    # Which of them depends on the plugin that the server pretends an unknown account to have.
    assert site.refusal("nobody")[0] in (1045, 1698)
    with pytest.raises(RefusedError) as raised:
        RawClient(site.address, SHOP.encode(), "wrong")
    assert raised.value == RefusedError(1045, "Access denied for this account")


def test_what_a_client_claims_changes_no_statement(site: Site) -> None:
    elsewhere = b"SELECT city FROM elsewhere.people WHERE id = 0"
    direct = f"{site.server.address}:{site.server.port}"
    with site.raw(address=direct, capabilities=USUAL | NO_SCHEMA) as client:
        assert client.rows(QUERY + elsewhere) == [b"\x06costof"], "so the server reads it under this flag"
    with site.raw(capabilities=EVERYTHING) as client:
        assert client.rows(QUERY + elsewhere) == [b"\x09elsewhere"]
        assert len(client.checked(INIT_DB + ELSEWHERE.encode())) == 7, "no session's state behind the OK"
        with pytest.raises(RefusedError):
            client.checked(QUERY + b"SELECT 1; SELECT name FROM people")
        client.rows(QUERY + b"SELECT name FROM costof.people")
        assert not shows(client)


def test_commands_without_a_place_in_the_list_are_refused(site: Site) -> None:
    with site.raw() as client:
        for command in set(range(256)) - ALLOWED:
            with pytest.raises(RefusedError):
                client.checked(bytes([command, 0, 0, 0, 0]))
        with pytest.raises(RefusedError, match="second statement"):
            client.checked(b"\x1b\0\0")
        assert client.checked(b"\x1b\x01\0")[0] in (0, 0xFE)
        with pytest.raises(RefusedError):
            client.checked(QUERY + b"SELECT 1; SELECT name FROM people")
        client.send(STATISTICS)
        assert client.packet().endswith(b"no statistics")
        assert client.checked(PING)[0] == 0


def test_prepared_statements_are_sealed_by_either_of_their_numbers(site: Site) -> None:
    with site.raw() as client:
        number = client.prepare("SELECT name FROM people")
        for asked in (number, 0xFFFFFFFF):
            rows = client.rows(EXECUTE + asked.to_bytes(4, "little") + b"\0\x01\0\0\0")
            assert [len(row) for row in rows] == [2 + 1 + 29 + len(name) for name in NAMES]
        with pytest.raises(RefusedError, match="cursor"):
            client.checked(EXECUTE + number.to_bytes(4, "little") + b"\x01\x01\0\0\0")
        assert not shows(client)


def test_new_types_of_parameters_are_refused_however_they_are_announced(site: Site) -> None:
    """MariaDB knows 1 alone, MySQL takes any byte but 0. A name that is compared with a number tells how it begins."""
    statement, no_nulls = "SELECT id FROM people WHERE name = ?", b"\0"
    text, number = b"\xfe\0\x0bAbercrombie", b"\x08\0" + bytes(8)

    def execution(prepared: int, types: bytes) -> bytes:
        return EXECUTE + prepared.to_bytes(4, "little") + b"\0\x01\0\0\0" + no_nulls + types

    with site.raw(USER, f"{site.server.address}:{site.server.port}") as direct:
        prepared = direct.prepare(statement)
        assert len(direct.rows(execution(prepared, b"\x01" + text))) == 1
        assert len(direct.rows(execution(prepared, b"\x01" + number))) == len(NAMES)
    with site.raw() as client:
        prepared = client.prepare(statement)
        assert len(client.rows(execution(prepared, b"\x01" + text))) == 1
        for announced in (b"\x01", b"\x02", b"\xff"):
            with pytest.raises(RefusedError, match="parameter of another type"):
                client.rows(execution(prepared, announced + number))
        assert not shows(client)


def test_what_is_too_large_is_refused_and_the_session_goes_on(site: Site) -> None:
    with site.raw() as client:
        for statement in (b"(" * 100_000, b"SELECT " + b"NOT " * 100_000 + b"1"):
            with pytest.raises(RefusedError):
                client.checked(QUERY + statement)
        with pytest.raises(RefusedError, match="at most 1048576 bytes"):
            client.checked(QUERY + b"SELECT id FROM people WHERE id IN (" + b"1," * 1_000_000 + b"1)")
        # Its first thousands byte by byte; what is too long is not kept, however it comes.
        whole = b"\xff\xff\xff\0" + QUERY + b"SELECT " + b" " * (16 * MEBIBYTE - 9) + b"\x01\0\0\x01" + b"1"
        for at in range(2000):
            client.send_bytes(whole[at : at + 1])
        client.send_bytes(whole[2000:])
        assert client.packet()[1:3] == (1153).to_bytes(2, "little")
        for _ in range(1024):
            client.prepare("SELECT 1")
        with pytest.raises(RefusedError, match="1024 prepared statements"):
            client.prepare("SELECT 1")
        assert client.checked(PING)[0] == 0


def test_limits_are_the_plans(site: Site) -> None:
    before = site.process.counters().listeners[site.limited].errors
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(site.raw(user, site.limited)) for user in (SHOP, SHOP, USER)]
        code, words = site.refusal(SHOP, address=site.limited)
        assert (code, "3 connections of one address" in words) == (1040, True)
        with site.raw(address=site.limited, source="127.0.0.2") as other:
            assert other.checked(PING)[0] == 0
        guarded, _, plain = clients
        long = QUERY + b"SELECT '" + b"x" * 1000 + b"'"
        assert len(plain.rows(long)) == 1
        with pytest.raises(RefusedError, match="at most 1000 bytes"):
            guarded.checked(long)
        number = guarded.prepare("UPDATE people SET city = ? WHERE id = 0").to_bytes(4, "little")
        for _ in range(2):
            guarded.send(SEND_LONG_DATA + number + b"\0\0" + b"x" * 60)
        with pytest.raises(RefusedError, match="at most 100 bytes"):
            guarded.checked(EXECUTE + number + b"\0\x01\0\0\0\0\x01\xfe\0")
        assert guarded.checked(STMT_RESET + number)[0] == 0
        guarded.prepare("SELECT 1")
        with pytest.raises(RefusedError, match="2 prepared statements"):
            guarded.prepare("SELECT 1")
    assert site.process.counters().listeners[site.limited].errors == before + 1

    def free() -> bool:
        try:
            with site.raw(address=site.limited):
                return True
        except RefusedError:
            return False

    eventually("a place", free)
