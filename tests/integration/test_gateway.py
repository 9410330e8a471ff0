"""costof's gateway in front of a real MariaDB with a shop's tables: values, refusals, rules, TLS, and its command."""

from __future__ import annotations

import contextlib
import random
import re
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import mysql.connector
import pymysql
import pytest
from pymysql.constants import COMMAND

from costof.errors import CostofError
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.messages.plan import Arm, Plan, TlsFiles, Transport, Workload
from costof.messages.process import engine
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, USER
from tests.gateway.shop import (
    ANALYST,
    APPROVED,
    CATALOGUE,
    KEY,
    NAMES,
    PEOPLE,
    RULES,
    SHOP,
    STRANGER,
    Shop,
    approval,
    attacks,
    column,
    gateway_before,
    refusal,
    rows,
    shop_server,
    shows,
    tapped,
)
from tests.integration.conftest import COSTOF
from tests.support.command import costof
from tests.support.programs import ED25519_USER, check_of, eventually, make_ed25519_user

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("usual_rules")]


@pytest.fixture(scope="module")
def shop(lab: Lab) -> Iterator[Shop]:
    with shop_server(lab) as server, gateway_before(lab, server, "rules") as shop:
        yield shop


@pytest.fixture
def usual_rules(shop: Shop) -> None:
    assert shop.reload(RULES + PEOPLE) is None


def test_role_of_an_account_determines_whether_it_reads_plaintext_or_ciphertext(shop: Shop) -> None:
    statement = "SELECT name, price, city, visits FROM people ORDER BY id"
    direct = rows(
        pymysql.connect(**{**shop.login(USER), "host": shop.server.address, "port": shop.server.port}), statement
    )
    assert rows(shop.connect(USER), statement) == direct
    assert rows(shop.decrypting(), statement) == direct
    for user in (SHOP, ANALYST, STRANGER):
        got = rows(shop.connect(user), statement)
        assert [row[2:] for row in got] == [row[2:] for row in direct]
        assert [(row[0][0], row[1][0]) for row in got] == [(1, 6)] * len(NAMES), "GCM, and SM4 in CBC"
        assert not shows(repr(got).encode())
    # Without a key for these values, the analyst's driver returns them as encrypted bytes.
    assert {type(row[0]) for row in rows(shop.decrypting(ANALYST), statement)} == {bytes}


def test_no_plaintext_of_a_protected_column_reaches_the_client(shop: Shop) -> None:
    values = ("Abercrombie", "Abercrombie")
    with tapped(shop) as (connect, tap):
        for statement in APPROVED:
            if statement.startswith(("SELECT", "WITH")):
                rows(connect(), statement.replace("?", "%s"), *values[: statement.count("?")])
        assert not shows(tap.received())
        assert b"city-1" in tap.received()
        rows(connect(USER), "SELECT name FROM people")
        assert shows(tap.received()), "the tap sees what there is to be seen"


def test_computed_column_of_a_result_is_sent_in_plaintext_only_if_approved(shop: Shop) -> None:
    statement = "SELECT COUNT(*), MAX(name) FROM people"
    for outputs, types in (
        ({}, [bytes, bytes]),
        ({"outputs": ["plain", "encrypt"]}, [int, bytes]),
        ({"outputs": ["plain", "plain"]}, [int, str]),
    ):
        assert shop.reload(RULES + PEOPLE + approval(statement, **outputs)) is None
        with shop.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            assert [type(value) for value in cursor.fetchone()] == types
    assert shop.reload(RULES + PEOPLE + approval(statement, outputs=["plain"])) is None
    with shop.connect() as connection, pytest.raises(pymysql.MySQLError, match="another number of columns"):
        connection.cursor().execute(statement)


#: Texts with bytes that could end a string, a statement or a character too early.
HARD = [
    "",
    "'",
    "\\",
    "\\'",
    "''",
    '"',
    "`",
    "%_\\%",
    "\0\x1a\n\r\t\x08",
    "-- #/*;",
    "é\u212a\U0001f600",
    "?",
    "\x1f",
    "@@x",
]


@pytest.mark.parametrize("mode", ["", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE", "ORACLE"])
def test_values_reach_the_server_unchanged(shop: Shop, mode: str) -> None:
    """The server returns each value that it received, under SQL modes that change the meaning of quotes."""
    rng = random.Random(1)
    texts = HARD + ["".join(rng.choices("'\"\\%_`;-#*/?ax \n\0é", k=rng.randrange(12))) for _ in range(300)]
    ((before,),) = shop.server.ask("SELECT @@GLOBAL.sql_mode")
    statement = "SELECT HEX(?), ? + 0"
    assert shop.reload(RULES + PEOPLE + approval(statement, outputs=["plain", "plain"])) is None
    shop.server.ask(f"SET GLOBAL sql_mode = '{mode}'")
    try:
        with shop.connect() as connection, connection.cursor() as cursor:
            # Get an OK first: until then, PyMySQL quotes values by the SQL mode in the greeting, not by the session's.
            cursor.execute("SET autocommit = 1")
            for text in texts:
                cursor.execute("SELECT HEX(%s), %s + 0", (text, -7))
                assert cursor.fetchall() == ((text.encode().hex().upper(), -7),), repr(text)
                cursor.execute("SELECT HEX(%s), %s + 0", (text.encode() + b"\xff", 1.5e300))
                assert cursor.fetchall() == ((text.encode().hex().upper() + "FF", 1.5e300),), repr(text)
            # Drivers other than PyMySQL quote strings in these ways.
            for quoted, text in (('"it\'s ""x"""', 'it\'s "x"'), ("'it''s'", "it's"), ("x'00ff'", None)):
                cursor.execute(f"SELECT HEX({quoted}), 1 + 0")
                expected = "00FF" if text is None else text.encode().hex().upper()
                assert cursor.fetchall() == ((expected, 1),)
    finally:
        shop.server.ask(f"SET GLOBAL sql_mode = '{before}'")


@pytest.fixture
def prepared(shop: Shop) -> Iterator[Callable[[str, str, Sequence[object]], list[tuple[Any, ...]]]]:
    """Yield a function that runs a prepared statement as a user, by the binary protocol, and returns its rows."""
    with contextlib.ExitStack() as stack:

        def ask(user: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            host, port = shop.address.split(":")
            password = shop.server.password.get_secret_value()
            connection = mysql.connector.connect(
                host=host, port=int(port), user=user, password=password, database=DATABASE, use_pure=True,
                ssl_disabled=True, charset="utf8mb4", collation="utf8mb4_general_ci", autocommit=True,
            )  # fmt: skip
            stack.callback(connection.close)
            cursor = connection.cursor(prepared=True)
            cursor.execute(statement, tuple(values))
            return [tuple(row) for row in cursor.fetchall()] if cursor.with_rows else []

        yield ask


def test_prepared_statements_work_through_the_gateway(
    shop: Shop, prepared: Callable[..., list[tuple[Any, ...]]]
) -> None:
    statement = "SELECT name, visits, city FROM people WHERE id >= ? ORDER BY id"
    expected = [(name, place, f"city-{place}") for place, name in enumerate(NAMES)]
    assert prepared(USER, statement, (0,)) == expected
    got = prepared(SHOP, statement, (0,))
    assert [row[1:] for row in got] == [row[1:] for row in expected]
    assert [len(row[0]) for row in got] == [29 + len(name) for name in NAMES]
    assert prepared(SHOP, "UPDATE people SET visits = visits + ? WHERE id = ?", (0, 1)) == []


def test_parameters_of_an_unapproved_type_are_rejected(
    shop: Shop, prepared: Callable[..., list[tuple[Any, ...]]]
) -> None:
    statement = "SELECT id FROM people WHERE name = ?"
    assert len(prepared(USER, statement, (0,))) == len(NAMES), "which is what a number would show"
    assert shop.reload(RULES + PEOPLE + approval(statement, values=["text"])) is None
    assert prepared(SHOP, statement, (NAMES[1],)) == [(1,)]
    with pytest.raises(mysql.connector.Error, match="parameter of another kind") as refused:
        prepared(SHOP, statement, (0,))
    assert refused.value.errno == 1227
    with shop.connect() as connection:
        assert rows(shop.connect(), "SELECT id FROM people WHERE name = %s", NAMES[1]) == [(1,)]
        assert (
            "value 1 of this statement must be a text" in refusal(connection, "SELECT id FROM people WHERE name = 0")[1]
        )


def test_insert_ids_are_hidden_for_protected_columns(shop: Shop) -> None:
    insert = "INSERT INTO numbers (price) VALUES (1)"
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute(insert)
        assert cursor.lastrowid == 1
        assert shop.reload(RULES + PEOPLE + column("numbers", "id")) is None
        cursor.execute(insert)
        assert cursor.lastrowid == 0


def test_gateway_rejects_every_attack(shop: Shop) -> None:
    """Each attack is sent as text and as a prepared statement. The session continues after the error."""
    assert shop.reload(RULES + PEOPLE + approval("SELECT city FROM other")) is None
    with tapped(shop) as (connect, tap), connect() as connection:
        for attack in attacks():
            for command in (COMMAND.COM_QUERY, COMMAND.COM_STMT_PREPARE):
                connection._execute_command(command, attack)
                with pytest.raises(pymysql.MySQLError) as refused:
                    connection._read_packet()
                assert refused.value.args[0] == 1227, attack
        assert not shows(tap.received())


def test_gateway_passes_every_statement_of_accounts_that_get_plaintext(shop: Shop) -> None:
    with shop.connect(USER) as connection:
        code, words = refusal(connection, "SELECT name INTO OUTFILE '/no/such/folder' FROM people")
        assert (code, "FILE privilege" in words) == (1227, True), "the server's own refusal"


def test_errors_and_warnings_contain_no_protected_value(shop: Shop) -> None:
    more = [approval("SELECT nothing FROM people"), approval("SELECT EXP(id + ?) FROM people WHERE name = ?")]
    more.append(approval("INSERT INTO people (id, name) VALUES (?, ?)"))
    assert shop.reload(RULES + PEOPLE + "".join(more)) is None
    with tapped(shop) as (connect, tap), connect() as connection, connection.cursor() as cursor:
        code, words = refusal(connection, "INSERT INTO people (id, name) VALUES (99, 'Abercrombie')")
        assert (code, words) == (1062, "Duplicate entry for a key")
        assert refusal(connection, "SELECT nothing FROM people") == (1054, "Unknown column")
        refusal(connection, "SELECT EXP(id + 1000) FROM people WHERE name = 'Abercrombie'")
        cursor.execute("SHOW WARNINGS")
        assert cursor.fetchall() == ()
        assert not shows(tap.received())


def test_rules_can_refuse_clients_that_do_not_decrypt(shop: Shop) -> None:
    assert shop.reload(RULES.replace('"ciphertext"\n[master', '"refuse"\n[master') + PEOPLE) is None
    for user in (SHOP, ANALYST):
        with pytest.raises(pymysql.MySQLError, match="does not announce that it decrypts"):
            shop.connect(user)
    assert rows(shop.decrypting(), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]
    assert rows(shop.connect(USER), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]


def test_example_rules_in_the_documentation_let_both_example_accounts_log_in(shop: Shop, lab: Lab) -> None:
    server, password = shop.server, shop.server.password.get_secret_value()
    page = (ROOT / "docs" / "column-encryption.md").read_text()
    for statement in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.people (id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(40))",
        "INSERT INTO shop.people VALUES (1, 'Abercrombie', 'Kiel')",
        f"CREATE USER web IDENTIFIED BY '{password}'",
        f"CREATE USER report IDENTIFIED BY '{password}'",
        "GRANT SELECT ON shop.* TO web",
        "GRANT SELECT ON shop.* TO report",
        # The [check] account has only the grant that docs/column-encryption.md shows.
        f"CREATE USER columns_only IDENTIFIED BY '{password}'",
        *re.findall(r"GRANT .* TO columns_only", page.replace("TO catalogue", "TO columns_only")),
    ):
        server._query(statement)
    rules = page.partition("## Rules\n")[2].split("```toml\n")[1].split("```")[0]
    sample = rules.replace('"catalogue"', '"columns_only"')
    with gateway_before(lab, server, "sample", sample.replace('"…"', f'"{password}"')) as sampled:
        approved = "SELECT id, name FROM people WHERE city = 'Kiel'"
        assert rows(sampled.decrypting("web", database="shop"), approved) == [(1, "Abercrombie")]
        ((number, name),) = rows(sampled.connect("report", database="shop"), approved)
        assert (number, type(name)) == (1, bytes)
        assert not shows(name)


def test_logins_pass_through_the_gateway_unchanged(shop: Shop) -> None:
    wrong = {**shop.login(), "password": "wrong"}
    with pytest.raises(pymysql.MySQLError, match="Access denied"):
        pymysql.connect(**wrong)
    # For this user the server asks for a second authentication method after the first.
    if make_ed25519_user(shop.server):
        through = {"addresses": [shop.address], "username": ED25519_USER}
        arm = Arm(name="gateway", service=shop.server.client_settings().model_copy(update=through))
        assert shop.reload(RULES.replace(USER, ED25519_USER) + PEOPLE) is None
        with engine() as instrument:
            ready = instrument.plan(Plan(arms=[arm], workloads=[Workload(name="connect", kind="connect")]))
            assert [arm.error for arm in ready.arms] == [None]
    with pytest.raises(pymysql.MySQLError, match="character set"):
        shop.connect(charset="gbk")
    with shop.connect() as connection:
        connection._execute_command(COMMAND.COM_CHANGE_USER, b"shop\0")
        with pytest.raises(pymysql.MySQLError, match="account of a session"):
            connection._read_ok_packet()


def address_in(ready: str) -> tuple[str, int]:
    host, port = ready.removeprefix("gateway ready on ").partition(" ")[0].split(":")
    return host, int(port)


def test_new_column_is_encrypted_until_the_gateway_rereads_the_list_of_columns(shop: Shop, lab: Lab) -> None:
    """The gateway rereads the list of columns every second here. It encrypts columns that it does not know."""
    shop.server.ask(f"CREATE TABLE {DATABASE}.late (id INT PRIMARY KEY)")
    rules = RULES + PEOPLE + approval("SELECT town FROM late")
    try:
        with gateway_before(lab, shop.server, "watching", rules, limits={"catalogue_seconds": 1}) as watching:
            shop.server.ask(f"ALTER TABLE {DATABASE}.late ADD town VARCHAR(9) DEFAULT 'here'")
            shop.server.ask(f"INSERT INTO {DATABASE}.late (id) VALUES (1)")  # noqa: S608  # our own
            with watching.connect() as connection, connection.cursor() as cursor:

                def town() -> object:
                    cursor.execute("SELECT town FROM late")
                    return cursor.fetchall()[0][0]

                eventually("the column", lambda: town() == "here")
    finally:
        shop.server.ask(f"DROP TABLE {DATABASE}.late")


def test_changed_gateway_rules_apply_from_the_next_command_if_they_are_valid(shop: Shop) -> None:
    statement = "SELECT name, city FROM people WHERE id = 1"
    with shop.connect() as connection, connection.cursor() as cursor:

        def types() -> list[type]:
            cursor.execute(statement)
            return [type(value) for value in cursor.fetchall()[0]]

        assert types() == [bytes, str]
        assert shop.reload(RULES + PEOPLE + column("people", "city")) is None
        assert types() == [bytes, bytes]
        for wrong, words in [
            ("colour = 1\n" + RULES, "line 1: unknown field `colour`"),
            (RULES.replace(KEY, "0011"), "master key 'app' is not 16 bytes in hexadecimal"),
            (RULES.replace('"app"', '"none"'), "[master_keys] has no master key 'none'"),
            (RULES + PEOPLE.replace("sm4-cbc", "rot13"), "unknown variant `rot13`"),
            (RULES + column("people", "nome"), "the rule for costof.people.nome matches no column"),
            (RULES + check_of("nobody", "never-shown") + PEOPLE, "[check]: cannot query"),
            ('predicates = "allow"\n' + RULES + PEOPLE, "line 1: unknown field `predicates`"),
            (RULES + PEOPLE + approval("SET sql_mode = ?"), "a statement that begins with SET cannot be approved"),
        ]:
            message = shop.reload(wrong) or ""
            assert words in message
            assert "never-shown" not in message
            assert KEY not in message
            assert "\n" not in message
            assert types() == [bytes, bytes], "the previous rules stay in force"
        shop.rules_file.chmod(0o640)
        assert "chmod 600" in (shop.process.reload()[shop.address] or "")
    with shop.connect(USER) as connection:
        assert shop.reload(RULES.replace('role = "plaintext"', 'role = "opaque"') + PEOPLE) is None
        assert "connect again" in refusal(connection, statement)[1]


def test_tls_is_used_on_both_sides_of_the_gateway(lab: Lab, shop: Shop) -> None:
    server = shop.server
    certificate = server._authority.issue("gateway", "ecdsa-p256", ["127.0.0.1"])
    tls, transport = TlsFiles.of(certificate), Transport(kind="tls", ca_file=server.ca_file)
    trusted = {"ssl_disabled": False, "ssl": ssl.create_default_context(cafile=server.ca_file)}
    with gateway_before(lab, server, "tls-rules", tls=tls, server_transport=transport) as secured:
        assert rows(secured.decrypting(**trusted), "SELECT name FROM people WHERE id = 1") == [(NAMES[1],)]
        message = rows(secured.connect(USER, **trusted), "SHOW STATUS LIKE 'Ssl_version'")
        assert message == [("Ssl_version", "TLSv1.3")]
        with pytest.raises(pymysql.MySQLError, match="under TLS only"):
            secured.connect()
        assert secured.counters().tls == {"TLSv1.3": 2}
    with pytest.raises(CostofError, match="go together"), gateway_before(lab, server, "half", tls=tls):
        pass


def test_unreachable_server_and_ended_session_are_reported(shop: Shop, lab: Lab) -> None:
    rules_file = lab.folder / "nowhere.toml"
    write_private(rules_file, b"")
    with GatewayProcess() as process:
        ready = process.begin(
            [GatewayListener(address="127.0.0.1:0", rules_file=rules_file, server=f"{lab.address(9)}:1")]
        )
        host, port = ready.listeners[0].split(":")
        with pytest.raises(pymysql.MySQLError, match="cannot be reached"):
            pymysql.connect(host=host, port=int(port), user=USER)
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET wait_timeout = 1")
        # The server closes the idle connection, so the gateway closes the client's connection.
        connection._sock.settimeout(300)
        assert connection._rfile.read(1) == b""
        connection._force_close()
    before = int(shop.server.status("Threads_connected")["Threads_connected"])
    gone = shop.connect()
    gone._force_close()
    eventually("the session's end", lambda: int(shop.server.status("Threads_connected")["Threads_connected"]) <= before)


def test_costof_gateway_reports_and_reloads_its_rules(shop: Shop, tmp_path: Path) -> None:
    server = shop.server
    rules_file = tmp_path / "rules.toml"
    endpoint = f"{server.address}:{server.port}"

    def check() -> Any:
        return costof("gateway", "--rules", str(rules_file), "--server", endpoint, "--check", cwd=tmp_path)

    write_private(rules_file, (RULES + PEOPLE).encode())
    unchecked = check()
    assert (unchecked.status, len(unchecked.error_lines)) == (2, 1)
    assert "need [check]" in unchecked.error_lines[0]
    asking = RULES + PEOPLE + check_of(CATALOGUE, server.password.get_secret_value())
    write_private(rules_file, asking.encode())
    (warning,) = check().error_lines
    assert "no statement is approved" in warning
    write_private(rules_file, (asking + approval("SELECT city FROM people")).encode())
    checked = check()
    assert (checked.status, checked.out.splitlines(), checked.err) == (
        0,
        [f"{rules_file} is valid: each column rule matches a column of {endpoint}"],
        "",
    )
    argv = [*COSTOF, "gateway", "--rules", str(rules_file), "--server", endpoint, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        host, port = address_in(line)
        login = {
            "host": host,
            "port": port,
            "user": USER,
            "password": server.password.get_secret_value(),
            "ssl_disabled": True,
        }
        assert rows(pymysql.connect(**login), "SELECT 1") == [(1,)]
        write_private(rules_file, b"colour = 1")
        process.send_signal(signal.SIGHUP)
        assert "unknown field `colour`" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()
    usual = ("gateway", "--rules", str(rules_file), "--server", endpoint)
    limit = costof(*usual, "--limit", "connections", "5", "--limit", "colours", "7", cwd=tmp_path)
    assert limit.status == 2
    assert "unknown field `colours`, expected one of `connections`" in limit.error_lines[0]
    wrong = costof(*usual, cwd=tmp_path)
    assert wrong.status == 2
    assert len(wrong.error_lines) == 1
    assert "line 1: unknown field" in wrong.error_lines[0]


def test_gateway_learns_statements_and_accepts_only_reviewed_ones(shop: Shop, tmp_path: Path) -> None:
    rules_file, learned = tmp_path / "rules.toml", tmp_path / "learned.toml"
    endpoint = f"{shop.server.address}:{shop.server.port}"
    asking = RULES + PEOPLE + check_of(CATALOGUE, shop.server.password.get_secret_value())
    write_private(rules_file, asking.encode())
    options = ("gateway", "--rules", str(rules_file), "--server", endpoint, "--learn", str(learned))
    half = costof(*options, cwd=tmp_path)
    assert (half.status, "--learn and --learn-account work only together" in half.error_lines[0]) == (2, True)
    argv = [*COSTOF, *options, "--learn-account", SHOP, "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    statement = "SELECT id, name, LENGTH(city) FROM people WHERE name = '{}'"
    try:
        assert process.stdout is not None
        port = address_in(process.stdout.readline())[1]
        for name in NAMES[:1] * 2:
            assert rows(shop.connect(port=port), statement.format(name)) == [(0, name, 6)]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=300)
    text = learned.read_text()
    assert text.count("[[statements]]") == 1
    for line in (
        "# output 2: costof.people.name, protected: always encrypted",
        "# output 3: computed",
        "# filters on people.name: an account that may send it learns which rows match",
        'text = "SELECT id, name, LENGTH(city) FROM people WHERE name = ?"',
        'values = ["text"]',
        'outputs = ["plain", "encrypt", "encrypt"]',
    ):
        assert line in text.splitlines(), text
    with shop.connect() as connection:
        assert "--learn" in refusal(connection, statement.format(NAMES[0]))[1]
    assert shop.reload(RULES + PEOPLE + text) is None
    assert rows(shop.decrypting(), statement.format(NAMES[0])) == [(0, NAMES[0], 6)]
    assert type(rows(shop.connect(), statement.format(NAMES[0]))[0][2]) is bytes
