"""The gateway's rules for an arm (variant): which columns of TPC-C to encrypt, and which SQL statements to allow.

Files such as `studies/mysql-column-encryption/20.toml` list the columns to encrypt. `statements.toml` in the same
folder lists the allowed ("approved") statements. docs/column-encryption.md describes the gateway's own rule file.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import resources

from pydantic import SecretStr

from costof.datasets import tpcc
from costof.model import Model

Column = tuple[str, str]
#: The name of the file with the approved statements. The file is in the same folder as the files that list columns.
STATEMENTS = "statements.toml"
#: All columns of the nine tables, as (table, column).
COLUMNS: list[Column] = [
    # A comma outside of parentheses separates two definitions. Definitions of keys, such as 'PRIMARY KEY (w_id)', are
    # skipped.
    (table, definition.split()[0])
    for table, definitions in tpcc.COLUMNS.items()
    for definition in re.split(r",(?![^(]*\))", definitions)
    if not re.match(r"\s*(PRIMARY )?KEY\b", definition)
]


class Group(Model):
    """Columns to encrypt, and the reason. A column is written 'table.column', in which `*` matches any characters."""

    why: str
    columns: list[str]


class RuleFile(Model):
    """The content of a file that lists the columns to encrypt, in groups.

    `beside` is the name of another file in the same folder, whose groups are added; None for no other file.
    """

    beside: str | None = None
    groups: list[Group]


class ApprovedStatement(Model):
    """A statement of TPC-C's transactions, which the gateway must allow.

    Accounts that get ciphertext may execute only such approved statements. `made_of` lists, for each output column of
    the statement, the table columns ('table.column') from which it is computed. `made_of` is None if the server's
    answer names the table column of every output column.
    """

    text: str
    made_of: list[list[str]] | None = None

    def outputs(self, encrypted: Collection[Column]) -> list[str] | None:
        """Return 'encrypt' for each output computed from an encrypted column, else 'plain'; None without `made_of`."""
        if self.made_of is None:
            return None
        names = {f"{table}.{name}" for table, name in encrypted}
        return ["encrypt" if names & set(columns) else "plain" for columns in self.made_of]


class StatementFile(Model):
    statements: list[ApprovedStatement]


@dataclass(frozen=True)
class Account:
    """A database account, and what the gateway sends to it.

    The `role` is 'plaintext', 'ciphertext' (the account can decrypt), or 'opaque' (ciphertext without a key).
    `master_key` is the name of the key for the role 'ciphertext'.
    """

    name: str
    role: str
    master_key: str | None = None


@dataclass(frozen=True)
class CatalogueAccount:
    """The account with which the gateway (encrypting proxy) reads the server's table definitions."""

    name: str
    password: SecretStr


def column_groups(columns: str | None) -> list[Group]:
    """Return the groups of columns in a file and in the file that it includes; [] if `columns` is None."""
    if columns is None:
        return []
    path = resources.files("costof.studies").joinpath(columns)
    rules = RuleFile.model_validate(tomllib.loads(path.read_text()))
    included = f"{columns.rpartition('/')[0]}/{rules.beside}" if rules.beside else None
    return [*column_groups(included), *rules.groups]


def encrypted_columns(columns: str | None) -> list[Column]:
    """Return the columns that a columns file encrypts, in the order of `COLUMNS`; [] if `columns` is None."""
    patterns = [pattern for group in column_groups(columns) for pattern in group.columns]
    return [(table, name) for table, name in COLUMNS if any(fnmatchcase(f"{table}.{name}", each) for each in patterns)]


def approved_statements(columns: str) -> list[ApprovedStatement]:
    """Return the statements of TPC-C's transactions, from the file `STATEMENTS` beside the file `columns`."""
    folder = columns.rpartition("/")[0]
    path = resources.files("costof.studies").joinpath(f"{folder}/{STATEMENTS}")
    return StatementFile.model_validate(tomllib.loads(path.read_text())).statements


def sample_statement(database: str, table: str, rows: int | str) -> str:
    """Return the SQL statement that reads sample rows of a table, to check how the gateway encrypts them.

    With '?' for `rows`, return the text under which the gateway's rules allow this statement.
    """
    return f"SELECT * FROM `{database}`.{table} LIMIT {rows}"  # noqa: S608  # names of our own


def rules_text(
    columns: str | None,
    database: str,
    algorithm: str | None,
    accounts: Sequence[Account],
    master_keys: Mapping[str, SecretStr],
    catalogue: CatalogueAccount,
) -> str:
    """Return the content of the gateway's rule file.

    The file contains master keys and a password, so only its owner may be able to read it. The approved statements are
    those of TPC-C's transactions and those of `sample_statement`.
    """
    lines = [f"algorithm = {_quoted(algorithm)}"] if algorithm else []
    lines += ["", "[master_keys]", *(f"{_quoted(name)} = {_quoted(key)}" for name, key in master_keys.items())]
    for account in accounts:
        lines += ["", "[[accounts]]", f"name = {_quoted(account.name)}", f"role = {_quoted(account.role)}"]
        lines += [f"master_key = {_quoted(account.master_key)}"] if account.master_key else []
    for group in column_groups(columns):
        lines += ["", f"# {group.why}"]
        for pattern in group.columns:
            table, column = pattern.split(".")
            rule = {"database": database, "table": table, "column": column}
            lines += ["[[columns]]", *(f"{name} = {_quoted(value)}" for name, value in rule.items())]
    if columns is not None:
        lines += ["", "[check]"]
        lines += [f"username = {_quoted(catalogue.name)}", f"password = {_quoted(catalogue.password)}"]
        for table in tpcc.TABLES:
            lines += ["", "[[statements]]", f"text = {_quoted(sample_statement(database, table, '?'))}"]
        encrypted = encrypted_columns(columns)
        for statement in approved_statements(columns):
            lines += ["", "[[statements]]", f"text = {_quoted(statement.text)}", f"database = {_quoted(database)}"]
            outputs = statement.outputs(encrypted)
            lines += [f"outputs = {json.dumps(outputs)}"] if outputs is not None else []
    return "\n".join(lines).lstrip() + "\n"


def _quoted(text: str | SecretStr) -> str:
    """Return the text as a TOML basic string, which has the form of a JSON string without escapes for non-ASCII."""
    return json.dumps(text if isinstance(text, str) else text.get_secret_value(), ensure_ascii=False)
