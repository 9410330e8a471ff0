"""What a program wrote, as the figures that its study asks for."""

from __future__ import annotations

import math
import re
from typing import Any

from jsonpointer import JsonPointerException, resolve_pointer

from costof.commands.asked import FigureAsked
from costof.commands.readers import UnreadableError, json_of, reader
from costof.commands.settings import Program


def figures_of(program: Program, written: str) -> dict[str, float]:
    """Those of the program's reader, which need not all be there, and each that its study asks for by a pointer or an
    expression. Raises `UnreadableError`."""
    found = reader(program.read).read(written) if program.read else {}
    document = json_of(written) if any(each.json_pointer for each in program.figures.values()) else None
    for name, asked in program.figures.items():
        pointer = asked.json_pointer
        found[name] = _number(name, _pointed(document, pointer) if pointer else _matched(written, asked))
    return found


def rates_of(program: Program) -> list[str]:
    """Of its figures."""
    known = reader(program.read).figures if program.read else {}
    known = known | {name: asked.as_figure(name) for name, asked in program.figures.items()}
    return [name for name, figure in known.items() if figure.is_rate]


def _pointed(document: Any, pointer: str) -> Any:
    try:
        return resolve_pointer(document, pointer)
    except JsonPointerException:
        raise UnreadableError(f"there is nothing at {pointer}") from None


def _matched(written: str, asked: FigureAsked) -> str:
    match = re.search(asked.regex or "", written, re.MULTILINE)
    if match is None:
        raise UnreadableError(f"nothing matches '{asked.regex}'")
    return match[1]


def _number(name: str, found: Any) -> float:
    try:
        number = float(found) if not isinstance(found, bool) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UnreadableError(f"{name} is no number: {str(found)[:50]}")
    return number
