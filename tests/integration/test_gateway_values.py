"""Values of every type through the gateway in front of a real MariaDB: plaintext or ciphertext, by account."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mysql.connector
import pymysql
import pytest

from costof.programs.mariadb.lab import DATABASE, USER
from tests.gateway.shop import (
    ANALYST,
    APPROVED,
    NAMES,
    PEOPLE,
    RULES,
    SHOP,
    STRANGER,
    Shop,
    approval,
    column,
    refusal,
    rows,
    shows,
    tapped,
)

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("usual_rules")]


def test_accounts_read_plaintext_or_ciphertext_by_role(shop: Shop) -> None:
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
    # The analyst's driver has no key for these values, so it returns them as encrypted bytes.
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
            # Until the first OK, PyMySQL quotes values by the SQL mode in the server's greeting, not by the session's.
            cursor.execute("SET autocommit = 1")
            for text in texts:
                cursor.execute("SELECT HEX(%s), %s + 0", (text, -7))
                assert cursor.fetchall() == ((text.encode().hex().upper(), -7),), repr(text)
                cursor.execute("SELECT HEX(%s), %s + 0", (text.encode() + b"\xff", 1.5e300))
                assert cursor.fetchall() == ((text.encode().hex().upper() + "FF", 1.5e300),), repr(text)
            # Other drivers quote in these ways.
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


def test_parameters_of_another_kind_than_approved_are_rejected(
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
