"""Readers: parsers that extract figures from the reports of load generators, one module for each program.

Each module has a `READER`, with a table of figures and where to find them in the report, and a function that counts
failed operations. If the output contains several reports, for example one after the warm-up, the last complete report
counts.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal

from costof.errors import CostofError, ErrorText, nearest

#: The place of a number in a report. In a JSON document it is a path of keys, such as `("latencies", "mean")`. In a
#: text it is a regular expression, in which the group `number`, or else the first group, matches the number. `^`
#: matches at the beginning of each line.
Place = str | tuple[str, ...]

NUMBER = r"(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_SIZES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
#: Matches the beginning of a line up to its first '{' or '[', where a JSON document may begin. Log lines may contain
#: these brackets too, so the parser may fail there.
_BEGINNING = re.compile(r"^[^\n{\[]*[{\[]", re.MULTILINE)
#: All failed attempts to parse JSON together may read at most this many times the output's length. Without this limit,
#: parsing an output with many brackets could take minutes.
_ATTEMPTS = 20


class UnreadableError(ValueError):
    """A program's output lacks something that its reader needs. The message says what is missing."""


@dataclass(frozen=True)
class Figure:
    """A number in the report of a program.

    - `unit`: 'ms', 'us', 'per_second', 'percent', 'bytes', or any other word, which reports show unchanged.
    - `headline`: whether the figure answers the study's question.
    - `at`: the figure's place in the report: in a text, a regular expression whose group matches the number; in JSON,
      the keys that lead to it. Empty if the reader computes the figure.
    - `printed_unit`: the unit in the report, if it differs from `unit`. If the unit varies between reports, `at` has a
      group `unit` that matches it.
    """

    label: str
    unit: str
    better: Literal["lower", "higher"] = "lower"
    headline: bool = False
    at: Place = ()
    printed_unit: str = ""

    @property
    def is_rate(self) -> bool:
        """Return whether the figure is a rate. Rates of programs that run at the same time are added up."""
        return self.unit == "per_second" or self.unit.endswith("/s")


@dataclass(frozen=True)
class Report:
    """The figures and failures of one run, as its program reports them.

    A figure that the report lacks is left out of `figures`, and never stored as 0. `missing` has the reasons for
    missing figures, if the reader knows them. `operations` counts all operations, including the `failed` ones. A count
    that the report lacks is None.
    """

    figures: dict[str, float]
    operations: float | None = None
    failed: float | None = None
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        figures: Mapping[str, float | None],
        operations: float | None = None,
        failed: float | None = None,
        missing: Mapping[str, str] | None = None,
    ) -> Report:
        """Return a report. Leave out figures that are None, and add `failed_percent` if both counts are known."""
        operations = operations if operations and operations > 0 else None
        if operations is None or failed is None:
            failed = None
        else:
            # Some programs count a failed operation twice, so count at most one failure per operation.
            failed = min(max(float(failed), 0.0), operations)
            figures = {**figures, "failed_percent": 100 * failed / operations}
        known = {name: value for name, value in figures.items() if value is not None and math.isfinite(value)}
        return cls(known, operations, failed, {name: why for name, why in (missing or {}).items() if name not in known})


@dataclass(frozen=True)
class Reader:
    """The parser for the reports of one program.

    `figures` are all figures that a report can have. `report` builds a `Report` from the program's text or JSON
    document, and from the figures that `figures_at` has found in it. `hint` names the options that make the program
    write its report, such as '--json-out-file {output}'.

    For reports in text form, `begins` is a regular expression for a report's first line. `line` is the beginning of a
    line that each complete report has exactly once. A report in JSON has at least one of `keys` at its top level.

    `silent_on_failures` is a sentence that says why the program cannot count failures; it is empty if the program can
    count them. `statuses` maps exit statuses other than 0 of runs with a complete report to their meanings.
    """

    program: str
    figures: dict[str, Figure]
    report: Callable[[Any, dict[str, float]], Report]
    hint: str
    begins: str = ""
    line: str = ""
    keys: tuple[str, ...] = ()
    silent_on_failures: str = ""
    statuses: Mapping[int, str] = field(default_factory=dict)

    def read(self, output: str) -> Report:
        """Parse the last complete report in a program's output. Raises `UnreadableError` if there is none."""
        found: Any = last_text(output, self.begins, self.line) if self.line else output
        if self.keys:
            found = last_json(output, *self.keys)
        report = self.report(found, figures_at(found, self.figures))
        if not report.figures:
            raise UnreadableError(next(iter(report.missing.values()), "there is no figure in its report"))
        return report


def rate(label: str, at: Place = (), unit: str = "per_second", headline: bool = False) -> Figure:
    """Return a figure for a rate, such as operations a second. Higher values are better."""
    return Figure(label, unit, "higher", headline, at)


def reader_names() -> list[str]:
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def reader(name: str) -> Reader:
    """Return the reader with this name. Raises `UNKNOWN_READER`."""
    names = reader_names()
    if name not in names:
        raise CostofError(ErrorText.UNKNOWN_READER, name=name, nearest=nearest(name, names), allowed=", ".join(names))
    found: Reader = import_module(f"{__name__}.{name.replace('-', '_')}").READER
    return found


def last_text(output: str, first_line: str, line: str) -> str:
    """Return the last complete report in a text.

    `first_line` is a regular expression for a report's first line. `line` is the beginning of a line that each complete
    report has exactly once. Raises `UnreadableError` if no report is complete, or if one has several such lines.
    """
    starts = [match.start() for match in re.finditer(first_line, output, re.MULTILINE | re.ASCII)]
    for start, end in reversed(list(zip([0, *starts], [*starts, len(output)], strict=True))):
        found = len(re.findall(rf"^\s*{re.escape(line)}", output[start:end], re.MULTILINE))
        if found > 1:
            raise UnreadableError(f"there are {found} lines '{line} …', and no line that begins each report")
        if found:
            return output[start:end]
    raise UnreadableError(f"there is no line '{line} …'")


def last_json(output: str, *keys: str) -> Any:
    """Return the last JSON object in a text that has one of `keys` at its top level.

    If no keys are given, return the last object, or the last array if there is no object. Raises `UnreadableError`.
    """
    documents: list[Any] = []
    broken: Exception | None = None
    at, effort = 0, _ATTEMPTS * len(output)
    while effort > 0 and (match := _BEGINNING.search(output, at)):
        start = match.end() - 1
        try:
            document, at = json.JSONDecoder().raw_decode(output, start)
            documents.append(document)
        # Python raises RecursionError if a document is nested deeper than its stack allows.
        except (ValueError, RecursionError) as error:
            broken, at = broken or error, start + 1
            effort -= getattr(error, "pos", len(output)) - start + 1
    objects = [each for each in documents if isinstance(each, dict) and (not keys or not each.keys().isdisjoint(keys))]
    if keys and not objects:
        raise UnreadableError(f"there is no whole JSON document with '{keys[0]}'")
    if not documents:
        raise UnreadableError(f"its JSON is broken: {broken}" if broken else "it wrote no JSON")
    return (objects or documents)[-1]


def number(written: Any) -> float | None:
    """Convert a number from text or JSON. Return None for anything that is not a finite number, such as null."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return None
    try:
        found = float(written)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def number_at(report: Any, place: Place) -> float | None:
    """Return the number at a place in a text or JSON report; None if there is no number."""
    return _number_and_unit(report, place)[0]


def figures_at(report: Any, figures: Mapping[str, Figure]) -> dict[str, float]:
    """Return the figures whose place (`Figure.at`) has a number in the report, converted to `Figure.unit`."""
    found = {}
    for name, figure in figures.items():
        value, unit = _number_and_unit(report, figure.at)
        if value is not None and figure.at:
            found[name] = convert(value, unit or figure.printed_unit or figure.unit, figure.unit)
    return found


def _number_and_unit(report: Any, place: Place) -> tuple[float | None, str]:
    if isinstance(place, str):
        match = re.search(place, report, re.MULTILINE | re.ASCII)
        groups = match.groupdict() if match else {}
        return number(groups.get("number", match[1] if match else None)), groups.get("unit", "")
    return number(_value_at(report, place)), ""


def _value_at(document: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def objects_at(document: Any, *path: str) -> list[dict[str, Any]]:
    """Return the objects in the list at a path of a JSON document; [] if there is no list at this path."""
    found = _value_at(document, path)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def convert(value: float, unit: str, new_unit: str) -> float:
    """Convert a duration to another unit of time, such as 'ms' to 's'.

    To convert to a larger unit, divide by a whole number such as 1000, because the factor 0.001 is not exact in binary.
    """
    if unit == new_unit:
        return value
    if _SIZES[unit] >= _SIZES[new_unit]:
        return value * (_SIZES[unit] // _SIZES[new_unit])
    return value / (_SIZES[new_unit] // _SIZES[unit])
