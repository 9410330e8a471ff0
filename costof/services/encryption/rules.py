"""The gateway's rules for an arm: the columns of TPC-C to encrypt, and the approved statements.

They are in the study's files `studies/mysql-column-encryption/20.toml` and `statements.toml`. The format of the
gateway's file is in docs/column-encryption.md.
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
#: The file of statements, in the same folder as the files of columns.
STATEMENTS = "statements.toml"
#: All columns of the nine tables, as (table, column).
COLUMNS: list[Column] = [
    # A column is 'name type …', a key 'PRIMARY KEY (…' or 'KEY …'. Commas inside parentheses do not separate them.
    (table, definition.split()[0])
    for table, definitions in tpcc.COLUMNS.items()
    for definition in re.split(r",(?![^(]*\))", definitions)
    if not re.match(r"\s*(PRIMARY )?KEY\b", definition)
]


class Group(Model):
    """A group of columns as 'table.column', in which `*` matches any characters, and why they are encrypted."""

    why: str
    columns: list[str]


class RuleFile(Model):
    """A file of columns: its groups, and the name of a file in the same folder whose groups are included."""

    beside: str | None = None
    groups: list[Group]


class ApprovedStatement(Model):
    """A statement of TPC-C's transactions.

    `made_of` lists for each output the columns, 'table.column', that it is computed from; None if the server itself
    names the origin of all outputs.
    """

    text: str
    made_of: list[list[str]] | None = None

    def outputs(self, encrypted: Collection[Column]) -> list[str] | None:
        """Return 'encrypt' for each output that is computed from an encrypted column, else 'plain'."""
        if self.made_of is None:
            return None
        names = {f"{table}.{name}" for table, name in encrypted}
        return ["encrypt" if names & set(columns) else "plain" for columns in self.made_of]


class StatementFile(Model):
    """The study's file of approved statements."""

    statements: list[ApprovedStatement]


@dataclass(frozen=True)
class Account:
    """An account of the server, and what the gateway sends to it: `plaintext`, `ciphertext` or `opaque`."""

    name: str
    role: str
    master_key: str | None = None


@dataclass(frozen=True)
class CatalogueAccount:
    """The account with which the gateway reads the server's table definitions."""

    name: str
    password: SecretStr


def column_groups(columns: str | None) -> list[Group]:
    """Return the groups of a file of columns, after those of the file that it includes."""
    if columns is None:
        return []
    path = resources.files("costof.studies").joinpath(columns)
    rules = RuleFile.model_validate(tomllib.loads(path.read_text()))
    included = f"{columns.rpartition('/')[0]}/{rules.beside}" if rules.beside else None
    return [*column_groups(included), *rules.groups]


def encrypted_columns(columns: str | None) -> list[Column]:
    """Return the encrypted columns of a file, in the order of the tables."""
    patterns = [pattern for group in column_groups(columns) for pattern in group.columns]
    return [(table, name) for table, name in COLUMNS if any(fnmatchcase(f"{table}.{name}", each) for each in patterns)]


def approved_statements(columns: str) -> list[ApprovedStatement]:
    """Return the statements of TPC-C's transactions from the folder of a file of columns."""
    folder = columns.rpartition("/")[0]
    path = resources.files("costof.studies").joinpath(f"{folder}/{STATEMENTS}")
    return StatementFile.model_validate(tomllib.loads(path.read_text())).statements


def sample_statement(database: str, table: str, rows: int | str) -> str:
    """Return the statement that reads a table for a row sample; with '?' for `rows`, the text to approve."""
    return f"SELECT * FROM `{database}`.{table} LIMIT {rows}"  # noqa: S608  # names of our own


def rules_text(
    columns: str | None,
    database: str,
    algorithm: str | None,
    accounts: Sequence[Account],
    master_keys: Mapping[str, SecretStr],
    catalogue: CatalogueAccount,
) -> str:
    """Return the content of the gateway's file. It holds master keys and a password, so only its owner may read it.

    The approved statements are those of TPC-C's transactions and of the row sample.
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
    """Return a TOML basic string, which is a JSON string with non-ASCII characters unescaped."""
    return json.dumps(text if isinstance(text, str) else text.get_secret_value(), ensure_ascii=False)
