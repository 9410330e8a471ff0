"""Plots of characters for terminals: points of several series on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.report.canvas import Point, Scale, decades, log

#: The characters that mark the points of each series, and the character for places that several series share.
MARKS, SHARED = "ox+#%&", "*"
LIMIT = "-"
HEIGHT, WIDEST = 8, 72


@dataclass(frozen=True)
class Series:
    label: str
    points: Sequence[Point]


def plot(series: Sequence[Series], width: int, limit: float | None = None) -> list[str]:
    """Return the lines of a plot. `limit` is a height at which a dashed line is drawn."""
    shown = [each for each in series if each.points]
    xs = [x for each in shown for x, _ in each.points]
    ys = [y for each in shown for _, y in each.points] + ([limit] if limit is not None else [])
    x_axis, y_axis = Scale(min(xs) / 1.05, max(xs) * 1.05, log), Scale(min(ys) / 1.2, max(ys) * 1.2, log)
    ends = [min(ys), max(ys)]
    heights = {_place(y_axis, each, HEIGHT): fmt.number(each) for each in [*decades(y_axis.low, y_axis.high), *ends]}
    margin = max(map(len, heights.values()), default=0)
    columns = min(width, WIDEST) - margin - 2
    rows = [[" "] * columns for _ in range(HEIGHT)]
    if limit is not None:
        rows[_place(y_axis, limit, HEIGHT)] = [*f"{LIMIT} " * columns][:columns]
    for mark, each in zip(MARKS, shown, strict=False):
        for x, y in each.points:
            row, column = rows[_place(y_axis, y, HEIGHT)], _place(x_axis, x, columns)
            row[column] = mark if row[column] in (" ", LIMIT, mark) else SHARED
    lines = [f"{heights.get(at, ''):>{margin}} │{''.join(rows[at]).rstrip()}" for at in reversed(range(HEIGHT))]
    return [*lines, " " * (margin + 1) + "└" + "─" * columns, _x_labels(x_axis, xs, margin + 2, columns)]


def legend(series: Sequence[Series]) -> str:
    """Return the legend of a plot, such as 'o plain   x TLS   * both'."""
    shown = [each for each in series if each.points]
    texts = [f"{mark} {each.label}" for mark, each in zip(MARKS, shown, strict=False)]
    return "   ".join([*texts, f"{SHARED} {'both' if len(shown) == 2 else 'several'}"] if len(shown) > 1 else texts)


def _place(axis: Scale, value: float, places: int) -> int:
    return min(places - 1, max(0, round(axis.share(value) * (places - 1))))


def _x_labels(axis: Scale, values: Sequence[float], margin: int, columns: int) -> str:
    """Return the line of labels below the axis: the ends, and as many round numbers as there is room for."""
    line = [" "] * (margin + columns + 8)
    for value in [min(values), max(values), *decades(axis.low, axis.high)]:
        text, at = fmt.number(value, 0 if value >= 10 else None), margin + _place(axis, value, columns)
        start = max(0, min(at - len(text) // 2, margin + columns - len(text)))
        if all(sign == " " for sign in line[max(0, start - 1) : start + len(text) + 1]):
            line[start : start + len(text)] = text
    return "".join(line).rstrip()
