"""The gateway as a service in front of a real MariaDB: new rules, the catalogue, TLS, lost servers, and its command."""

from __future__ import annotations

import signal
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pymysql
import pytest

from costof.errors import CostofError
from costof.lab.certificates import write_private
from costof.lab.lab import Lab
from costof.messages.plan import TlsFiles, Transport
from costof.programs.gateway import GatewayListener, GatewayProcess
from costof.programs.mariadb.lab import DATABASE, USER
from tests.gateway.shop import CATALOGUE, KEY, NAMES, PEOPLE, RULES, SHOP, Shop, approval, before, column, refusal, rows
from tests.integration.conftest import COSTOF
from tests.support.command import costof
from tests.support.programs import check_of, eventually

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("usual_rules")]


def address_in(ready: str) -> tuple[str, int]:
    """Return host and port from the line 'gateway ready on HOST:PORT in front of SERVER'."""
    host, port = ready.removeprefix("gateway ready on ").partition(" ")[0].split(":")
    return host, int(port)


def test_new_column_is_encrypted_until_the_catalogue_is_reread(shop: Shop, lab: Lab) -> None:
    """The gateway rereads the list of columns every second here. It encrypts columns that it does not know."""
    shop.server.ask(f"CREATE TABLE {DATABASE}.late (id INT PRIMARY KEY)")
    rules = RULES + PEOPLE + approval("SELECT town FROM late")
    try:
        with before(lab, shop.server, "watching", rules, limits={"catalogue_seconds": 1}) as watching:
            shop.server.ask(f"ALTER TABLE {DATABASE}.late ADD town VARCHAR(9) DEFAULT 'here'")
            shop.server.ask(f"INSERT INTO {DATABASE}.late (id) VALUES (1)")  # noqa: S608  # our own
            with watching.connect() as connection, connection.cursor() as cursor:

                def town() -> object:
                    cursor.execute("SELECT town FROM late")
                    return cursor.fetchall()[0][0]

                eventually("the column", lambda: town() == "here")
    finally:
        shop.server.ask(f"DROP TABLE {DATABASE}.late")


def test_valid_new_rules_apply_from_the_next_command_on(shop: Shop) -> None:
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
    with before(lab, server, "tls-rules", tls=tls, server_transport=transport) as secured:
        assert rows(secured.decrypting(**trusted), "SELECT name FROM people WHERE id = 1") == [(NAMES[1],)]
        message = rows(secured.connect(USER, **trusted), "SHOW STATUS LIKE 'Ssl_version'")
        assert message == [("Ssl_version", "TLSv1.3")]
        with pytest.raises(pymysql.MySQLError, match="under TLS only"):
            secured.connect()
        assert secured.counters().tls == {"TLSv1.3": 2}
    with pytest.raises(CostofError, match="go together"), before(lab, server, "half", tls=tls):
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


def test_gateway_command_reports_and_reloads_its_rules(shop: Shop, tmp_path: Path) -> None:
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
    assert (checked.status, checked.err) == (0, "")
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
