"""The environment of a run, which has no fixed shape, as rows of name and value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flat(environment: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as ('machine cpu', '…') rows, in their own order; lists become one line."""
    return list(_walk(environment, prefix))


def _walk(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        name = f"{prefix} {key}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _walk(value, name)
        else:
            yield name, _said(value)


def _said(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_said(each) for each in value) or "none"
    return str(value)
