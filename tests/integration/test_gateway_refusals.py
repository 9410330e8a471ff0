"""Statements that the gateway in front of a real MariaDB rejects, and the content of its errors."""

from __future__ import annotations

import pymysql
import pytest
from pymysql.constants import COMMAND

from costof.messages.plan import Arm, Plan, Workload
from costof.messages.process import engine
from costof.programs.mariadb.lab import USER
from tests.gateway.shop import (
    ANALYST,
    NAMES,
    PEOPLE,
    RULES,
    SHOP,
    Shop,
    approval,
    attacks,
    refusal,
    rows,
    shows,
    tapped,
)
from tests.support.programs import ED25519_USER, make_ed25519_user

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("usual_rules")]


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


def test_statements_of_accounts_that_get_plaintext_are_refused_only_by_the_server(shop: Shop) -> None:
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


def test_client_that_does_not_decrypt_needs_permission_in_the_rules(shop: Shop) -> None:
    assert shop.reload(RULES.replace('"ciphertext"\n[master', '"refuse"\n[master') + PEOPLE) is None
    for user in (SHOP, ANALYST):
        with pytest.raises(pymysql.MySQLError, match="does not announce that it decrypts"):
            shop.connect(user)
    assert rows(shop.decrypting(), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]
    assert rows(shop.connect(USER), "SELECT name FROM people WHERE id = 0") == [(NAMES[0],)]


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
