"""The application's driver, against the vectors that the engine's driver is checked against too."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.padding import PKCS7
from hypothesis import given
from hypothesis import strategies as st
from pymysql.cursors import Cursor, DictCursor, SSCursor, SSDictCursor

from costof import encrypted
from costof.column_encryption import Algorithm, Envelope, KeyRing, RefusedError, RowFormat, opener
from tests.scripted_mysql import ResultSet, ScriptedMysql

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "column-encryption.json").read_text())
CASES = {case["name"]: case for case in VECTORS["cases"]}
REFUSED = {case["name"]: case for case in VECTORS["refused"]}
TEXT_CASES = [name for name, case in CASES.items() if case["format"] == "text"]
BINARY_CASES = [name for name, case in CASES.items() if case["format"] == "binary"]
MASTER_KEYS = VECTORS["master_keys"]
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


def reading(master_keys: dict[str, str]) -> encrypted.Connection:
    connection = encrypted.Connection(master_keys=master_keys, user="u", defer_connect=True)
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
    ring = KeyRing(MASTER_KEYS)
    for row, original_row in zip(packets(case["rows"]), packets(case["original_rows"]), strict=True):
        values, expected = binary_row(row, sent), binary_row(original_row, original)
        for definition, value, wanted in zip(sent, values, expected, strict=True):
            names, tail = taken_apart(definition)
            envelope = Envelope.parse(tail)
            if envelope is not None and value is not None:
                value = ring.opener(envelope).open(envelope.associated_data(RowFormat.BINARY, names), value)
            assert value == wanted


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("cursor", [Cursor, SSCursor])
def test_what_was_changed_is_one_error_without_values(name: str, cursor: type[Cursor]) -> None:
    case = REFUSED[name]
    connection = reading({"app": case["master_key"]})
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
    assert b"\x10costof_encrypted\x011" in server.said_hello


def test_what_nobody_here_can_decrypt_is_bytes() -> None:
    """PyMySQL takes a BLOB as it is, and so do we."""
    [definition] = [d for d in packets(CASES["a long value"]["definitions"]) if b"costofE1" in d]
    opaque = definition[: definition.index(b"costofE1") + 19] + b"\0\0"
    result = ResultSet([opaque], [b"\x03\x01\xff\x00"])
    connection = encrypted.Connection(master_keys={}, user="u", defer_connect=True)
    connection.connect(ScriptedMysql(lambda statement: result if statement == "q" else None).client)
    with connection, connection.cursor() as cursor:
        cursor.execute("q")
        assert cursor.fetchall() == ((b"\x01\xff\x00",),)
        assert cursor.description[0][1] == pymysql.constants.FIELD_TYPE.BLOB


# What follows seals by the parts of `cryptography`, as the document says and not as the reader is written.


def keys(algorithm: Algorithm, data_key: bytes) -> tuple[bytes, bytes]:
    info = b"costof column encryption 1 " + algorithm.label.encode()
    derived = HKDF(SHA256(), length=48, salt=None, info=info).derive(data_key)
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


ALGORITHMS = st.sampled_from(Algorithm)
KEYS = st.binary(min_size=16, max_size=16)


@given(ALGORITHMS, KEYS, st.integers(0, 2**32 - 1), st.binary(max_size=60), st.binary(max_size=300))
def test_what_was_sealed_opens(
    algorithm: Algorithm, data_key: bytes, count: int, associated: bytes, text: bytes
) -> None:
    sealed = seal(algorithm, data_key, count, associated, text)
    assert opener(algorithm, data_key).open(associated, sealed) == text


@given(ALGORITHMS, KEYS, st.binary(max_size=60), st.data())
def test_any_flipped_bit_is_refused(algorithm: Algorithm, data_key: bytes, text: bytes, data: st.DataObject) -> None:
    sealed = bytearray(seal(algorithm, data_key, 7, b"column", text))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RefusedError):
        opener(algorithm, data_key).open(b"column", bytes(sealed))


@given(ALGORITHMS, st.binary(max_size=60))
def test_another_column_or_key_is_refused(algorithm: Algorithm, text: bytes) -> None:
    sealed = seal(algorithm, bytes(16), 7, b"column", text)
    for data_key, associated in ((bytes(16), b"colum"), (b"x" * 16, b"column")):
        with pytest.raises(RefusedError):
            opener(algorithm, data_key).open(associated, sealed)


@given(ALGORITHMS, st.binary(max_size=80))
def test_arbitrary_bytes_are_refused(algorithm: Algorithm, sealed: bytes) -> None:
    for value in (sealed, bytes([algorithm.value]) + sealed):
        with pytest.raises(RefusedError):
            opener(algorithm, bytes(16)).open(b"column", value)


@given(st.binary(max_size=80))
def test_arbitrary_envelopes_are_refused(tail: bytes) -> None:
    for envelope in (tail, b"costofE1" + tail, b"costofE1\1" + bytes(10) + tail):
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
