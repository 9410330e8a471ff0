"""The application's driver, against the vectors that the engine's driver is checked against too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pymysql
import pytest
from pymysql.cursors import Cursor, DictCursor, SSCursor, SSDictCursor

from costof import encrypted
from costof.encrypted.demands import Demands
from tests.support.mysql_packets import definition
from tests.support.scripted_mysql import ResultSet, ScriptedMysql
from tests.support.vectors import CASES, CLIENT_NONCE, MASTER_KEYS, REFUSED, TEXT_CASES, VECTORS, packets

OPAQUE_ROW = b"\x03\x01\xff\x00"


def script(statement: str) -> ResultSet | None:
    """`sent NAME` and `original NAME` are answered by that case."""
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
    """Each connection of these tests is the vectors' session."""
    monkeypatch.setattr(encrypted.secrets, "token_bytes", lambda count: CLIENT_NONCE[:count])


def opened(
    master_keys: dict[str, Any] = MASTER_KEYS,
    must_be_encrypted: Iterable[str] = (),
    answers: Callable[[str], ResultSet | None] = script,
) -> encrypted.Connection:
    """A connection to a server that answers so."""
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
@pytest.mark.parametrize("cursor", [Cursor, SSCursor, DictCursor, SSDictCursor])
def test_cursors_give_what_they_give_without_a_gateway(
    connection: encrypted.Connection, plain: Any, name: str, cursor: type[Cursor]
) -> None:
    with connection.cursor(cursor) as ours, plain.cursor(cursor) as theirs:
        ours.execute(f"sent {name}")
        theirs.execute(f"original {name}")
        assert ours.description == theirs.description
        if "a long value" not in name:
            assert list(ours.fetchall()) == list(theirs.fetchall())


def test_a_value_that_fills_a_packet_comes_back(connection: encrypted.Connection) -> None:
    [(_, text)] = everything(connection.cursor(), "sent a long value")
    row = b"\x011" + b"\xfd" + len(text).to_bytes(3, "little") + text.encode()
    assert CASES["a long value"]["original_rows"] == [{"sha256": hashlib.sha256(row).hexdigest()}]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_what_was_changed_is_one_error_without_values(name: str, cursor: type[Cursor]) -> None:
    case = REFUSED[name]
    connection = opened({"app": case["master_key"]}, case["must_be_encrypted"])
    with pytest.raises(encrypted.EncryptionError) as refused:
        everything(connection.cursor(cursor), f"sent {name}")
    said = str(refused.value)
    assert said.startswith("column tpcc.customer.c_")
    assert "\n" not in said
    assert not any(secret in said for secret in ("Ann", "OUGHT", case["master_key"]))
    assert isinstance(refused.value, pymysql.err.DatabaseError)
    assert not connection.open


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(encrypted.EncryptionError, match="master key 'app', which is not among"):
        everything(opened({"other": MASTER_KEYS["app"]}).cursor(), f"sent {TEXT_CASES[0]}")


@pytest.mark.parametrize("key", ["", "00", "0011223344556677889900aabbccddeg", b"short", 16])
def test_what_is_no_key_is_said_and_not_shown(key: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r"^a master key is 16 bytes, or 32 hexadecimal digits$"):
        encrypted.connect(host="127.0.0.1", master_keys={"app": key})


def greeting(server: ScriptedMysql) -> bytes:
    """What a client says to a server that it connects to."""
    connection = encrypted.Connection(master_keys={}, user="u", ssl_disabled=True, defer_connect=True)
    connection.connect(server.client)
    connection.close()
    return server.said_hello


def test_a_client_says_that_it_decrypts_with_a_nonce_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    said = greeting(ScriptedMysql(script))
    assert b"\x10costof_encrypted\x011\x0ccostof_nonce\x40" + VECTORS["nonce"].encode() in said
    monkeypatch.undo()
    nonces = {greeting(ScriptedMysql(script)).partition(b"\x0ccostof_nonce\x40")[2][:64] for _ in range(2)}
    assert len({bytes.fromhex(nonce.decode()) for nonce in nonces}) == 2


@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_an_answer_of_the_same_session_is_refused_the_second_time(
    connection: encrypted.Connection, cursor: type[Cursor]
) -> None:
    assert everything(connection.cursor(cursor), "sent aes-128-gcm, lengths")
    with pytest.raises(encrypted.EncryptionError, match=r"twice, out of order, or where another is missing$"):
        everything(connection.cursor(cursor), "sent aes-128-gcm, lengths")
    assert not connection.open


def test_rows_that_nobody_fetched_leave_a_gap_alone() -> None:
    """Of a result that goes by without being read, nothing is decrypted."""
    case = CASES["sm4-gcm, lengths"]
    definitions, rows = packets(case["definitions"]), packets(case["rows"])
    answers = {"first": rows[:4], "second": rows[4:], "again": rows[1:2]}
    connection = opened(answers=lambda said: ResultSet(definitions, answers[said]) if said in answers else None)
    with connection.cursor(SSCursor) as cursor:
        cursor.execute("first")
        assert cursor.fetchone() == (1, "")
    assert [len(text) for _, text in everything(connection.cursor(), "second")] == [250, 251]
    with pytest.raises(encrypted.EncryptionError, match="out of order"):
        everything(connection.cursor(), "again")


def test_a_closed_connection_has_erased_its_keys_and_stays_closed() -> None:
    """What is erased is seen nowhere but in what held it."""
    connection = opened()
    everything(connection.cursor(), f"sent {TEXT_CASES[0]}")
    ring, keys = connection._key_ring, connection._session_keys
    assert keys is not None
    held = [*ring._master_keys.values(), keys._data_key, *(k for o in keys._openers.values() for k in o._keys)]
    assert len(held) == 4
    assert all(map(any, held))
    connection.close()
    assert not any(map(any, held))
    with pytest.raises(encrypted.EncryptionError, match=r"erased with it: connect anew$"):
        connection.connect(ScriptedMysql(script).client)


def test_a_connection_that_was_lost_is_opened_again() -> None:
    connection = opened()
    for _ in range(2):
        everything(connection.cursor(), f"sent {TEXT_CASES[0]}")
        connection._force_close()
        connection.connect(ScriptedMysql(script).client)


@pytest.mark.parametrize("wrong", [["people.name"], ["a.b.c.d"], ["d.people.*"], ["d..n"], ["`d`.t.c"], [7], "d.t.c"])
def test_a_demand_is_a_name_of_three_parts(wrong: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r'must_be_encrypted: .* "database\.table\.column"') as refused:
        encrypted.connect(host="127.0.0.1", master_keys={}, must_be_encrypted=wrong)
    assert "\n" not in str(refused.value)


def opaque() -> ResultSet:
    """A column that nobody here can decrypt."""
    [found] = [d for d in packets(CASES["a long value"]["definitions"]) if b"costofE2" in d]
    return ResultSet([found[: found.index(b"costofE2") + 19] + b"\0\0"], [OPAQUE_ROW])


def test_a_demand_is_met_by_ciphertext_that_can_be_read() -> None:
    """And by nothing else: anyone can write what nobody there can read. The vectors have what is plain."""
    case = CASES["aes-128-gcm, text"]
    must = b".".join(definition(packets(case["definitions"])[1]).names).decode().upper()
    with opened(must_be_encrypted=[must]) as connection:
        assert everything(connection.cursor(), "sent aes-128-gcm, text")
    connection = opened({}, ["tpcc.customer.text"], lambda said: opaque() if said == "q" else None)
    with pytest.raises(encrypted.EncryptionError, match=r"^column tpcc\.customer\.text: it must be encrypted"):
        everything(connection.cursor(), "q")
    demands = Demands(["Shop.People.ÄName"])
    assert demands.mean(["shop", "PEOPLE", "äname"])
    assert not demands.mean(["", "people", "äname"])


def test_what_nobody_here_can_decrypt_is_bytes() -> None:
    """PyMySQL takes a BLOB as it is, and so do we."""
    with (
        opened({}, answers=lambda said: opaque() if said == "q" else None) as connection,
        connection.cursor() as cursor,
    ):
        assert everything(cursor, "q") == ((b"\x01\xff\x00",),)
        assert cursor.description[0][1] == pymysql.constants.FIELD_TYPE.BLOB
