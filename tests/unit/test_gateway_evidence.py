"""What proves an arm of column encryption: counts of both ends, and a row sample."""

from __future__ import annotations

import dataclasses
import io

import pytest

from costof.services.encryption.gateway import Rules, values_mismatch
from costof.services.encryption.sample import Recorder, Rows, compare

GCM = Rules("mysql-column-encryption/20.toml", "aes-128-gcm")
CONTROL, DIRECT = Rules(None, None), Rules(None, None, direct=True)

PHONE, NAME, STATE, NUMBER = (("customer", name) for name in ("c_phone", "c_last", "c_state", "c_id"))
KEPT: Rows = {
    PHONE: [b"1234567890123456", None],
    NUMBER: [b"17", b"18"],
    NAME: [b"BARBARBAR", b"OUGHTPRI"],
    STATE: [b"QQ", b""],
}
HIDDEN: Rows = {**KEPT, PHONE: [b"\x01cipher-of-a-phone", None], NUMBER: [b"\x01aaaa", b"\x01bbbb"]}


def bytes_of(rows: Rows) -> bytes:
    return b"|".join(value for values in rows.values() for value in values if value is not None)


def test_what_is_encrypted_is_hidden_and_the_rest_is_there() -> None:
    found = compare(KEPT, HIDDEN, bytes_of(HIDDEN), {PHONE, NUMBER})
    assert found.wrong is None
    assert (found.encrypted, found.plain) == (3, 3)
    assert found.told == "3 encrypted values: no plaintext in 53 bytes received; 3 plain values: all in them"


def test_plain_rows_are_told_alone_and_so_are_encrypted_ones() -> None:
    assert compare(KEPT, KEPT, bytes_of(KEPT), set()).told == "6 plain values: all in 45 bytes received"
    every = {column: [b"\x01" + bytes(8)] * 2 for column in KEPT} | {PHONE: [b"\x01" + bytes(8), None]}
    found = compare(KEPT, every, bytes_of(every), set(KEPT))
    assert found.wrong is None
    assert "plain values" not in found.told


def test_plaintext_in_its_own_place_is_found_however_short() -> None:
    found = compare(KEPT, {**HIDDEN, NUMBER: [b"\x01aaaa", b"18"]}, bytes_of(HIDDEN), {PHONE, NUMBER})
    assert found.wrong == "customer.c_id came in plaintext"


def test_plaintext_anywhere_in_the_bytes_is_found() -> None:
    received = bytes_of(HIDDEN) + b"... 1234567890123456 ..."
    assert (
        compare(KEPT, HIDDEN, received, {PHONE}).wrong == "plaintext of customer.c_phone was among the bytes received"
    )


def test_words_that_stand_in_a_plain_column_too_refute_nothing() -> None:
    kept: Rows = {NAME: [b"BARBARBAR"], ("customer", "c_first"): [b"BARBARBAR"]}
    seen: Rows = {NAME: [b"\x01xxxxxxxx"], ("customer", "c_first"): [b"BARBARBAR"]}
    assert compare(kept, seen, bytes_of(seen), {NAME}).wrong is None


def test_a_plain_value_that_did_not_come_refutes_the_arm() -> None:
    spoiled = {**HIDDEN, STATE: [b"\x01secret", b""]}
    wanted = "customer.c_state, which is not encrypted, did not come as it is"
    assert compare(KEPT, spoiled, bytes_of(spoiled), {PHONE, NUMBER}).wrong == wanted


def test_a_recorder_keeps_every_byte_that_is_read() -> None:
    recorder = Recorder(io.BytesIO(b"abcdef"))
    assert recorder.read(2) + recorder.read() == b"abcdef"
    assert recorder.received == b"abcdef"


@pytest.mark.parametrize(
    ("rules", "encrypted", "decrypted", "unread", "told"),
    [
        (GCM, 500, 500, 0, None),
        (GCM, 500, 499, 0, "the gateway encrypted 500 values, the driver decrypted 499"),
        (GCM, 500, 499, 1000, None),
        (GCM, 1600, 500, 1000, "the gateway encrypted 1,600 values, the driver decrypted 500"),
        # What was never encrypted cannot be decrypted, whatever was left unread.
        (GCM, 499, 500, 1000, "the gateway encrypted 499 values, the driver decrypted 500"),
        (GCM, 0, 0, 0, "the gateway encrypted nothing"),
        (CONTROL, 0, 0, 0, None),
        (DIRECT, 0, 0, 0, None),
        (CONTROL, 1, 0, 0, "the gateway encrypted 1 values and the driver decrypted 0 without a rule"),
    ],
)
def test_both_ends_count_the_same_values(
    rules: Rules, encrypted: int, decrypted: int, unread: int, told: str | None
) -> None:
    assert values_mismatch(rules, encrypted, decrypted, 10, unread) == told


def test_rules_of_an_arm_are_what_its_levels_ask_of_the_gateway() -> None:
    assert (GCM.encrypts, CONTROL.encrypts, DIRECT.encrypts) == (True, False, False)
    assert (GCM.name, CONTROL.name) == ("20-aes-128-gcm", "none")
    assert dataclasses.replace(GCM, algorithm="sm4-gcm") != GCM
