"""Columns that an application requires to be encrypted."""

from __future__ import annotations

from collections.abc import Iterable

from costof.encrypted.envelope import RefusedError
from costof.errors import Undecipherable


class RequiredColumns:
    """Columns that must be encrypted, named 'database.table.column' in upper or lower case."""

    def __init__(self, columns: Iterable[str]) -> None:
        """Raise `RefusedError` for an invalid column name."""
        # A string is a mistake here: its characters would be taken for the names of columns.
        self._columns = frozenset(map(_column, [] if isinstance(columns, str) else columns))
        if isinstance(columns, str):
            raise RefusedError(Undecipherable.REQUIRED_NAME, name=repr(columns))

    def __bool__(self) -> bool:
        return bool(self._columns)

    def include(self, names: Iterable[str]) -> bool:
        """Return whether a column must be encrypted. `names` are the names of database, table and column."""
        return tuple(name.lower() for name in names) in self._columns


def _column(name: str) -> tuple[str, ...]:
    names = tuple(str(name).lower().split("."))
    if len(names) != 3 or not all(names) or set("*`") & set(name):
        raise RefusedError(Undecipherable.REQUIRED_NAME, name=repr(name))
    return names
