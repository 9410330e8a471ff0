"""A second look before the ledger: what stands in a field of a secret's name is not written.

Nothing that is written should hold one in the first place: what is shown of a URL is put together from its parts
(`costof/urls.py`), and the plan that instruments are handed goes to their standard input only.
"""

from __future__ import annotations

from typing import Any

from costof.urls import HIDDEN as REDACTED

_SECRET_FIELDS = frozenset({"password", "master_key", "master_keys"})


def redact(value: Any) -> Any:
    """A copy of a JSON-like value in which every secret field that is set is redacted."""
    if isinstance(value, dict):
        return {name: _hidden(inner) if name in _SECRET_FIELDS else redact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact(inner) for inner in value]
    return value


def _hidden(value: Any) -> Any:
    """A secret field's value: what is set in it is hidden, names of several secrets stay."""
    if isinstance(value, dict):
        return {name: _hidden(inner) for name, inner in value.items()}
    return REDACTED if isinstance(value, str) else redact(value)
