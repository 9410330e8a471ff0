"""Secrets stay out of whatever is written down: the field is redacted, the rest is kept."""

from __future__ import annotations

import re
from typing import Any

REDACTED = "<redacted>"
_SECRET_FIELDS = frozenset({"password", "master_key", "master_keys"})
# 'scheme://user:password@host': everything between the first colon of the user part and the last @ before a slash.
_URL_PASSWORD = re.compile(r"(?P<before>[a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s/]*(?P<after>@)", re.IGNORECASE)


def redact(value: Any) -> Any:
    """A copy of a JSON-like value in which every secret field that is set, and every password in a URL, is redacted."""
    if isinstance(value, dict):
        return {name: _hidden(inner) if name in _SECRET_FIELDS else redact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact(inner) for inner in value]
    if isinstance(value, str):
        return redact_url(value)
    return value


def _hidden(value: Any) -> Any:
    """A secret field's value: what is set in it is hidden, names of several secrets stay."""
    if isinstance(value, dict):
        return {name: _hidden(inner) for name, inner in value.items()}
    return REDACTED if isinstance(value, str) else redact(value)


def redact_url(text: str) -> str:
    """Text in which the passwords of URLs are redacted; hosts and options stay readable."""
    return _URL_PASSWORD.sub(rf"\g<before>{REDACTED}\g<after>", text)
