"""What comes through the gateway before a real MariaDB: plaintext or ciphertexts, by account, of every type."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mysql.connector
import pymysql
import pytest

from costof.programs.mariadb.server import DATABASE, USER
from tests.gateway.shop import (
    ALLOWING,
    ANALYST,
    EVERY,
    NAMES,
    PEOPLE,
    RULES,
    SHOP,
    STATEMENTS_OF_ALLOWING_RULES,
    STRANGER,
    Shop,
    column,
    refusal,
    rows,
    shows,
    tapped,
)

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("usual_rules")]


def test_an_account_gets_what_its_role_gives(shop: Shop) -> None:
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
    # What nobody can decrypt is given as it is to a driver that could.
    assert {type(row[0]) for row in rows(shop.decrypting(ANALYST), statement)} == {bytes}


#: By the rules alone, and where their columns may stand anywhere.
STATEMENTS = [
    "SELECT * FROM people",
    "SELECT p.name AS n, o.name FROM people AS p JOIN other o ON o.id = p.id + 1",
    "SELECT name AS city FROM people WHERE id IN (SELECT id FROM other)",
    "SELECT city FROM (SELECT name AS city FROM people) AS other",
    "SELECT name FROM (SELECT name FROM people LIMIT 2) AS other",
    "WITH other AS (SELECT name AS city FROM people) SELECT city FROM other",
    "SELECT name FROM other UNION ALL SELECT name FROM people",
    "(SELECT name AS city FROM people) LIMIT 2",
    "SELECT (SELECT name FROM people LIMIT 1), city FROM other",
    "SELECT city FROM names AS other",
    "SELECT id FROM people WHERE name = 'Abercrombie'",
    "DELETE FROM people WHERE id < 0 RETURNING name",
]


def test_no_byte_of_an_encrypted_column_comes_to_the_client(shop: Shop) -> None:
    with tapped(shop) as (connect, tap):
        for rules, statements in (("", STATEMENTS), (ALLOWING, STATEMENTS + STATEMENTS_OF_ALLOWING_RULES)):
            assert shop.reload(rules + RULES + PEOPLE) is None
            for statement in statements:
                rows(connect(), statement)
        assert not shows(tap.received())
        assert b"plain-one" in tap.received()
        assert b"city-1" in tap.received()
        rows(connect(USER), "SELECT name FROM people")
        assert shows(tap.received()), "the tap sees what there is to be seen"


def test_a_view_is_read_as_what_it_is_made_of(shop: Shop) -> None:
    assert rows(shop.decrypting(), "SELECT city FROM names AS other") == [(name,) for name in NAMES]
    assert rows(shop.connect(), "SELECT city FROM other") == [("here",), ("there",)]


def test_every_type_comes_back_as_the_server_sent_it(shop: Shop) -> None:
    assert shop.reload(RULES + EVERY) is None
    statement = "SELECT * FROM every_type ORDER BY id"
    expected = rows(shop.connect(USER), statement)
    assert len(expected[0]) == 29
    assert set(expected[2][1:]) == {None}
    assert rows(shop.decrypting(), statement) == expected
    got = rows(shop.connect(), statement)
    assert got[2] == expected[2]
    assert {type(value) for value in got[0][1:]} == {bytes}
    counters = shop.counters()
    assert counters.values_encrypted >= 2 * 2 * 28
    assert counters.ciphertext_bytes > counters.plaintext_bytes > 80_000


@pytest.mark.parametrize(
    "algorithm", ["aes-128-gcm", "aes-128-ctr", "aes-128-cbc", "aes-128-ecb", "sm4-gcm", "sm4-cbc"]
)
def test_every_algorithm(shop: Shop, algorithm: str) -> None:
    assert shop.reload(ALLOWING + RULES + column("people", "*", algorithm)) is None
    assert rows(shop.decrypting(), "SELECT name FROM people ORDER BY id") == [(name,) for name in NAMES]


@pytest.fixture
def prepared(shop: Shop) -> Iterator[Callable[[str, str, Sequence[object]], list[tuple[Any, ...]]]]:
    """A driver that asks by the binary protocol."""
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


def test_prepared_statements(shop: Shop, prepared: Callable[..., list[tuple[Any, ...]]]) -> None:
    statement = "SELECT name, visits, city FROM people WHERE id >= ? ORDER BY id"
    expected = [(name, place, f"city-{place}") for place, name in enumerate(NAMES)]
    assert prepared(USER, statement, (0,)) == expected
    got = prepared(SHOP, statement, (0,))
    assert [row[1:] for row in got] == [row[1:] for row in expected]
    assert [len(row[0]) for row in got] == [29 + len(name) for name in NAMES]
    assert prepared(SHOP, "UPDATE people SET visits = visits + ? WHERE id = ?", (0, 1)) == []
    assert shop.reload(RULES + EVERY) is None
    assert [value for value in prepared(SHOP, "SELECT * FROM every_type WHERE id = ?", (3,))[0][1:] if value] == []
    sealed = prepared(SHOP, "SELECT c_big, c_double, c_date, c_longtext FROM every_type WHERE id = ?", (1,))[0]
    # The binary protocol's own lengths: 8 bytes, 8 bytes, year, month and day.
    assert [len(value) - 29 for value in sealed] == [8, 8, 4, 80_000]


def test_parameters_of_prepared_statements_are_of_the_columns_type(
    shop: Shop, prepared: Callable[..., list[tuple[Any, ...]]]
) -> None:
    statement = "SELECT id FROM people WHERE name = ?"
    assert prepared(SHOP, statement, (NAMES[1],)) == [(1,)]
    with pytest.raises(mysql.connector.Error, match="parameter of another type") as refused:
        prepared(SHOP, statement, (0,))
    assert refused.value.errno == 1227
    assert len(prepared(USER, statement, (0,))) == len(NAMES), "which is what a number would tell"


@pytest.mark.parametrize(("limit", "values"), [("LIMIT ? OFFSET ?", (2, 1)), ("LIMIT ?, ?", (1, 2))])
def test_parameters_keep_their_order(
    prepared: Callable[..., list[tuple[Any, ...]]], limit: str, values: tuple[int, int]
) -> None:
    assert prepared(SHOP, f"SELECT id FROM people ORDER BY id {limit}", values) == [(1,), (2,)]  # noqa: S608  # our own


def test_ids_are_told_but_of_protected_columns(shop: Shop) -> None:
    insert = "INSERT INTO numbers (price) VALUES (1)"
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute(insert)
        assert cursor.lastrowid == 1
        assert shop.reload(RULES + PEOPLE + column("numbers", "id")) is None
        cursor.execute(insert)
        assert cursor.lastrowid == 0
        assert refusal(connection, "SELECT LAST_INSERT_ID()")[0] == 1227
