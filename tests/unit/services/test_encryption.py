"""Column encryption: the rules that a share stands for, and what proves an arm, by counts and a row sample."""

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
def test_a_share_is_what_its_name_says_of_columns_that_exist(share: int, level: str) -> None:
    assert len(COLUMNS) == len(set(COLUMNS)) == 92
    assert len(encrypted_columns(level)) == round(share / 100 * len(COLUMNS))
    named = [column for group in column_groups(level) for column in group.columns]
    assert len(named) == len(set(named))
    for column in named:
        table, name = column.split(".")
        assert (table, name) in COLUMNS or (name == "*" and table in tpcc.COLUMNS), column
    assert all(group.why for group in column_groups(level))


def test_a_larger_share_holds_the_smaller_ones() -> None:
    twenty, fifty, every = (set(encrypted_columns(level)) for level in SHARES.values())
    assert twenty < fifty < every == set(COLUMNS)
    study = load_study("mysql-column-encryption")
    asked = [study.arm_settings({"encrypted": level}).lab.get("columns") for level in study.factors["encrypted"].levels]
    assert asked == [None, None, *SHARES.values()]
    assert not column_groups(None)


def test_the_gateways_file_says_columns_accounts_and_keys() -> None:
    name, level = 'a "b"\\ü', SHARES[50]
    accounts = [Account(name, "ciphertext", "key"), Account("admin", "plaintext")]
    told = tomllib.loads(rules_text(level, "shop", "sm4-gcm", accounts, {"key": SecretStr("0f" * 16)}, CATALOGUE))
    assert told["algorithm"] == "sm4-gcm"
    assert told["master_keys"] == {"key": "0f" * 16}
    assert told["check"] == {"username": "catalogue", "password": 'pass"word'}
    texts = [each["text"] for each in told["statements"]]
    assert texts[:9] == [sample_statement("shop", table, "?") for table in tpcc.TABLES]
    assert texts[9:] == [each.text for each in approved_statements(level)]
    guarded = {"name": name, "role": "ciphertext", "master_key": "key"}
    assert told["accounts"] == [guarded, {"name": "admin", "role": "plaintext"}]
    assert {each["database"] for each in told["columns"]} == {"shop"}
    assert {(each["table"], each["column"]) for each in told["columns"]} == set(encrypted_columns(level))


def test_without_a_rule_the_file_names_no_column() -> None:
    told = tomllib.loads(rules_text(None, "shop", None, [Account("a", "opaque")], {}, CATALOGUE))
    assert not {"columns", "check", "statements"} & set(told)
    assert told["accounts"] == [{"name": "a", "role": "opaque"}]


@pytest.mark.parametrize(("share", "outputs"), [(20, ["plain", "encrypt"]), (100, ["encrypt", "encrypt"])])
def test_a_computed_output_is_encrypted_if_a_column_behind_it_is(share: int, outputs: list[str]) -> None:
    statements = approved_statements(SHARES[share])
    found = {
        each.text: each.outputs(encrypted_columns(SHARES[share])) for each in statements if each.made_of is not None
    }
    (oldest,) = (verdicts for text, verdicts in found.items() if text.startswith("SELECT no_d_id"))
    assert oldest == outputs
    (count,) = (verdicts for text, verdicts in found.items() if text.startswith("SELECT COUNT"))
    assert count == ["plain"], "a count shows no value"
    named = {name for each in statements for behind in each.made_of or [] for name in behind}
    assert {tuple(name.split(".")) for name in named} <= set(COLUMNS)


PHONE, NAME, STATE, NUMBER = (("customer", name) for name in ("c_phone", "c_last", "c_state", "c_id"))
KEPT: Rows = {
    PHONE: [b"1234567890123456", None],
    NUMBER: [b"17", b"18"],
    NAME: [b"BARBARBAR", b"OUGHTPRI"],
    STATE: [b"QQ", b""],
}
HIDDEN: Rows = {**KEPT, PHONE: [b"\x01cipher-of-a-phone", None], NUMBER: [b"\x01aaaa", b"\x01bbbb"]}
HIDES = {PHONE, NUMBER}


def bytes_of(rows: Rows) -> bytes:
    return b"|".join(value for values in rows.values() for value in values if value is not None)


def test_what_is_encrypted_is_hidden_and_the_rest_is_there() -> None:
    found = compare(KEPT, HIDDEN, bytes_of(HIDDEN), HIDES)
    assert (found.wrong, found.encrypted, found.plain) == (None, 3, 3)
    assert found.told == "3 encrypted values: no plaintext in 53 bytes received; 3 plain values: all in them"
    assert compare(KEPT, KEPT, bytes_of(KEPT), set()).told == "6 plain values: all in 45 bytes received"
    every = {column: [b"\x01" + bytes(8)] * 2 for column in KEPT} | {PHONE: [b"\x01" + bytes(8), None]}
    found = compare(KEPT, every, bytes_of(every), set(KEPT))
    assert found.wrong is None
    assert "plain values" not in found.told


ALIKE: Rows = {NAME: [b"BARBARBAR"], ("customer", "c_first"): [b"BARBARBAR"]}


@pytest.mark.parametrize(
    ("kept", "received", "more", "hides", "wrong"),
    [
        # In its own place it is found however short.
        (KEPT, {**HIDDEN, NUMBER: [b"\x01aaaa", b"18"]}, b"", HIDES, "customer.c_id came in plaintext"),
        (KEPT, HIDDEN, b" 1234567890123456 ", {PHONE}, "plaintext of customer.c_phone was among the bytes received"),
        # Words that stand in a plain column too refute nothing.
        (ALIKE, {**ALIKE, NAME: [b"\x01xxxxxxxx"]}, b"", {NAME}, None),
        (
            KEPT,
            {**HIDDEN, STATE: [b"\x01secret", b""]},
            b"",
            HIDES,
            "customer.c_state, which is not encrypted, was changed",
        ),
    ],
)
def test_plaintext_where_none_may_be_and_none_where_it_must_refute_an_arm(
    kept: Rows, received: Rows, more: bytes, hides: set[tuple[str, str]], wrong: str | None
) -> None:
    assert compare(kept, received, bytes_of(received) + more, hides).wrong == wrong


def test_a_recorder_keeps_every_byte_that_is_read() -> None:
    recorder = Recorder(io.BytesIO(b"abcdef"))
    assert recorder.read(2) + recorder.read() == b"abcdef"
    assert recorder.received == b"abcdef"


GCM, CONTROL = Rules(SHARES[20], "aes-128-gcm"), Rules(None, None)


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
        (Rules(None, None, direct=True), 0, 0, 0, None),
        (CONTROL, 1, 0, 0, "the gateway encrypted 1 values and the driver decrypted 0 without a rule"),
    ],
)
def test_both_ends_count_the_same_values(
    rules: Rules, encrypted: int, decrypted: int, unread: int, told: str | None
) -> None:
    assert values_mismatch(rules, encrypted, decrypted, 10, unread) == told
