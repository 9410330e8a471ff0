"""The ciphertext format and its keys, checked against an independent implementation of encryption.

`seal` encrypts as docs/column-encryption-protocol.md describes, with `cryptography` alone, and shares no code with the
driver.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.keywrap import aes_key_wrap
from cryptography.hazmat.primitives.padding import PKCS7
from hypothesis import given
from hypothesis import strategies as st

from costof.encrypted.envelope import Algorithm, Envelope, OriginalType, RefusedError, RowFormat
from costof.encrypted.keys import KeyRing, SessionKeys
from costof.encrypted.schemes import Opener, make_opener
from tests.support.mysql_packets import binary_row, definition
from tests.support.vectors import BINARY_CASES, CASES, MASTER_KEYS, SALT, packets

NUMBER = 258
ALGORITHMS = st.sampled_from(Algorithm)
COUNTING = st.sampled_from([each for each in Algorithm if each is not Algorithm.AES_128_ECB])
KEYS = st.binary(min_size=16, max_size=16)


@pytest.mark.parametrize("name", BINARY_CASES)
def test_binary_rows_decrypt_to_the_original_values(name: str) -> None:
    """Decrypt single values, because the driver cannot read binary rows: PyMySQL has no prepared statements."""
    case = CASES[name]
    sent, original = (list(map(definition, packets(case[key]))) for key in ("definitions", "original_definitions"))
    keys = KeyRing(MASTER_KEYS).session(SALT)
    for row, original_row in zip(packets(case["rows"]), packets(case["original_rows"]), strict=True):
        values, expected = binary_row(row, sent), binary_row(original_row, original)
        for column, value, expected_value in zip(sent, values, expected, strict=True):
            envelope = Envelope.parse(column.tail)
            if envelope is not None and value is not None:
                value = keys.opener(envelope).open(envelope.associated_data(RowFormat.BINARY, column.names), value)
            assert value == expected_value


def derived(algorithm: Algorithm, data_key: bytes) -> tuple[bytes, bytes]:
    info = b"costof column encryption 2 " + algorithm.label.encode() + NUMBER.to_bytes(4, "big")
    keys = HKDF(SHA256(), length=48, salt=SALT, info=info).derive(data_key)
    return keys[:16], keys[16:]


def run(block: Any, mode: Any, text: bytes) -> bytes:
    encryptor = Cipher(block, mode).encryptor()
    return encryptor.update(text) + encryptor.finalize()


def seal(algorithm: Algorithm, data_key: bytes, count: int, associated: bytes, text: bytes) -> bytes:
    key, mac_key = derived(algorithm, data_key)
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


def opening(algorithm: Algorithm, data_key: bytes = bytes(16)) -> Opener:
    return make_opener(algorithm, data_key, SALT, NUMBER)


@given(ALGORITHMS, KEYS, st.integers(0, 2**32 - 1), st.binary(max_size=60), st.binary(max_size=300))
def test_value_encrypted_as_documented_decrypts_to_the_original(
    algorithm: Algorithm, data_key: bytes, count: int, associated: bytes, text: bytes
) -> None:
    sealed = seal(algorithm, data_key, count, associated, text)
    assert opening(algorithm, data_key).open(associated, sealed) == text


@given(ALGORITHMS, KEYS, st.binary(max_size=60), st.data())
def test_ciphertext_with_any_flipped_bit_is_refused(
    algorithm: Algorithm, data_key: bytes, text: bytes, data: st.DataObject
) -> None:
    sealed = bytearray(seal(algorithm, data_key, 7, b"column", text))
    bit = data.draw(st.integers(0, 8 * len(sealed) - 1))
    sealed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RefusedError):
        opening(algorithm, data_key).open(b"column", bytes(sealed))


@given(ALGORITHMS, st.binary(max_size=60), st.integers(0, 2**32 - 1), st.binary(min_size=32, max_size=32))
def test_ciphertext_is_refused_outside_of_its_session_or_column_and_under_another_key(
    algorithm: Algorithm, text: bytes, number: int, salt: bytes
) -> None:
    key, sealed = bytes(16), seal(algorithm, bytes(16), 7, b"column", text)
    for column, *others in (
        (b"colum", key, SALT, NUMBER),
        (b"column", b"x" * 16, SALT, NUMBER),
        (b"column", key, salt, NUMBER),
        (b"column", key, SALT, number if number != NUMBER else 0),
    ):
        with pytest.raises(RefusedError):
            make_opener(algorithm, *others).open(column, sealed)


@given(ALGORITHMS, st.binary(max_size=80))
def test_arbitrary_bytes_are_refused_as_ciphertext(algorithm: Algorithm, sealed: bytes) -> None:
    for value in (sealed, bytes([algorithm.value]) + sealed):
        with pytest.raises(RefusedError):
            opening(algorithm).open(b"column", value)


@given(COUNTING, KEYS, st.lists(st.integers(0, 2**32 - 1), min_size=2, max_size=6))
def test_ciphertext_is_refused_if_its_counter_repeats_or_decreases(
    algorithm: Algorithm, data_key: bytes, counts: list[int]
) -> None:
    reader, highest = opening(algorithm, data_key), -1
    for count in counts:
        reader.begin()
        sealed = seal(algorithm, data_key, count, b"column", b"text")
        if count > highest:
            assert reader.open(b"column", sealed) == b"text"
            highest = count
        else:
            with pytest.raises(RefusedError, match="reordered"):
                reader.open(b"column", sealed)


@given(COUNTING, st.integers(0, 2**32 - 9), st.integers(2, 8))
def test_decryption_fails_if_a_value_within_a_result_set_was_left_out(
    algorithm: Algorithm, first: int, missing: int
) -> None:
    reader = opening(algorithm)
    for count in (first, first + 1):
        reader.open(b"column", seal(algorithm, bytes(16), count, b"column", b"text"))
    late = seal(algorithm, bytes(16), first + 1 + missing, b"column", b"text")
    with pytest.raises(RefusedError, match="reordered or left out"):
        reader.open(b"column", late)
    reader.begin()
    reader.open(b"column", late)


def envelope_of(number: int, data_key: bytes) -> Envelope:
    wrapped = aes_key_wrap(bytes.fromhex(MASTER_KEYS["app"]), data_key)
    return Envelope(Algorithm.AES_128_GCM, OriginalType(45, 64, 0xFD, 0, 0), "app", number, wrapped)


def test_session_accepts_the_next_data_key_and_refuses_earlier_data_keys() -> None:
    keys = SessionKeys(KeyRing(MASTER_KEYS), SALT)
    first = keys.opener(envelope_of(3, b"1" * 16))
    assert keys.opener(envelope_of(3, b"1" * 16)) is first
    keys.opener(envelope_of(4, b"2" * 16))
    for number, data_key in ((3, b"1" * 16), (4, b"3" * 16), (4, b"1" * 16)):
        with pytest.raises(RefusedError, match="not the session's current one"):
            keys.opener(envelope_of(number, data_key))
    # A key that cannot be unwrapped does not replace the current one.
    with pytest.raises(RefusedError, match="is wrong, or the data key was changed"):
        keys.opener(replace(envelope_of(9, b"4" * 16), wrapped=bytes(24)))
    keys.opener(envelope_of(4, b"2" * 16))
    keys.opener(envelope_of(5, b"2" * 16))


@given(st.binary(max_size=80))
def test_arbitrary_envelopes_are_refused(tail: bytes) -> None:
    for envelope in (tail, b"costofE2" + tail, b"costofE2\1" + bytes(10) + tail):
        try:
            parsed = Envelope.parse(envelope)
        except RefusedError:
            continue
        assert (parsed is None) == (not envelope)
