"""What a program wrote, as the figures that its study asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from jsonpointer import JsonPointerException, resolve_pointer

from costof.instruments.commands.asked import FigureAsked
from costof.instruments.commands.readers import Report, UnreadableError, json_of, reader
from costof.instruments.commands.settings import Program


def report_of(program: Program, written: str) -> Report:
    """Return what the program's reader finds, and the figures that its study defines by a pointer or an expression.

    Raises `UnreadableError`, where its reader cannot read it with the options that the program needs.
    """
    report = _read(program.read, written) if program.read else Report({})
    document = json_of(written) if any(each.json_pointer for each in program.figures.values()) else None
    for name, asked in program.figures.items():
        pointer = asked.json_pointer
        report.figures[name] = _number(name, _pointed(document, pointer) if pointer else _matched(written, asked))
    return report


#: How a reader begins to say that it has found no report, or a part of one.
_NO_REPORT = re.compile("there (is|are)|it wrote no|its JSON")


def _read(name: str, written: str) -> Report:
    found = reader(name)
    try:
        return found.read(written)
    except UnreadableError as error:
        # A report that says that nothing was answered was made with the right options.
        hint = f"; call {found.program} with {found.hint}" if _NO_REPORT.match(str(error)) else ""
        raise UnreadableError(f"{error}{hint}") from None


def rates_of(program: Program) -> list[str]:
    """Of its figures."""
    known = reader(program.read).figures if program.read else {}
    known = known | {name: asked.as_figure(name) for name, asked in program.figures.items()}
    return [name for name, figure in known.items() if figure.is_rate]


def statuses_with_a_report(program: Program) -> Mapping[int, str]:
    """Return the exit statuses other than 0 with which the program has written a whole report, and what each means."""
    return reader(program.read).statuses if program.read else {}


def uncounted_failures(program: Program, report: Report) -> str | None:
    """Return a note where a program that usually counts failed operations has not counted them."""
    if program.read is None or report.failed is not None or reader(program.read).silent_on_failures:
        return None
    return f"the report of {reader(program.read).program} does not say how many operations failed"


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
