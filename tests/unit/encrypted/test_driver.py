"""The application's driver, checked against the same vectors as the engine's driver."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor, SSCursor, SSDictCursor

from costof import encrypted
from costof.encrypted.required_columns import RequiredColumns
from tests.support.mysql_packets import definition
from tests.support.scripted_mysql import ResultSet, ScriptedMysql
from tests.support.vectors import CASES, CLIENT_NONCE, MASTER_KEYS, REFUSED, TEXT_CASES, VECTORS, packets

OPAQUE_ROW = b"\x03\x01\xff\x00"


def script(statement: str) -> ResultSet | None:
    """Return a test vector's encrypted rows for the statement `sent NAME`, its original rows for `original NAME`."""
    how, _, name = statement.partition(" ")
    case = CASES.get(name) or REFUSED.get(name)
    if case is None:
        return None
    if how == "original":
        rows = [row for row in case["original_rows"] if isinstance(row, str)]
        return ResultSet(packets(case["original_definitions"]), packets(rows))
    return ResultSet(packets(case["definitions"]), packets(case["rows"]))


@pytest.fixture(autouse=True)
def known_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the client nonce of the test vectors, so that every connection has the session keys of the vectors."""
    monkeypatch.setattr(encrypted.secrets, "token_bytes", lambda count: CLIENT_NONCE[:count])


def opened(
    master_keys: dict[str, Any] = MASTER_KEYS,
    must_be_encrypted: Iterable[str] = (),
    answers: Callable[[str], ResultSet | None] = script,
) -> encrypted.Connection:
    connection = encrypted.Connection(
        master_keys=master_keys, must_be_encrypted=must_be_encrypted, user="u", ssl_disabled=True, defer_connect=True
    )
    connection.connect(ScriptedMysql(answers).client)
    return connection


def everything(cursor: Cursor, statement: str) -> Any:
    cursor.execute(statement)
    return cursor.fetchall()


@pytest.fixture
def connection() -> Iterator[encrypted.Connection]:
    with opened() as connection:
        yield connection


@pytest.fixture
def plain() -> Iterator[Any]:
    with pymysql.Connection(user="u", ssl_disabled=True, defer_connect=True) as connection:
        connection.connect(ScriptedMysql(script).client)
        yield connection


@pytest.mark.parametrize("name", TEXT_CASES)
@pytest.mark.parametrize("cursor", [Cursor, SSDictCursor])
def test_cursors_return_the_same_rows_as_without_a_gateway(
    connection: encrypted.Connection, plain: Any, name: str, cursor: type[Cursor]
) -> None:
    with connection.cursor(cursor) as ours, plain.cursor(cursor) as theirs:
        ours.execute(f"sent {name}")
        theirs.execute(f"original {name}")
        assert ours.description == theirs.description
        if "a long value" not in name:
            assert list(ours.fetchall()) == list(theirs.fetchall())


def test_value_that_fills_a_packet_is_decrypted(connection: encrypted.Connection) -> None:
    [(_, text)] = everything(connection.cursor(), "sent a long value")
    row = b"\x011" + b"\xfd" + len(text).to_bytes(3, "little") + text.encode()
    assert CASES["a long value"]["original_rows"] == [{"sha256": hashlib.sha256(row).hexdigest()}]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_error_for_changed_ciphertext_names_the_column_but_contains_no_values(name: str, cursor: type[Cursor]) -> None:
    case = REFUSED[name]
    connection = opened({"app": case["master_key"]}, case["must_be_encrypted"])
    with pytest.raises(encrypted.EncryptionError) as refused:
        everything(connection.cursor(cursor), f"sent {name}")
    text = str(refused.value)
    assert text.startswith("column tpcc.customer.c_")
    assert "\n" not in text
    assert not any(secret in text for secret in ("Ann", "OUGHT", case["master_key"]))
    assert isinstance(refused.value, pymysql.err.DatabaseError)
    assert not connection.open


def test_error_names_the_missing_master_key() -> None:
    with pytest.raises(encrypted.EncryptionError, match="master key 'app', which is not in master_keys"):
        everything(opened({"other": MASTER_KEYS["app"]}).cursor(), f"sent {TEXT_CASES[0]}")


@pytest.mark.parametrize("key", ["", "00", "0011223344556677889900aabbccddeg", b"short", 16])
def test_invalid_master_key_is_reported_without_showing_it(key: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r"^a master key must be 16 bytes, or 32 hexadecimal digits$"):
        encrypted.connect(host="127.0.0.1", master_keys={"app": key})


def greeting(server: ScriptedMysql) -> bytes:
    connection = encrypted.Connection(master_keys={}, user="u", ssl_disabled=True, defer_connect=True)
    connection.connect(server.client)
    connection.close()
    return server.client_hello


def test_login_of_a_decrypting_client_contains_a_new_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    hello = greeting(ScriptedMysql(script))
    assert b"\x10costof_encrypted\x011\x0ccostof_nonce\x40" + VECTORS["nonce"].encode() in hello
    monkeypatch.undo()
    nonces = {greeting(ScriptedMysql(script)).partition(b"\x0ccostof_nonce\x40")[2][:64] for _ in range(2)}
    assert len({bytes.fromhex(nonce.decode()) for nonce in nonces}) == 2


@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_query_result_replayed_within_one_session_is_refused(
    connection: encrypted.Connection, cursor: type[Cursor]
) -> None:
    assert everything(connection.cursor(cursor), "sent aes-128-gcm, lengths")
    with pytest.raises(
        encrypted.EncryptionError, match=r"repeated, reordered or left out after the gateway sent them$"
    ):
        everything(connection.cursor(cursor), "sent aes-128-gcm, lengths")
    assert not connection.open


def test_next_result_is_decrypted_even_if_rows_of_the_previous_result_were_not_fetched() -> None:
    """Each ciphertext contains a count. Rows that are never fetched are not decrypted, so their counts are skipped."""
    case = CASES["sm4-gcm, lengths"]
    definitions, rows = packets(case["definitions"]), packets(case["rows"])
    answers = {"first": rows[:4], "second": rows[4:], "again": rows[1:2]}
    connection = opened(
        answers=lambda statement: ResultSet(definitions, answers[statement]) if statement in answers else None
    )
    with connection.cursor(SSCursor) as cursor:
        cursor.execute("first")
        assert cursor.fetchone() == (1, "")
    assert [len(text) for _, text in everything(connection.cursor(), "second")] == [250, 251]
    with pytest.raises(encrypted.EncryptionError, match="reordered"):
        everything(connection.cursor(), "again")


def test_closed_connection_has_erased_its_keys_and_cannot_be_reopened() -> None:
    """The test reads private fields, because nothing else shows that keys were erased."""
    connection = opened()
    everything(connection.cursor(), f"sent {TEXT_CASES[0]}")
    ring, keys = connection._key_ring, connection._session_keys
    assert keys is not None
    held = [*ring._master_keys.values(), keys._data_key, *(k for o in keys._openers.values() for k in o._keys)]
    assert len(held) == 4
    assert all(map(any, held))
    connection.close()
    assert not any(map(any, held))
    with pytest.raises(encrypted.EncryptionError, match=r"erased: open a new connection$"):
        connection.connect(ScriptedMysql(script).client)


def test_lost_connection_can_be_reopened() -> None:
    connection = opened()
    for _ in range(2):
        everything(connection.cursor(), f"sent {TEXT_CASES[0]}")
        connection._force_close()
        connection.connect(ScriptedMysql(script).client)


@pytest.mark.parametrize("wrong", [["people.name"], ["a.b.c.d"], ["d.people.*"], ["d..n"], ["`d`.t.c"], [7], "d.t.c"])
def test_column_that_must_be_encrypted_is_identified_by_database_table_and_column(wrong: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r'must_be_encrypted: .* "database\.table\.column"') as refused:
        encrypted.connect(host="127.0.0.1", master_keys={}, must_be_encrypted=wrong)
    assert "\n" not in str(refused.value)


def opaque() -> ResultSet:
    """Return a result set with an encrypted column that this client has no key to decrypt."""
    [encrypted_column] = [d for d in packets(CASES["a long value"]["definitions"]) if b"costofE2" in d]
    return ResultSet([encrypted_column[: encrypted_column.index(b"costofE2") + 19] + b"\0\0"], [OPAQUE_ROW])


def test_undecryptable_value_is_refused_in_a_column_that_must_be_encrypted() -> None:
    """The server could have sent any bytes instead of a ciphertext. (The test vectors cover plaintext columns.)"""
    case = CASES["aes-128-gcm, text"]
    must = b".".join(definition(packets(case["definitions"])[1]).names).decode().upper()
    with opened(must_be_encrypted=[must]) as connection:
        assert everything(connection.cursor(), "sent aes-128-gcm, text")
    connection = opened({}, ["tpcc.customer.text"], lambda statement: opaque() if statement == "q" else None)
    with pytest.raises(
        encrypted.EncryptionError, match=r"^column tpcc\.customer\.text: this column is listed in must_be_encrypted"
    ):
        everything(connection.cursor(), "q")
    required = RequiredColumns(["Shop.People.ÄName"])
    assert required.include(["shop", "PEOPLE", "äname"])
    assert not required.include(["", "people", "äname"])


def test_column_that_cannot_be_decrypted_is_returned_as_bytes() -> None:
    with (
        opened({}, answers=lambda statement: opaque() if statement == "q" else None) as connection,
        connection.cursor() as cursor,
    ):
        assert everything(cursor, "q") == ((b"\x01\xff\x00",),)
        assert cursor.description[0][1] == pymysql.constants.FIELD_TYPE.BLOB
