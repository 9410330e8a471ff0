"""The application's driver, against the vectors that the engine's driver is checked against too."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from cryptography.hazmat.primitives.padding import PKCS7
from hypothesis import given
from hypothesis import strategies as st
from pymysql.cursors import Cursor, DictCursor, SSCursor, SSDictCursor

from costof import encrypted
from costof.encrypted.ciphertext import (
    Algorithm,
    Demands,
    Envelope,
    KeyRing,
    Opener,
    OriginalType,
    RefusedError,
    RowFormat,
    SessionKeys,
    opener,
    session_salt,
)
from tests.support.scripted_mysql import ResultSet, ScriptedMysql

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "column-encryption.json").read_text())
CASES = {case["name"]: case for case in VECTORS["cases"]}
REFUSED = {case["name"]: case for case in VECTORS["refused"]}
TEXT_CASES = [name for name, case in CASES.items() if case["format"] == "text"]
BINARY_CASES = [name for name, case in CASES.items() if case["format"] == "binary"]
MASTER_KEYS = VECTORS["master_keys"]
# `ScriptedMysql` greets with the vectors' scramble.
CLIENT_NONCE = bytes.fromhex(VECTORS["nonce"])
SALT = session_salt(VECTORS["scramble"].encode(), CLIENT_NONCE)
CURSORS = [Cursor, SSCursor, DictCursor, SSDictCursor]


def packets(written: list[str]) -> list[bytes]:
    return [bytes.fromhex(packet) for packet in written]


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


def reading(master_keys: dict[str, str], must_be_encrypted: Iterable[str] = ()) -> encrypted.Connection:
    connection = encrypted.Connection(
        master_keys=master_keys, must_be_encrypted=must_be_encrypted, user="u", defer_connect=True
    )
    connection.connect(ScriptedMysql(script).client)
    return connection


def everything(cursor: Cursor, statement: str) -> Any:
    cursor.execute(statement)
    return cursor.fetchall()


@pytest.fixture
def connection() -> Iterator[encrypted.Connection]:
    with reading(MASTER_KEYS) as opened:
        yield opened


@pytest.fixture
def plain() -> Iterator[Any]:
    with pymysql.Connection(user="u", defer_connect=True) as opened:
        opened.connect(ScriptedMysql(script).client)
        yield opened


@pytest.mark.parametrize("name", TEXT_CASES)
@pytest.mark.parametrize("cursor", CURSORS)
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
    with connection.cursor() as cursor:
        cursor.execute("sent a long value")
        [(_, text)] = cursor.fetchall()
    row = b"\x011" + b"\xfd" + len(text).to_bytes(3, "little") + text.encode()
    assert CASES["a long value"]["original_rows"] == [{"sha256": hashlib.sha256(row).hexdigest()}]


@pytest.mark.parametrize("name", BINARY_CASES)
def test_values_of_binary_rows(name: str) -> None:
    """PyMySQL has no prepared statements: the values alone."""
    case = CASES[name]
    sent, original = packets(case["definitions"]), packets(case["original_definitions"])
    keys = KeyRing(MASTER_KEYS).session(SALT)
    for row, original_row in zip(packets(case["rows"]), packets(case["original_rows"]), strict=True):
        values, expected = binary_row(row, sent), binary_row(original_row, original)
        for definition, value, wanted in zip(sent, values, expected, strict=True):
            names, tail = taken_apart(definition)
            envelope = Envelope.parse(tail)
            if envelope is not None and value is not None:
                value = keys.opener(envelope).open(envelope.associated_data(RowFormat.BINARY, names), value)
            assert value == wanted


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_what_was_changed_is_one_error_without_values(name: str, cursor: type[Cursor]) -> None:
    case = REFUSED[name]
    connection = reading({"app": case["master_key"]}, case["must_be_encrypted"])
    with pytest.raises(encrypted.EncryptionError) as refused:
        everything(connection.cursor(cursor), f"sent {name}")
    said = str(refused.value)
    assert said.startswith("column tpcc.customer.c_")
    assert "\n" not in said
    assert not any(secret in said for secret in ("Ann", "OUGHT", case["master_key"]))
    assert isinstance(refused.value, pymysql.err.DatabaseError)
    assert not connection.open


def test_a_key_that_is_missing_is_named() -> None:
    connection = reading({"other": MASTER_KEYS["app"]})
    with pytest.raises(encrypted.EncryptionError, match="master key 'app', which is not among"):
        connection.cursor().execute(f"sent {TEXT_CASES[0]}")


@pytest.mark.parametrize("key", ["", "00", "0011223344556677889900aabbccddeg", b"short", 16])
def test_what_is_no_key_is_said_and_not_shown(key: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r"^a master key is 16 bytes, or 32 hexadecimal digits$"):
        encrypted.connect(host="127.0.0.1", master_keys={"app": key})


def test_keys_are_bytes_too() -> None:
    connection = reading({"app": bytes.fromhex(MASTER_KEYS["app"])})  # type: ignore[dict-item]
    with connection, connection.cursor() as cursor:
        assert cursor.execute(f"sent {TEXT_CASES[0]}") == 2


def test_a_client_says_that_it_decrypts() -> None:
    server = ScriptedMysql(script)
    connection = encrypted.Connection(master_keys={}, user="u", defer_connect=True)
    connection.connect(server.client)
    connection.close()
    assert b"\x10costof_encrypted\x011\x0ccostof_nonce\x40" + VECTORS["nonce"].encode() in server.said_hello


def test_each_connection_has_a_nonce_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    said = []
    connection = encrypted.Connection(master_keys={}, user="u", defer_connect=True)
    for _ in range(2):
        server = ScriptedMysql(script)
        connection.connect(server.client)
        said.append(server.said_hello.partition(b"\x0ccostof_nonce\x40")[2][:64])
        connection._force_close()
    assert len({bytes.fromhex(nonce.decode()) for nonce in said}) == 2


@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_an_answer_of_the_same_session_is_refused_the_second_time(
    connection: encrypted.Connection, cursor: type[Cursor]
) -> None:
    name = "aes-128-gcm, lengths"
    assert everything(connection.cursor(cursor), f"sent {name}")
    with pytest.raises(encrypted.EncryptionError, match=r"twice, out of order, or where another is missing$"):
        everything(connection.cursor(cursor), f"sent {name}")
    assert not connection.open


def test_rows_that_nobody_fetched_leave_a_gap_alone() -> None:
    """Of a result that goes by without being read, nothing is decrypted."""
    case = CASES["sm4-gcm, lengths"]
    definitions, rows = packets(case["definitions"]), packets(case["rows"])
    answers = {"first": rows[:4], "second": rows[4:], "again": rows[1:2]}
    server = ScriptedMysql(lambda said: ResultSet(definitions, answers[said]) if said in answers else None)
    connection = encrypted.Connection(master_keys=MASTER_KEYS, user="u", defer_connect=True)
    connection.connect(server.client)
    cursor = connection.cursor(SSCursor)
    cursor.execute("first")
    assert cursor.fetchone() == (1, "")
    cursor.close()
    assert [len(text) for _, text in everything(connection.cursor(), "second")] == [250, 251]
    with pytest.raises(encrypted.EncryptionError, match="out of order"):
        everything(connection.cursor(), "again")


def test_a_closed_connection_has_erased_its_keys_and_stays_closed() -> None:
    connection = reading(MASTER_KEYS)
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
    connection = reading(MASTER_KEYS)
    for _ in range(2):
        everything(connection.cursor(), f"sent {TEXT_CASES[0]}")
        connection._force_close()
        connection.connect(ScriptedMysql(script).client)


@pytest.mark.parametrize("wrong", [["people.name"], ["a.b.c.d"], ["d.people.*"], ["d..n"], ["`d`.t.c"], [7], "d.t.c"])
def test_a_demand_is_a_name_of_three_parts(wrong: Any) -> None:
    with pytest.raises(encrypted.EncryptionError, match=r'must_be_encrypted: .* "database\.table\.column"') as refused:
        encrypted.connect(host="127.0.0.1", master_keys={}, must_be_encrypted=wrong)
    assert "\n" not in str(refused.value)


def test_a_demand_is_met_by_ciphertext_that_can_be_read() -> None:
    """And by nothing else: anyone can write what nobody there can read. The vectors have what is plain."""
    case = CASES["aes-128-gcm, text"]
    (database, table, column), _ = taken_apart(packets(case["definitions"])[1])
    must = b".".join((database, table, column)).decode().upper()
    with reading(MASTER_KEYS, [must]) as connection:
        assert everything(connection.cursor(), "sent aes-128-gcm, text")
    opaque = ResultSet([opaque_definition()], [b"\x03\x01\xff\x00"])
    connection = encrypted.Connection(
        master_keys={}, must_be_encrypted=["tpcc.customer.text"], user="u", defer_connect=True
    )
    connection.connect(ScriptedMysql(lambda said: opaque if said == "q" else None).client)
    with pytest.raises(encrypted.EncryptionError, match=r"^column tpcc\.customer\.text: it must be encrypted"):
        everything(connection.cursor(), "q")


def test_demands_are_names_in_any_case() -> None:
    demands = Demands(["Shop.People.ÄName"])
    assert demands.mean(["shop", "PEOPLE", "äname"])
    assert not demands.mean(["", "people", "äname"])


def opaque_definition() -> bytes:
    [definition] = [d for d in packets(CASES["a long value"]["definitions"]) if b"costofE2" in d]
    return definition[: definition.index(b"costofE2") + 19] + b"\0\0"


def test_what_nobody_here_can_decrypt_is_bytes() -> None:
    """PyMySQL takes a BLOB as it is, and so do we."""
    opaque = opaque_definition()
    result = ResultSet([opaque], [b"\x03\x01\xff\x00"])
    connection = encrypted.Connection(master_keys={}, user="u", defer_connect=True)
    connection.connect(ScriptedMysql(lambda statement: result if statement == "q" else None).client)
    with connection, connection.cursor() as cursor:
        cursor.execute("q")
        assert cursor.fetchall() == ((b"\x01\xff\x00",),)
        assert cursor.description[0][1] == pymysql.constants.FIELD_TYPE.BLOB


# What follows seals by the parts of `cryptography`, as the document says and not as the reader is written.


def keys(algorithm: Algorithm, data_key: bytes) -> tuple[bytes, bytes]:
    info = b"costof column encryption 2 " + algorithm.label.encode() + NUMBER.to_bytes(4, "big")
    derived = HKDF(SHA256(), length=48, salt=SALT, info=info).derive(data_key)
    return derived[:16], derived[16:]


def seal(algorithm: Algorithm, data_key: bytes, count: int, associated: bytes, text: bytes) -> bytes:
    key, mac_key = keys(algorithm, data_key)
    block = algorithms.SM4(key) if algorithm.name.startswith("SM4") else algorithms.AES(key)
    number = bytes([algorithm.value])
    if algorithm.name.endswith("GCM"):
        nonce = count.to_bytes(12, "big")
        encryptor: Any = Cipher(block, modes.GCM(nonce)).encryptor()
        encryptor.authenticate_additional_data(associated)
        return number + nonce + encryptor.update(text) + encryptor.finalize() + encryptor.tag
    padder = PKCS7(128).padder()
    padded = padder.update(text) + padder.finalize()
    if algorithm is Algorithm.AES_128_CTR:
        first = struct.pack(">QQ", count, 0)
        value = number + first + run(block, modes.CTR(first), text)
    elif algorithm is Algorithm.AES_128_ECB:
        value = number + run(block, modes.ECB(), padded)  # noqa: S305
    else:
        iv = run(block, modes.ECB(), count.to_bytes(16, "big"))  # noqa: S305
        value = number + iv + run(block, modes.CBC(iv), padded)
    length = len(associated).to_bytes(8, "big")
    return value + hmac.digest(mac_key, associated + value + length, "sha256")[:16]


def run(block: Any, mode: Any, text: bytes) -> bytes:
    encryptor = Cipher(block, mode).encryptor()
    return encryptor.update(text) + encryptor.finalize()


def opening(algorithm: Algorithm, data_key: bytes) -> Opener:
    return opener(algorithm, data_key, SALT, NUMBER)


NUMBER = 258
ALGORITHMS = st.sampled_from(Algorithm)
COUNTING = st.sampled_from([each for each in Algorithm if each is not Algorithm.AES_128_ECB])
KEYS = st.binary(min_size=16, max_size=16)


@given(ALGORITHMS, KEYS, st.integers(0, 2**32 - 1), st.binary(max_size=60), st.binary(max_size=300))
def test_what_was_sealed_opens(
    algorithm: Algorithm, data_key: bytes, count: int, associated: bytes, text: bytes
) -> None:
    sealed = seal(algorithm, data_key, count, associated, text)
    assert opening(algorithm, data_key).open(associated, sealed) == text


@given(ALGORITHMS, KEYS, st.binary(max_size=60), st.data())
def test_any_flipped_bit_is_refused(algorithm: Algorithm, data_key: bytes, text: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(algorithm, data_key, 7, b"column", text))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RefusedError):
        opening(algorithm, data_key).open(b"column", bytes(sealed))


@given(ALGORITHMS, st.binary(max_size=60))
def test_another_column_or_key_is_refused(algorithm: Algorithm, text: bytes) -> None:
    sealed = seal(algorithm, bytes(16), 7, b"column", text)
    for data_key, associated in ((bytes(16), b"colum"), (b"x" * 16, b"column")):
        with pytest.raises(RefusedError):
            opening(algorithm, data_key).open(associated, sealed)


@given(ALGORITHMS, st.binary(max_size=80))
def test_arbitrary_bytes_are_refused(algorithm: Algorithm, sealed: bytes) -> None:
    for value in (sealed, bytes([algorithm.value]) + sealed):
        with pytest.raises(RefusedError):
            opening(algorithm, bytes(16)).open(b"column", value)


@given(ALGORITHMS, KEYS, st.binary(max_size=60), st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32))
def test_another_session_or_number_is_refused(
    algorithm: Algorithm, data_key: bytes, text: bytes, number: int, salt: bytes
) -> None:
    sealed = seal(algorithm, data_key, 7, b"column", text)
    for other in ((salt, NUMBER), (SALT, number if number != NUMBER else 0)):
        with pytest.raises(RefusedError):
            opener(algorithm, data_key, *other).open(b"column", sealed)


@given(COUNTING, KEYS, st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=6))
def test_counts_rise_or_are_refused(algorithm: Algorithm, data_key: bytes, counts: list[int]) -> None:
    reader = opening(algorithm, data_key)
    highest = -1
    for count in counts:
        reader.begin()
        sealed = seal(algorithm, data_key, count, b"column", b"text")
        if count > highest:
            assert reader.open(b"column", sealed) == b"text"
            highest = count
        else:
            with pytest.raises(RefusedError, match="out of order"):
                reader.open(b"column", sealed)


@given(COUNTING, st.integers(0, 2**32 - 9), st.integers(2, 8))
def test_none_is_missing_within_a_result_set(algorithm: Algorithm, first: int, missing: int) -> None:
    reader = opening(algorithm, bytes(16))
    for count in (first, first + 1):
        reader.open(b"column", seal(algorithm, bytes(16), count, b"column", b"text"))
    late = seal(algorithm, bytes(16), first + 1 + missing, b"column", b"text")
    with pytest.raises(RefusedError, match="where another is missing"):
        reader.open(b"column", late)
    reader.begin()
    reader.open(b"column", late)


def envelope_of(number: int, data_key: bytes, algorithm: Algorithm = Algorithm.AES_128_GCM) -> Envelope:
    wrapped = aes_key_wrap(bytes.fromhex(MASTER_KEYS["app"]), data_key)
    return Envelope(algorithm, OriginalType(45, 64, 0xFD, 0, 0), "app", number, wrapped)


def test_a_session_goes_on_to_its_next_key_and_never_back() -> None:
    keys = SessionKeys(KeyRing(MASTER_KEYS), SALT)
    first = keys.opener(envelope_of(3, b"1" * 16))
    assert keys.opener(envelope_of(3, b"1" * 16)) is first
    keys.opener(envelope_of(4, b"2" * 16))
    for number, data_key in ((3, b"1" * 16), (4, b"3" * 16), (4, b"1" * 16)):
        with pytest.raises(RefusedError, match="not the session's present one"):
            keys.opener(envelope_of(number, data_key))
    # One that cannot be unwrapped takes nobody's place.
    changed = replace(envelope_of(9, b"4" * 16), wrapped=bytes(24))
    with pytest.raises(RefusedError, match="another one, or the data key was changed"):
        keys.opener(changed)
    keys.opener(envelope_of(4, b"2" * 16))
    keys.opener(envelope_of(5, b"2" * 16))


@given(st.binary(max_size=80))
def test_arbitrary_envelopes_are_refused(tail: bytes) -> None:
    for envelope in (tail, b"costofE2" + tail, b"costofE2\1" + bytes(10) + tail):
        try:
            found = Envelope.parse(envelope)
        except RefusedError:
            continue
        assert (found is None) == (not envelope)


def lenenc(packet: bytes, at: int) -> tuple[bytes, int]:
    """A length-encoded string and where the next begins."""
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(packet[at], 0)
    length = int.from_bytes(packet[at + 1 : at + 1 + width], "little") if width else packet[at]
    start = at + 1 + width
    return packet[start : start + length], start + length


def taken_apart(definition: bytes) -> tuple[tuple[bytes, bytes, bytes], bytes]:
    """A column's original names, and what follows its definition."""
    texts, at = [], 0
    for _ in range(6):
        text, at = lenenc(definition, at)
        texts.append(text)
    return (texts[1], texts[3], texts[5]), definition[at + 13 :]


def binary_row(row: bytes, definitions: list[bytes]) -> list[bytes | None]:
    """MySQL Internals, "Binary Protocol Resultset Row": its values without their lengths."""
    fixed = {1: 1, 2: 2, 13: 2, 3: 4, 4: 4, 5: 8, 8: 8}
    values: list[bytes | None] = []
    at = 1 + (len(definitions) + 9) // 8
    for number, definition in enumerate(definitions, 2):
        _, tail = taken_apart(definition)
        kind = definition[len(definition) - len(tail) - 6]
        if row[1 + number // 8] & 1 << number % 8:
            values.append(None)
        elif kind in fixed:
            values.append(row[at : at + fixed[kind]])
            at += fixed[kind]
        else:
            value, at = lenenc(row, at)
            values.append(value)
    assert at == len(row)
    return values
