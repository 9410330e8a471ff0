"""Column encryption: rules for a percentage of the columns, and verification of arms by counts and sample rows."""

from __future__ import annotations

import io
import tomllib

import pytest
from pydantic import SecretStr

from costof.datasets import tpcc
from costof.services.encryption.gateway import Rules, values_mismatch
from costof.services.encryption.rules import (
    COLUMNS,
    Account,
    CatalogueAccount,
    approved_statements,
    column_groups,
    encrypted_columns,
    rules_text,
    sample_statement,
)
from costof.services.encryption.sample import Recorder, Rows, compare
from costof.study.library import load_study

SHARES = {share: f"mysql-column-encryption/{share}.toml" for share in (20, 50, 100)}
CATALOGUE = CatalogueAccount("catalogue", SecretStr('pass"word'))


@pytest.mark.parametrize(("share", "level"), SHARES.items())
def test_each_share_of_encrypted_columns_contains_its_percentage_of_the_existing_columns(
    share: int, level: str
) -> None:
    assert len(COLUMNS) == len(set(COLUMNS)) == 92
    assert len(encrypted_columns(level)) == round(share / 100 * len(COLUMNS))
    named = [column for group in column_groups(level) for column in group.columns]
    assert len(named) == len(set(named))
    for column in named:
        table, name = column.split(".")
        assert (table, name) in COLUMNS or (name == "*" and table in tpcc.COLUMNS), column
    assert all(group.why for group in column_groups(level))


def test_larger_share_of_encrypted_columns_includes_all_columns_of_smaller_shares() -> None:
    twenty, fifty, every = (set(encrypted_columns(level)) for level in SHARES.values())
    assert twenty < fifty < every == set(COLUMNS)
    study = load_study("mysql-column-encryption")
    levels = study.factors["encrypted"].levels
    assert [study.arm_settings({"encrypted": level}).lab.get("columns") for level in levels] == [
        None,
        None,
        *SHARES.values(),
    ]
    assert not column_groups(None)


def test_gateway_rules_match_the_encrypted_share_of_columns_and_the_accounts() -> None:
    name, level = 'a "b"\\ü', SHARES[50]
    accounts = [Account(name, "ciphertext", "key"), Account("admin", "plaintext")]
    rules = tomllib.loads(rules_text(level, "shop", "sm4-gcm", accounts, {"key": SecretStr("0f" * 16)}, CATALOGUE))
    assert rules["algorithm"] == "sm4-gcm"
    assert rules["master_keys"] == {"key": "0f" * 16}
    assert rules["check"] == {"username": "catalogue", "password": 'pass"word'}
    texts = [each["text"] for each in rules["statements"]]
    assert texts[:9] == [sample_statement("shop", table, "?") for table in tpcc.TABLES]
    assert texts[9:] == [each.text for each in approved_statements(level)]
    guarded = {"name": name, "role": "ciphertext", "master_key": "key"}
    assert rules["accounts"] == [guarded, {"name": "admin", "role": "plaintext"}]
    assert {each["database"] for each in rules["columns"]} == {"shop"}
    assert {(each["table"], each["column"]) for each in rules["columns"]} == set(encrypted_columns(level))


def test_gateway_rules_of_an_arm_without_encryption_list_accounts_and_no_columns() -> None:
    rules = tomllib.loads(rules_text(None, "shop", None, [Account("a", "opaque")], {}, CATALOGUE))
    assert not {"columns", "check", "statements"} & set(rules)
    assert rules["accounts"] == [{"name": "a", "role": "opaque"}]


@pytest.mark.parametrize(("share", "outputs"), [(20, ["plain", "encrypt"]), (100, ["encrypt", "encrypt"])])
def test_output_computed_from_an_encrypted_column_is_encrypted(share: int, outputs: list[str]) -> None:
    statements = approved_statements(SHARES[share])
    by_text = {
        each.text: each.outputs(encrypted_columns(SHARES[share])) for each in statements if each.made_of is not None
    }
    (oldest,) = (verdicts for text, verdicts in by_text.items() if text.startswith("SELECT no_d_id"))
    assert oldest == outputs
    (count,) = (verdicts for text, verdicts in by_text.items() if text.startswith("SELECT COUNT"))
    assert count == ["plain"], "a count shows no value"
    named = {name for each in statements for columns in each.made_of or [] for name in columns}
    assert {tuple(name.split(".")) for name in named} <= set(COLUMNS)


PHONE, NAME, STATE, NUMBER = (("customer", name) for name in ("c_phone", "c_last", "c_state", "c_id"))
STORED: Rows = {
    PHONE: [b"1234567890123456", None],
    NUMBER: [b"17", b"18"],
    NAME: [b"BARBARBAR", b"OUGHTPRI"],
    STATE: [b"QQ", b""],
}
RECEIVED: Rows = {**STORED, PHONE: [b"\x01cipher-of-a-phone", None], NUMBER: [b"\x01aaaa", b"\x01bbbb"]}
ENCRYPTED = {PHONE, NUMBER}


def joined(rows: Rows) -> bytes:
    return b"|".join(value for values in rows.values() for value in values if value is not None)


def test_encrypted_and_plain_values_in_a_sample_of_rows_are_counted() -> None:
    sample = compare(STORED, RECEIVED, joined(RECEIVED), ENCRYPTED)
    assert (sample.mismatch, sample.encrypted, sample.plain) == (None, 3, 3)
    assert sample.text == "3 encrypted values: no plaintext in 53 bytes received; 3 plain values: all in them"
    assert compare(STORED, STORED, joined(STORED), set()).text == "6 plain values: all in 45 bytes received"
    every = {column: [b"\x01" + bytes(8)] * 2 for column in STORED} | {PHONE: [b"\x01" + bytes(8), None]}
    sample = compare(STORED, every, joined(every), set(STORED))
    assert sample.mismatch is None
    assert "plain values" not in sample.text


SAME: Rows = {NAME: [b"BARBARBAR"], ("customer", "c_first"): [b"BARBARBAR"]}


@pytest.mark.parametrize(
    ("stored", "rows", "more", "encrypted", "mismatch"),
    [
        # The plaintext "18" is too short for a search of all bytes, but is found in its own column.
        (STORED, {**RECEIVED, NUMBER: [b"\x01aaaa", b"18"]}, b"", ENCRYPTED, "customer.c_id came in plaintext"),
        (
            STORED,
            RECEIVED,
            b" 1234567890123456 ",
            {PHONE},
            "plaintext of customer.c_phone was among the bytes received",
        ),
        # The plaintext of an encrypted column may be received if an unencrypted column has the same value.
        (SAME, {**SAME, NAME: [b"\x01xxxxxxxx"]}, b"", {NAME}, None),
        (
            STORED,
            {**RECEIVED, STATE: [b"\x01secret", b""]},
            b"",
            ENCRYPTED,
            "customer.c_state, which is not encrypted, was changed",
        ),
    ],
)
def test_rows_with_unexpected_or_missing_plaintext_are_reported_as_a_mismatch(
    stored: Rows, rows: Rows, more: bytes, encrypted: set[tuple[str, str]], mismatch: str | None
) -> None:
    assert compare(stored, rows, joined(rows) + more, encrypted).mismatch == mismatch


def test_network_recorder_stores_every_byte_that_it_reads() -> None:
    recorder = Recorder(io.BytesIO(b"abcdef"))
    assert recorder.read(2) + recorder.read() == b"abcdef"
    assert recorder.received == b"abcdef"


GCM, CONTROL = Rules(SHARES[20], "aes-128-gcm"), Rules(None, None)


@pytest.mark.parametrize(
    ("rules", "encrypted", "decrypted", "unread", "message"),
    [
        (GCM, 500, 500, 0, None),
        (GCM, 500, 499, 0, "the gateway encrypted 500 values, the driver decrypted 499"),
        (GCM, 500, 499, 1000, None),
        (GCM, 1600, 500, 1000, "the gateway encrypted 1,600 values, the driver decrypted 500"),
        # The driver may leave encrypted values unread, but cannot decrypt more values than the gateway encrypted.
        (GCM, 499, 500, 1000, "the gateway encrypted 499 values, the driver decrypted 500"),
        (GCM, 0, 0, 0, "the gateway encrypted nothing"),
        (CONTROL, 0, 0, 0, None),
        (Rules(None, None, direct=True), 0, 0, 0, None),
        (CONTROL, 1, 0, 0, "the gateway encrypted 1 values and the driver decrypted 0 without a rule"),
    ],
)
def test_different_counts_of_encrypted_and_decrypted_values_are_reported_as_a_mismatch(
    rules: Rules, encrypted: int, decrypted: int, unread: int, message: str | None
) -> None:
    assert values_mismatch(rules, encrypted, decrypted, 10, unread) == message
