"""Attacks by the protocol itself: commands, capabilities, logins, and what is too much of something (98 to 106)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.programs.gateway import GatewayListener, GatewayProcess
from tests.gateway import site as sites
from tests.gateway.canaries import Canaries
from tests.gateway.corpus import NAMES, ROWS, SALARIES
from tests.gateway.site import ACCOUNTS, SHOP, Site
from tests.gateway.wire import INIT_DB, RESET_CONNECTION, Client
from tests.support.programs import running_mariadb

pytestmark = pytest.mark.servers

CANARIES = Canaries(NAMES, SALARIES)
LAST_PREPARED = 0xFFFF_FFFF
FIELD_LIST, CHANGE_USER, STMT_SEND_LONG_DATA, SET_OPTION, FETCH = 0x04, 0x11, 0x18, 0x1B, 0x1C
# INIT_DB, QUERY, STATISTICS, PROCESS_KILL, PING, and those of prepared statements but FETCH; QUIT.
ALLOWED = {0x01, 0x02, 0x03, 0x09, 0x0C, 0x0E, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x1B, 0x1F}
COMPRESS, LOCAL_FILES, MULTI_STATEMENTS, SESSION_TRACK = 0x20, 0x80, 0x1_0000, 0x80_0000
OPTIONAL_METADATA, QUERY_ATTRIBUTES = 0x200_0000, 0x800_0000
ENDED = (0, "hung up")


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    with running_mariadb(lab) as server, GatewayProcess() as process:
        sites.make_database(server)
        yield sites.begin(process, lab, server, [("", "")])


@pytest.fixture
def client(site: Site) -> Iterator[Client]:
    with site.client() as client:
        assert client.refusal is None
        yield client
        assert not CANARIES.found(bytes(client.received))


def test_the_statement_prepared_last_by_its_number(client: Client) -> None:
    answer = client.prepared(b"SELECT name FROM people", LAST_PREPARED)
    assert answer.is_sealed(0)
    assert len(answer.rows) == ROWS


def test_a_statement_executed_again_is_sealed_again(client: Client) -> None:
    number = client.prepare(b"SELECT id, name FROM people").statement
    assert number is not None
    for _ in range(2):
        assert client.execute(number).is_sealed(1)
    assert client.execute(number + 1).error is not None, "none of this number"


@pytest.mark.parametrize("command", sorted(set(range(256)) - ALLOWED), ids=hex)
def test_other_commands_are_refused(site: Site, command: int) -> None:
    with site.client() as client:
        answer = client.command(command, b"people\0" if command == FIELD_LIST else b"")
        assert answer.error is not None or answer.over, answer
        assert "the gateway" in (answer.error or (0, "the gateway"))[1]
        assert not answer.rows
        assert not CANARIES.found(bytes(client.received))


def test_nobody_changes_the_account(site: Site) -> None:
    with site.client() as client:
        body = sites.USER.encode() + b"\0\0d\0" + struct.pack("<H", 45) + b"mysql_native_password\0"
        answer = client.command(CHANGE_USER, body)
        assert answer.error is not None or answer.over
        assert not CANARIES.found(bytes(client.received))


def test_a_session_that_begins_anew_is_as_before(site: Site) -> None:
    """Whatever the server's own settings and its init_connect say."""
    ask = site.server.ask
    ask("SET GLOBAL sql_mode = 'ANSI_QUOTES'")
    ask("SET GLOBAL init_connect = 'SET character_set_results = utf16, sql_mode = \\'PIPES_AS_CONCAT\\''")
    # Who has SUPER is spared init_connect.
    ask(f"REVOKE CONNECTION ADMIN, SUPER ON *.* FROM {SHOP}")
    try:
        with site.client() as client:
            for _ in range(2):
                assert client.query(b'SELECT "name" FROM people').rows == [(b"name",)] * ROWS
                assert client.query(b"SELECT city FROM people ORDER BY id").rows[0] == (b"city-1",)
                assert client.query(b"SELECT name FROM people").is_sealed(0)
                assert client.command(RESET_CONNECTION).error is None
                assert client.command(INIT_DB, b"d").error is None
            assert not CANARIES.found(bytes(client.received))
    finally:
        ask("SET GLOBAL sql_mode = DEFAULT")
        ask("SET GLOBAL init_connect = ''")
        ask(f"GRANT ALL ON *.* TO {SHOP}")


def test_a_reset_forgets_what_was_prepared(client: Client) -> None:
    number = client.prepare(b"SELECT name FROM people").statement
    assert number is not None
    assert client.command(RESET_CONNECTION).error is None
    assert client.execute(number).error is not None


def test_no_second_statement(client: Client) -> None:
    assert client.command(SET_OPTION, struct.pack("<H", 0)).error is not None
    answer = client.query(b"SELECT 1; SELECT name FROM people")
    assert answer.error is not None
    assert not answer.rows


@pytest.mark.parametrize(
    "claims",
    [COMPRESS, LOCAL_FILES, MULTI_STATEMENTS, SESSION_TRACK, OPTIONAL_METADATA, QUERY_ATTRIBUTES],
    ids=["compress", "local-files", "multi-statements", "session-track", "optional-metadata", "query-attributes"],
)
def test_capabilities_are_cut(site: Site, claims: int) -> None:
    """Whoever claims one either is turned away or is answered as if it had not."""
    with site.client(claims=claims) as client:
        if claims != MULTI_STATEMENTS:
            assert not client.offered & claims
        if client.refusal is None:
            answer = client.query(b"SELECT 1; SELECT CONCAT(name) FROM people")
            assert answer.error is not None or answer.over
            answer = client.query(b"SELECT name FROM people")
            assert answer.over or answer.error or answer.is_sealed(0)
        assert not CANARIES.found(bytes(client.received))


@pytest.mark.parametrize(
    ("user", "charset"),
    [
        (b"shop" + b"x" * 77, 45),
        ("shop\N{GRINNING FACE}".encode(), 45),
        (b"shop\xff", 45),
        (SHOP.encode(), 28),
    ],
    ids=["81-characters", "beyond-the-plane", "no-utf8", "gbk"],
)
def test_logins_that_a_server_reads_differently_are_refused(site: Site, user: bytes, charset: int) -> None:
    with site.client(user=user, charset=charset) as client:
        assert client.refusal is not None
        assert "the gateway" in client.refusal[1], client.refusal


@pytest.mark.parametrize("user", [b"'shop'", b'"shop"', b"`shop`"])
def test_a_name_between_quotes_is_guarded_as_the_server_reads_it(lab: Lab, site: Site, user: bytes) -> None:
    """Also where accounts that nobody named get plaintext."""
    rules_file = lab.folder / "lenient.toml"
    lenient = sites.rules(site.server.password, 'default_role = "plaintext"\n', ACCOUNTS)
    write_private(rules_file, lenient.encode())
    listener = GatewayListener("127.0.0.1", 0, rules_file, f"{site.server.address}:{site.server.port}")
    with GatewayProcess() as process:
        (address,) = process.begin([listener]).listeners
        with Client(address, user, site.server.password, b"d") as client:
            if client.refusal is None:
                assert client.query(b"SELECT name FROM people").is_sealed(0)
            assert not CANARIES.found(bytes(client.received))


@pytest.mark.parametrize(
    "statement",
    [
        b"SELECT " + b"(" * 100_000 + b"1" + b")" * 100_000,
        b"SELECT " + b"NOT " * 100_000 + b"1",
        b"SELECT " + b"-" * 100_000 + b"1",
        b"SELECT id FROM people WHERE id IN (" + b"1," * 1_000_000 + b"1)",
        b"SELECT " + b"(SELECT " * 10_000 + b"1" + b")" * 10_000,
        b"SELECT 1" + b"+1" * 200_000,
        b"SELECT 1" + b" UNION ALL SELECT 1" * 50_000,
    ],
    ids=["parentheses", "nots", "minuses", "items", "subqueries", "sums", "unions"],
)
@pytest.mark.parametrize("prepared", [False, True], ids=["text", "prepared"])
def test_what_is_too_deep_or_too_long_is_refused(site: Site, statement: bytes, prepared: bool) -> None:
    with site.client() as client:
        answer = client.prepared(statement) if prepared else client.query(statement)
        assert answer.over or (answer.error is not None and "the gateway" in answer.error[1]), str(answer)[:200]
    with site.client() as client:
        assert client.query(b"SELECT 1").rows == [(b"1",)], "the gateway lives"


def test_a_thousand_prepared_statements_are_enough(site: Site) -> None:
    with site.client() as client:
        answers = [client.prepare(b"SELECT 1") for _ in range(1025)]
        assert [answer.error for answer in answers[:1024]] == [None] * 1024
        last = answers[-1]
        assert last.over or (last.error is not None and "the gateway" in last.error[1])
