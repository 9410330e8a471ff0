"""A panel of a picture: scales, ticks, and marks in the data's own numbers, put down as SVG.

Written for this page and no more: a general plotting library took 2 to 3 s of CPU time for the few kinds of marks that
a report has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, copysign, floor, log10

from costof import format as fmt
from costof.report.palette import paint

FONT_SIZE, TICK_SIZE = 12, 11
LINE_HEIGHT = 16
TICK_PAD, TICK_GAP = 6, 14
Point = tuple[float, float]
Place = Callable[[float, float], Point]
"""From a point of the data to CSS pixels."""
Mark = Callable[[Place], str]
Bend = Callable[[float], float]


def log(value: float) -> float:
    """For a logarithmic axis."""
    return log10(value)


def near_zero(threshold: float, room: float) -> Bend:
    """Linear up to the threshold either way, which gets so many decades' room, and logarithmic beyond."""

    def bend(value: float) -> float:
        size = abs(value) / threshold
        return copysign(room * size if size <= 1 else room + log10(size), value)

    return bend


@dataclass(frozen=True)
class Scale:
    """The values at both ends of an axis, left or bottom first, and how it is bent between them."""

    low: float
    high: float
    bend: Bend = float

    @staticmethod
    def around(values: Iterable[float], margin: float) -> Scale:
        """A linear axis with a margin, a share of the values' span, at both ends."""
        known = list(values)
        span = (max(known) - min(known)) or abs(known[0]) or 1.0
        return Scale(min(known) - margin * span, max(known) + margin * span)

    def share(self, value: float) -> float:
        """How far along the axis a value stands: 0 at its low end, 1 at its high end."""
        start = self.bend(self.low)
        return (self.bend(value) - start) / (self.bend(self.high) - start)

    def shows(self, value: float) -> bool:
        """Whether the value is on the axis, ends included."""
        return -1e-9 <= self.share(value) <= 1 + 1e-9

    def ticks(self, most: int) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten, at most so many steps but two ticks at least."""
        span = self.high - self.low
        decade = 10.0 ** floor(log10(span / most))
        step = next(each * decade for each in (1, 2, 5, 10) if span / (each * decade) <= most)
        found = [step * count for count in range(ceil(self.low / step - 1e-9), floor(self.high / step + 1e-9) + 1)]
        return found if len(found) > 1 else self.ticks(most + 1)


@dataclass
class Panel:
    """What one panel shows. Ticks that are not given are round numbers; names along y are its ticks' words."""

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
        """A line through the points; `dashes` and their `offset` as SVG has them, `aside` moves it by pixels."""
        style = f"stroke:{paint(colour)};stroke-width:{width}" + (f";stroke-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke-dasharray:{dashes};stroke-dashoffset:{offset}" if dashes else ""
        self.marks.append(lambda place: f'<path d="{_path(place, points, aside)}" style="fill:none;{style}"/>')

    def across(self, y: float, colour: str, width: float, dashes: str = "") -> None:
        """A line over the whole width of the panel."""
        self.marks.append(
            lambda place: (
                f'<path d="{_path(place, [(self.x.low, y), (self.x.high, y)])}" '
                f'style="{_rule(colour, width, dashes)}"/>'
            )
        )

    def upright(self, x: float, colour: str, width: float, dashes: str = "") -> None:
        """A line over the whole height of the panel."""
        self.marks.append(
            lambda place: (
                f'<path d="{_path(place, [(x, self.y.low), (x, self.y.high)])}" '
                f'style="{_rule(colour, width, dashes)}"/>'
            )
        )

    def area(self, points: Sequence[Point], colour: str, opacity: float = 1, edge: str = "") -> None:
        """The area within the points."""
        style = f"fill:{paint(colour)}" + (f";fill-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke:{paint(edge)}" if edge else ""
        self.marks.append(lambda place: f'<path d="{_path(place, points)}Z" style="{style}"/>')

    def band(self, xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], colour: str) -> None:
        """The area between two lines."""
        there, back = zip(xs, lows, strict=True), zip(reversed(xs), reversed(highs), strict=True)
        self.area([*there, *back], colour, 0.22)

    def box(self, left: float, right: float, y: float, height: float, colour: str, **style: object) -> None:
        """A bar around `y`, both in the data's numbers; `style` is `area`'s."""
        low, high = y - height / 2, y + height / 2
        self.area([(left, low), (right, low), (right, high), (left, high)], colour, **style)  # type: ignore[arg-type]

    def dot(
        self, x: float, y: float, colour: str, size: float, *, opacity: float = 1, edge: str = "", aside: float = 0
    ) -> None:
        """A dot of so many pixels across."""
        style = f"fill:{paint(colour)}" + (f";fill-opacity:{opacity}" if opacity < 1 else "")
        style += f";stroke:{paint(edge)};stroke-width:.8" if edge else ""

        def mark(place: Place) -> str:
            left, top = place(x, y)
            return f'<circle cx="{left + aside:.1f}" cy="{top:.1f}" r="{size / 2:g}" style="{style}"/>'

        self.marks.append(mark)

    def word(
        self, x: float, y: float, text: str, *, right: float = 0, up: float = 0,
        size: float = FONT_SIZE, colour: str = "ink", anchor: str = "start", bold: bool = False,
    ) -> None:  # fmt: skip
        """Words whose middle line is so many pixels right of and above a point."""

        def mark(place: Place) -> str:
            left, top = place(x, y)
            return text_at(left + right, top - up + 0.35 * size, text, size, colour, anchor, bold=bold)

        self.words.append(mark)

    def x_marks(self, pixels: float) -> list[float]:
        """The ticks along x, fewer where the axis is too short for them."""
        if self.x_ticks is not None:
            return [each for each in self.x_ticks if self.x.shows(each)]
        found: list[float] = []
        for most in range(self.most_x_ticks, 0, -1):
            found = self.x.ticks(most)
            if sum(text_width(tick(each), TICK_SIZE) + TICK_GAP for each in found) <= pixels:
                break
        return found

    def y_marks(self, pixels: float) -> dict[float, str]:
        """The ticks along y and their words."""
        if self.y_ticks is not None:
            return {value: text for value, text in self.y_ticks.items() if self.y.shows(value)}
        return {value: tick(value) for value in self.y.ticks(max(2, int(pixels / 30)))}


def _rule(colour: str, width: float, dashes: str) -> str:
    return f"stroke:{paint(colour)};stroke-width:{width}" + (f";stroke-dasharray:{dashes}" if dashes else "")


def _path(place: Place, points: Iterable[Point], aside: float = 0) -> str:
    placed = (place(*point) for point in points)
    return "M" + "L".join(f"{x + aside:.1f} {y:.1f}" for x, y in placed)


def tick(value: float) -> str:
    """A tick's number as the rest of the report writes numbers, without trailing zeros."""
    return f"{value:,.6f}".rstrip("0").rstrip(".").replace("-", fmt.MINUS)


def text_at(
    x: float, y: float, text: str, size: float, colour: str, anchor: str = "start", *, bold: bool = False
) -> str:
    """Words with their base line at `y`. They take the page's font."""
    weight = ";font-weight:bold" if bold else ""
    end = f";text-anchor:{anchor}" if anchor != "start" else ""
    style = f"fill:{paint(colour)};font-size:{size:g}px{weight}{end}"
    return f'<text x="{x:.1f}" y="{y:.1f}" style="{style}">{escape(text)}</text>'


def text_width(text: str, size: float) -> float:
    """About how many pixels wide words are, rather too many than too few: the reader's font is not known here."""
    narrow = sum(letter in "iljtfrI.,:;'|!()[] \N{NO-BREAK SPACE}" for letter in text)
    wide = sum(letter in "mwMW%@" for letter in text)
    return size * (0.6 * len(text) - 0.24 * narrow + 0.33 * wide)
