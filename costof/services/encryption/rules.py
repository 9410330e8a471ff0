"""Column rules: which of TPC-C's columns an arm has encrypted, and the gateway's file of them.

The columns and the reasons are data beside the study, such as `studies/mysql-column-encryption/20.toml`; the gateway's
file is of docs/column-encryption.md's form.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources

from pydantic import SecretStr

from costof.datasets import tpcc
from costof.model import Model

Column = tuple[str, str]
#: Of all nine tables, as (table, column).
COLUMNS: list[Column] = [
    # A definition is 'name type …', a key's 'PRIMARY KEY (…' or 'KEY …'; a comma within parentheses parts nothing.
    (table, definition.split()[0])
    for table, definitions in tpcc.COLUMNS.items()
    for definition in re.split(r",(?![^(]*\))", definitions)
    if not re.match(r"\s*(PRIMARY )?KEY\b", definition)
]


class Group(Model):
    """Columns as 'table.column', in which `*` stands for any characters, and why they are encrypted."""

    why: str
    columns: list[str]


class RuleFile(Model):
    """What a file names: its groups, and all of the file beside it."""

    beside: str | None = None
    groups: list[Group]


@dataclass(frozen=True)
class Account:
    """A login of the server's, and what the gateway sends it: `plaintext`, `ciphertext` or `opaque`."""

    name: str
    role: str
    master_key: str | None = None


@dataclass(frozen=True)
class CatalogueAccount:
    """A login by which the gateway asks the server what tables, views and keys there are."""

    name: str
    password: SecretStr


def groups_of(columns: str | None) -> list[Group]:
    """The groups of a file of columns, those of the file beside it first; none where nothing is encrypted."""
    if columns is None:
        return []
    path = resources.files("costof.studies").joinpath(columns)
    rules = RuleFile.model_validate(tomllib.loads(path.read_text()))
    beside = f"{columns.rpartition('/')[0]}/{rules.beside}" if rules.beside else None
    return [*groups_of(beside), *rules.groups]


def encrypted_columns(columns: str | None) -> list[Column]:
    """The columns that a file of them names, in the order of the tables."""
    patterns = [pattern for group in groups_of(columns) for pattern in group.columns]
    return [(table, name) for table, name in COLUMNS if any(fnmatchcase(f"{table}.{name}", each) for each in patterns)]


def rules_text(
    columns: str | None,
    database: str,
    algorithm: str | None,
    accounts: Sequence[Account],
    master_keys: Mapping[str, SecretStr],
    catalogue: CatalogueAccount,
) -> str:
    """The gateway's file. It holds the master keys and a password, so only its owner may read it.

    TPC-C orders by protected columns and computes with them, so both are allowed.
    """
    lines = [f"algorithm = {_quoted(algorithm)}"] if algorithm else []
    lines += ['predicates = "allow"', 'expressions = "encrypt"']
    lines += ["", "[master_keys]", *(f"{_quoted(name)} = {_quoted(key)}" for name, key in master_keys.items())]
    for account in accounts:
        lines += ["", "[[accounts]]", f"name = {_quoted(account.name)}", f"role = {_quoted(account.role)}"]
        lines += [f"master_key = {_quoted(account.master_key)}"] if account.master_key else []
    for group in groups_of(columns):
        lines += ["", f"# {group.why}"]
        for pattern in group.columns:
            table, column = pattern.split(".")
            told = {"database": database, "table": table, "column": column}
            lines += ["[[columns]]", *(f"{name} = {_quoted(value)}" for name, value in told.items())]
    if groups_of(columns):
        lines += ["", "[check]"]
        lines += [f"username = {_quoted(catalogue.name)}", f"password = {_quoted(catalogue.password)}"]
    return "\n".join(lines).lstrip() + "\n"


def _quoted(text: str | SecretStr) -> str:
    """A TOML basic string; its escapes are JSON's, where every character above ASCII is left as it is."""
    return json.dumps(text if isinstance(text, str) else text.get_secret_value(), ensure_ascii=False)
