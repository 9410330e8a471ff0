"""Pictures as SVG: a grid of panels with scales, ticks and marks in data coordinates.

This module exists because a general plotting library took 2 to 3 s of CPU time for the few kinds of marks in a report.
Here, text uses the page's font, colours are CSS variables, ids are unique in the page, and pictures refer to no other
file. The same data always give the same output.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from math import ceil, copysign, floor, log10

from costof import format as fmt
from costof.report.palette import paint

FONT_SIZE, TICK_SIZE = 12, 11
LINE_HEIGHT = 16
TICK_PAD, TICK_GAP = 6, 14
Point = tuple[float, float]
Place = Callable[[float, float], Point]
"""Converts data coordinates to CSS pixels."""
Mark = Callable[[Place], str]
Bend = Callable[[float], float]


def log(value: float) -> float:
    return log10(value)


def decades(low: float, high: float) -> list[float]:
    """Return the numbers 1, 2 and 5 times a power of ten between two values."""
    first, last = int(log10(low)) - 1, int(log10(high)) + 1
    return [
        each * 10.0**power
        for power in range(first, last + 1)
        for each in (1, 2, 5)
        if low <= each * 10.0**power <= high
    ]


def near_zero(threshold: float, room: float) -> Bend:
    """Return an axis transformation that is linear up to the threshold and logarithmic beyond.

    The linear part has the length of `room` decades (factors of ten) of the logarithmic part.
    """

    def bend(value: float) -> float:
        size = abs(value) / threshold
        return copysign(room * size if size <= 1 else room + log10(size), value)

    return bend


@dataclass(frozen=True)
class Scale:
    """An axis from the value `low` (left or bottom end) to the value `high`.

    `bend` transforms values before they are placed on the axis: `log10` makes it logarithmic, `float` leaves it linear.
    """

    low: float
    high: float
    bend: Bend = float

    @staticmethod
    def around(values: Iterable[float], margin: float) -> Scale:
        """Return a linear axis for the values. `margin`, a share of their span, is left free at both ends."""
        known = list(values)
        span = (max(known) - min(known)) or abs(known[0]) or 1.0
        return Scale(min(known) - margin * span, max(known) + margin * span)

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 at its low end to 1 at its high end."""
        start = self.bend(self.low)
        return (self.bend(value) - start) / (self.bend(self.high) - start)

    def shows(self, value: float) -> bool:
        return -1e-9 <= self.share(value) <= 1 + 1e-9

    def ticks(self, most: int) -> list[float]:
        """Return ticks at multiples of 1, 2 or 5 times a power of ten: at most `most` steps, but at least two ticks."""
        span = self.high - self.low
        decade = 10.0 ** floor(log10(span / most))
        step = next(each * decade for each in (1, 2, 5, 10) if span / (each * decade) <= most)
        ticks = [step * count for count in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]
        return ticks if len(ticks) > 1 else self.ticks(most + 1)


@dataclass
class Panel:
    """A panel of a picture. If `x_ticks` or `y_ticks` are None, round numbers are chosen.

    `y_ticks` map values to their labels. `grid` names the axes whose ticks have grid lines.
    """

    title: str = ""
    x: Scale = Scale(0, 1)
    y: Scale = Scale(0, 1)
    x_label: str = ""
    x_ticks: list[float] | None = None
    most_x_ticks: int = 9
    y_ticks: dict[float, str] | None = field(default_factory=dict)
    grid: str = "x"
    framed: bool = True
    marks: list[Mark] = field(default_factory=list)
    words: list[Mark] = field(default_factory=list)

    def line(
        self, points: Sequence[Point], colour: str, width: float, *,
        opacity: float = 1, dashes: str = "", offset: float = 0, aside: float = 0,
    ) -> None:  # fmt: skip
        """Draw a line through the points.

        `dashes` and `offset` are SVG's `stroke-dasharray` and `stroke-dashoffset`. `aside` moves the line right by this
        many pixels.
        """
        style = f"stroke:{paint(colour)};stroke-width:{width}" + (f";stroke-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke-dasharray:{dashes};stroke-dashoffset:{offset}" if dashes else ""
        self.marks.append(lambda place: f'<path d="{_path(place, points, aside)}" style="fill:none;{style}"/>')

    def across(self, y: float, colour: str, width: float, dashes: str = "") -> None:
        """Draw a line over the whole width of the panel."""
        self._rule(colour, width, dashes, lambda: [(self.x.low, y), (self.x.high, y)])

    def upright(self, x: float, colour: str, width: float, dashes: str = "") -> None:
        """Draw a line over the whole height of the panel."""
        self._rule(colour, width, dashes, lambda: [(x, self.y.low), (x, self.y.high)])

    def _rule(self, colour: str, width: float, dashes: str, ends: Callable[[], list[Point]]) -> None:
        # The ends are computed when the panel is drawn, because its scales may be set after this call.
        style = f"stroke:{paint(colour)};stroke-width:{width}" + (f";stroke-dasharray:{dashes}" if dashes else "")
        self.marks.append(lambda place: f'<path d="{_path(place, ends())}" style="{style}"/>')

    def area(self, points: Sequence[Point], colour: str, opacity: float = 1, edge: str = "") -> None:
        style = f"fill:{paint(colour)}" + (f";fill-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke:{paint(edge)}" if edge else ""
        self.marks.append(lambda place: f'<path d="{_path(place, points)}Z" style="{style}"/>')

    def band(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], colour: str) -> None:
        there, back = zip(xs, lows, strict=True), zip(reversed(xs), reversed(highs), strict=True)
        self.area([*there, *back], colour, 0.22)

    def box(self, left: float, right: float, y: float, height: float, colour: str, **style: object) -> None:
        """Draw a horizontal bar whose middle is at `y`. `style` is passed to `area`."""
        low, high = y - height / 2, y + height / 2
        self.area([(left, low), (right, low), (right, high), (left, high)], colour, **style)  # type: ignore[arg-type]

    def dot(
        self, x: float, y: float, colour: str, size: float, *, opacity: float = 1, edge: str = "", aside: float = 0
    ) -> None:
        style = f"fill:{paint(colour)}" + (f";fill-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke:{paint(edge)};stroke-width:.8" if edge else ""

        def mark(place: Place) -> str:
            left, top = place(x, y)
            return f'<circle cx="{left + aside:.1f}" cy="{top:.1f}" r="{size / 2:g}" style="{style}"/>'

        self.marks.append(mark)

    def dots(self, points: Sequence[Point], colour: str, size: float, *, opacity: float = 1) -> None:
        """Draw many equal dots as one SVG path, which makes a page with thousands of dots much smaller."""
        style = f"fill:none;stroke:{paint(colour)};stroke-width:{size:g};stroke-linecap:round"
        style += f";stroke-opacity:{opacity}" if opacity < 1 else ""

        def mark(place: Place) -> str:
            # A line of length 0 with a round cap is a dot.
            path = "".join(f"M{left:.1f} {top:.1f}h0" for left, top in (place(*point) for point in points))
            return f'<path d="{path}" style="{style}"/>'

        self.marks.append(mark)

    def word(
        self, x: float, y: float, text: str, *, right: float = 0, up: float = 0,
        size: float = FONT_SIZE, colour: str = "ink", anchor: str = "start", bold: bool = False,
    ) -> None:  # fmt: skip
        """Write a text whose vertical middle is at a point, moved right and up by `right` and `up` pixels."""

        def mark(place: Place) -> str:
            left, top = place(x, y)
            return text_at(left + right, top - up + 0.35 * size, text, size, colour, anchor, bold=bold)

        self.words.append(mark)

    def x_marks(self, pixels: float) -> list[float]:
        """Return the ticks along x for an axis of this many pixels. A short axis has fewer ticks."""
        if self.x_ticks is not None:
            return [each for each in self.x_ticks if self.x.shows(each)]
        ticks: list[float] = []
        for most in range(self.most_x_ticks, 0, -1):
            ticks = self.x.ticks(most)
            if sum(text_width(tick(each), TICK_SIZE) + TICK_GAP for each in ticks) <= pixels:
                break
        return ticks

    def y_marks(self, pixels: float) -> dict[float, str]:
        if self.y_ticks is not None:
            return {value: text for value, text in self.y_ticks.items() if self.y.shows(value)}
        return {value: tick(value) for value in self.y.ticks(max(2, int(pixels / 30)))}


def _path(place: Place, points: Iterable[Point], aside: float = 0) -> str:
    placed = (place(*point) for point in points)
    return "M" + "L".join(f"{x + aside:.1f} {y:.1f}" for x, y in placed)


def tick(value: float) -> str:
    """Return a tick's label: its number without trailing zeros."""
    return f"{value:,.6f}".rstrip("0").rstrip(".").replace("-", fmt.MINUS)


def text_at(
    x: float, y: float, text: str, size: float, colour: str, anchor: str = "start", *, bold: bool = False
) -> str:
    """Return an SVG text whose baseline is at `y`."""
    weight = ";font-weight:bold" if bold else ""
    end = f";text-anchor:{anchor}" if anchor != "start" else ""
    style = f"fill:{paint(colour)};font-size:{size:g}px{weight}{end}"
    return f'<text x="{x:.1f}" y="{y:.1f}" style="{style}">{escape(text)}</text>'


BOLD = 1.14
"""How many times wider bold letters are than ordinary ones."""


def text_width(text: str, size: float) -> float:
    """Return an upper estimate of a text's width in pixels, because the font of the user's browser is not known."""
    narrow = sum(letter in "iljtfrI.,:;'|!()[] \N{NO-BREAK SPACE}" for letter in text)
    wide = sum(letter in "mwMW%@" for letter in text)
    return size * (0.6 * len(text) - 0.24 * narrow + 0.33 * wide)


WIDE, NARROW = 800, 360
"""Widths of pictures in CSS pixels: for a page, and for a phone, on which a scaled-down picture would be unreadable."""
TITLE_SIZE = FONT_SIZE + 1
TITLE_PAD, EDGE = 10, 3
GAP, ROW_GAP = 24, 18


@dataclass(frozen=True)
class Legend:
    colour: str
    label: str


@dataclass(frozen=True)
class Sheet:
    """A picture of panels in rows of `columns` panels each. `heights` are the heights of the rows in pixels."""

    width: int
    panels: list[Panel]
    heights: list[int]
    columns: int = 1

    def svg(self, name: str, title: str, description: str) -> str:
        """Return the picture as SVG. `name` makes its ids unique in the page."""
        body = "\n".join(
            self._panel(panel, f"{name}-{index}", *place)
            for index, (panel, place) in enumerate(zip(self.panels, self._places(), strict=True))
        )
        return (
            f'<svg viewBox="0 0 {self.width} {sum(self.heights)}" role="img" '
            f'aria-labelledby="{name}-title {name}-desc" style="font-family:var(--font, sans-serif)">'
            f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-desc">{escape(description)}</desc>\n'
            f"{body}\n</svg>"
        )

    def _places(self) -> list[tuple[float, float, float, float]]:
        """Return left, right, top and bottom of each panel's axes in pixels, aligned within columns and rows."""
        rough = self.width / self.columns - 60
        columns = [self.panels[column :: self.columns] for column in range(self.columns)]
        left = [max(_left(panel) for panel in column) for column in columns]
        right = [max(_right(panel, rough) for panel in column) for column in columns]
        gaps = GAP * (self.columns - 1)
        across = (self.width - sum(left) - sum(right) - gaps) / self.columns
        starts = [
            sum(left[: column + 1]) + sum(right[:column]) + column * (across + GAP) for column in range(self.columns)
        ]
        tops = [0, *accumulate(self.heights)]
        rows = [self.panels[first : first + self.columns] for first in range(0, len(self.panels), self.columns)]
        places = []
        for row, top, end in zip(rows, tops, tops[1:], strict=False):
            head, foot = (
                max(_head(len(self._title_lines(panel))) for panel in row),
                max(map(_foot, row)) + (ROW_GAP if end < tops[-1] and row[0].framed else 0),
            )
            places += [(start, start + across, top + head, end - foot) for start, _ in zip(starts, row, strict=False)]
        return places

    def _panel(self, panel: Panel, name: str, left: float, right: float, top: float, bottom: float) -> str:
        def place(x: float, y: float) -> tuple[float, float]:
            return left + panel.x.share(x) * (right - left), bottom - panel.y.share(y) * (bottom - top)

        lines = self._title_lines(panel)
        first = top - TITLE_PAD - LINE_HEIGHT * (len(lines) - 1)
        # A title that is too long to begin at the axis begins at the left edge of the sheet.
        latest = min((self.width - EDGE - text_width(line, TITLE_SIZE) * BOLD for line in lines), default=left)
        start = max(EDGE, min(left, latest)) if self.columns == 1 else left
        parts = [
            text_at(start, first + LINE_HEIGHT * index, line, TITLE_SIZE, "ink", bold=True)
            for index, line in enumerate(lines)
        ]
        if panel.framed:
            parts += _axes(panel, left, right, top, bottom)
        parts.append(
            f'<clipPath id="{name}"><path d="M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}Z"/></clipPath>'
            f'<g clip-path="url(#{name})">'
        )
        return "\n".join(
            [*parts, *(mark(place) for mark in panel.marks), "</g>", *(word(place) for word in panel.words)]
        )

    def _title_lines(self, panel: Panel) -> list[str]:
        """Return the lines of the panel's title. In one column, lines that are wider than the sheet are wrapped."""
        lines = panel.title.split("\n") if panel.title else []
        if self.columns > 1:
            return lines
        room = (self.width - 2 * EDGE) / BOLD
        wrapped = (
            textwrap.wrap(line, int(len(line) * min(1, room / text_width(line, TITLE_SIZE)))) for line in lines if line
        )
        return [part for parts in wrapped for part in parts]


def _axes(panel: Panel, left: float, right: float, top: float, bottom: float) -> list[str]:
    xs = {value: left + panel.x.share(value) * (right - left) for value in panel.x_marks(right - left)}
    ys = {bottom - panel.y.share(value) * (bottom - top): text for value, text in panel.y_marks(bottom - top).items()}
    lines = [f"M{x:.1f} {top:.1f}V{bottom:.1f}" for x in xs.values()] if "x" in panel.grid else []
    lines += [f"M{left:.1f} {y:.1f}H{right:.1f}" for y in ys] if "y" in panel.grid else []
    under = bottom + TICK_PAD + TICK_SIZE
    parts = [
        f'<path d="{"".join(lines)}M{left:.1f} {bottom:.1f}H{right:.1f}" '
        f'style="stroke:{paint("line")};stroke-width:.8"/>'
    ]
    parts += [text_at(x, under, tick(value), TICK_SIZE, "soft", "middle") for value, x in xs.items()]
    for y, text in ys.items():
        lines_of = text.split("\n")
        start = y + 0.35 * TICK_SIZE - 7 * (len(lines_of) - 1)
        parts += [
            text_at(left - TICK_PAD, start + 14 * index, line, TICK_SIZE, "soft", "end")
            for index, line in enumerate(lines_of)
            if line
        ]
    if panel.x_label:
        parts.append(text_at((left + right) / 2, under + LINE_HEIGHT, panel.x_label, FONT_SIZE, "soft", "middle"))
    return parts


def _left(panel: Panel) -> float:
    """Return the width that the labels along the y axis need.

    The panel's height is not known yet, so the labels are those of a panel 200 pixels high. Other heights hardly change
    the width.
    """
    lines = [line for text in panel.y_marks(200).values() for line in text.split("\n")] if panel.framed else []
    return max([EDGE, *(text_width(line, TICK_SIZE) + TICK_PAD + EDGE for line in lines if line)])


def _right(panel: Panel, pixels: float) -> float:
    """Return the width by which the last label along x extends beyond the axis."""
    if not panel.framed:
        return EDGE
    ends = [(text_width(tick(x), TICK_SIZE) / 2 - (1 - panel.x.share(x)) * pixels) for x in panel.x_marks(pixels)]
    return max([EDGE, *ends])


def _head(title_lines: int) -> float:
    return EDGE + (TITLE_PAD + LINE_HEIGHT * title_lines if title_lines else 0)


def _foot(panel: Panel) -> float:
    if not panel.framed:
        return EDGE
    return EDGE + TICK_PAD + TICK_SIZE + (LINE_HEIGHT if panel.x_label else 0)


def grid(width: int, panels: list[Panel], panel_height: int, *, columns: int = 2) -> Sheet:
    """Return a sheet of panels of one height, in `columns` columns if it is wide, otherwise in one column."""
    across = 1 if width < WIDE else min(columns, len(panels))
    return Sheet(width, panels, [panel_height] * -(-len(panels) // across), across)


def columns_for(contexts: int) -> int:
    """Return the number of columns of a picture that has one panel for each context (such as each distance)."""
    return contexts if contexts == 3 else 2


def named(index: int, width: int, columns: int, *, many: bool) -> bool:
    """Return whether the panel at this index shows the names of its rows at its left edge.

    In a wide picture of several contexts (`many`), such as distances, only the leftmost panels show names.
    """
    return not many or width < WIDE or index % columns == 0


def context_title(label: str, context: str, columns: int) -> str:
    """Return a panel's label and, on the next line, its context. In three columns, long labels are wrapped."""
    return f"{textwrap.fill(label, 24) if columns > 2 else label}\n{context}"
