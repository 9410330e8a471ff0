"""Columns that an application names because they must come encrypted."""

from __future__ import annotations

from collections.abc import Iterable

from costof.encrypted.envelope import RefusedError
from costof.errors import Undecipherable


class Demands:
    """Columns that come encrypted or are an error, by 'database.table.column'; case does not matter."""

    def __init__(self, columns: Iterable[str]) -> None:
        """Raises `RefusedError` for what is no such name."""
        # A text is a sequence of texts.
        self._columns = frozenset(map(_column, [] if isinstance(columns, str) else columns))
        if isinstance(columns, str):
            raise RefusedError(Undecipherable.DEMAND, name=repr(columns))

    def __bool__(self) -> bool:
        return bool(self._columns)

    def mean(self, names: Iterable[str]) -> bool:
        """Return whether a column of these names, of database, table and column, is one of them."""
        return tuple(name.lower() for name in names) in self._columns


def _column(written: str) -> tuple[str, ...]:
    names = tuple(str(written).lower().split("."))
    if len(names) != 3 or not all(names) or set("*`") & set(written):
        raise RefusedError(Undecipherable.DEMAND, name=repr(written))
    return names
