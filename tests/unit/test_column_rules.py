"""Column rules: the shares are what their names say, every column exists, and the gateway's file says just that."""

from __future__ import annotations

import tomllib

import pytest
from pydantic import SecretStr

from costof.datasets import tpcc
from costof.services.encryption.rules import (
    COLUMNS,
    Account,
    CatalogueAccount,
    approved_statements,
    encrypted_columns,
    groups_of,
    rules_text,
    sample_statement,
)
from costof.study.library import load_study

SHARES = [f"mysql-column-encryption/{share}.toml" for share in (20, 50, 100)]
CATALOGUE = CatalogueAccount("catalogue", SecretStr('pass"word'))


def test_tpcc_has_nine_tables_and_92_columns() -> None:
    assert len(tpcc.COLUMNS) == 9
    assert len(COLUMNS) == len(set(COLUMNS)) == 92


@pytest.mark.parametrize("share", [20, 50, 100])
def test_a_share_is_what_its_name_says_to_the_nearest_column(share: int) -> None:
    assert len(encrypted_columns(f"mysql-column-encryption/{share}.toml")) == round(share / 100 * len(COLUMNS))


@pytest.mark.parametrize("level", SHARES)
def test_every_column_that_is_named_exists_and_is_named_once(level: str) -> None:
    named = [column for group in groups_of(level) for column in group.columns]
    assert len(named) == len(set(named))
    for column in named:
        table, name = column.split(".")
        assert (table, name) in COLUMNS or (name == "*" and table in tpcc.COLUMNS), column


def test_a_larger_share_holds_the_smaller_ones() -> None:
    twenty, fifty, all_ = (set(encrypted_columns(level)) for level in SHARES)
    assert twenty < fifty < all_ == set(COLUMNS)


def test_every_level_of_the_study_has_its_rules() -> None:
    study = load_study("mysql-column-encryption")
    asked = [study.asked({"encrypted": level}).lab.get("columns") for level in study.factors["encrypted"].levels]
    assert asked == [None, None, *SHARES]
    assert not groups_of(None)
    assert all(group.why for level in SHARES for group in groups_of(level))


def test_the_gateways_file_says_columns_accounts_and_keys() -> None:
    name = 'a "b"\\ü'
    accounts = [Account(name, "ciphertext", "key"), Account("admin", "plaintext")]
    told = tomllib.loads(rules_text(SHARES[1], "shop", "sm4-gcm", accounts, {"key": SecretStr("0f" * 16)}, CATALOGUE))
    assert told["algorithm"] == "sm4-gcm"
    assert told["master_keys"] == {"key": "0f" * 16}
    assert told["check"] == {"username": "catalogue", "password": 'pass"word'}
    texts = [each["text"] for each in told["statements"]]
    assert texts[:9] == [sample_statement("shop", table, "?") for table in tpcc.TABLES]
    assert texts[9:] == [each.text for each in approved_statements(SHARES[1])]
    assert told["accounts"] == [
        {"name": name, "role": "ciphertext", "master_key": "key"},
        {"name": "admin", "role": "plaintext"},
    ]
    assert {each["database"] for each in told["columns"]} == {"shop"}
    assert {(each["table"], each["column"]) for each in told["columns"]} == set(encrypted_columns(SHARES[1]))


def test_without_a_rule_the_file_names_no_column() -> None:
    told = tomllib.loads(rules_text(None, "shop", None, [Account("a", "opaque")], {}, CATALOGUE))
    assert not {"columns", "check", "statements"} & set(told)
    assert told["accounts"] == [{"name": "a", "role": "opaque"}]


@pytest.mark.parametrize(("share", "outputs"), [(20, ["plain", "encrypt"]), (100, ["encrypt", "encrypt"])])
def test_a_computed_output_is_encrypted_if_a_column_behind_it_is(share: int, outputs: list[str]) -> None:
    level = f"mysql-column-encryption/{share}.toml"
    statements = approved_statements(level)
    found = {each.text: each.outputs(encrypted_columns(level)) for each in statements if each.made_of is not None}
    (oldest,) = (verdicts for text, verdicts in found.items() if text.startswith("SELECT no_d_id"))
    assert oldest == outputs
    (count,) = (verdicts for text, verdicts in found.items() if text.startswith("SELECT COUNT"))
    assert count == ["plain"], "a count shows no value"
    named = {name for each in statements for columns in each.made_of or [] for name in columns}
    assert {tuple(name.split(".")) for name in named} <= set(COLUMNS)
