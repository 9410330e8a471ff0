"""Readers: the figures that a program prints of its own work, one file a program.

Each module has a `READER`. It is told what the program wrote and gives numbers; which of them there are, in which unit
and which of them answers the question, stands beside it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pkgutil import iter_modules
from typing import Any, Literal

from costof.errors import CostofError, Problem, nearest

#: A number as programs print it, as the group that `numbers_in` takes.
NUMBER = r"(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)"
#: Where a document may begin: at once, or in a line of its own below what the program said first. Of the lines of a log
#: that begin so as well, only the first few are tried: each attempt may read all that follows.
_BEGINNING = re.compile(r"^[ \t]*[{\[]", re.MULTILINE)
_ATTEMPTS = 20


class UnreadableError(ValueError):
    """What a program wrote does not hold what its reader looks for; the message says what is missing."""


@dataclass(frozen=True)
class Figure:
    """A number that a program gives of one of its runs. `unit`: ms, us, per_second, percent, bytes, or any other word
    as it is to be printed. A `headline` answers the question; the others stand beside it."""

    label: str
    unit: str
    better: Literal["lower", "higher"] = "lower"
    headline: bool = False

    @property
    def is_rate(self) -> bool:
        """Whether what several programs get done at once is the sum of theirs."""
        return self.unit == "per_second" or self.unit.endswith("/s")


@dataclass(frozen=True)
class Reader:
    """Of one program. `figures` are all that it may give, in the order of a report; a run need not have each.

    `read` raises `UnreadableError`. `hint` is what the program must be called with, in words.
    """

    program: str
    figures: dict[str, Figure]
    read: Callable[[str], dict[str, float]]
    hint: str = ""


def reader_names() -> list[str]:
    """Of all readers, sorted."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(__path__))


def reader(name: str) -> Reader:
    """The reader of this name. Raises `UNKNOWN_READER`."""
    names = reader_names()
    if name not in names:
        raise CostofError(Problem.UNKNOWN_READER, name=name, nearest=nearest(name, names), allowed=", ".join(names))
    found: Reader = import_module(f"{__name__}.{name.replace('-', '_')}").READER
    return found


def json_of(output: str) -> Any:
    """The JSON document that a program wrote, whatever it said before or after. Raises `UnreadableError`."""
    starts = [match.end() - 1 for match in islice(_BEGINNING.finditer(output), _ATTEMPTS)]
    starts += [at for at in (output.find("{"),) if at >= 0 and at not in starts]
    if not starts:
        raise UnreadableError("it wrote no JSON")
    first: Exception | None = None
    for start in starts:
        try:
            return json.JSONDecoder().raw_decode(output, start)[0]
        # The latter of a document nested deeper than Python's stack.
        except (ValueError, RecursionError) as error:
            first = first or error
    raise UnreadableError(f"its JSON is broken: {first}") from None


def number(written: Any) -> float | None:
    """The finite number that a program wrote, as text or in JSON; None for all else, such as NaN, null and true."""
    if isinstance(written, bool) or not isinstance(written, int | float | str):
        return None
    try:
        found = float(written)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def number_at(document: Any, *path: str) -> float | None:
    """The number at this path of keys in a JSON document, or None."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return number(document)


def numbers_in(output: str, patterns: Mapping[str, str]) -> dict[str, float]:
    """Of each pattern the number in its group, where it first matches; `^` is the beginning of any line."""
    matches = {name: re.search(pattern, output, re.MULTILINE | re.ASCII) for name, pattern in patterns.items()}
    return known({name: number(match[1]) for name, match in matches.items() if match})


def known(figures: Mapping[str, float | None]) -> dict[str, float]:
    """Those that there are: a figure that a program did not give, or gave as NaN, is left out."""
    return {name: figure for name, figure in figures.items() if figure is not None and math.isfinite(figure)}


def times(factor: float, figure: float | None) -> float | None:
    """To a smaller unit; None of None."""
    return None if figure is None else figure * factor


def over(divisor: float, figure: float | None) -> float | None:
    """To a larger unit, without the rounding of a factor such as 0.001; None of None."""
    return None if figure is None else figure / divisor


def percent_of(part: float | None, whole: float | None) -> float | None:
    """The percentage that a part is of the whole; None of nothing."""
    return 100 * part / whole if part is not None and whole else None
