"""What all pictures share: panels in a grid of CSS pixels, and their SVG made fit to stand in a page.

Text stays text in the page's own font, colours are CSS variables, ids are unique in the page, and nothing in a picture
names another file or address. The output is the same for the same data.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate

from costof.report.axes import (
    FONT_SIZE,
    LINE_HEIGHT,
    TICK_PAD,
    TICK_SIZE,
    Panel,
    text_at,
    text_width,
    tick,
)
from costof.report.palette import paint

WIDE, NARROW = 800, 360
"""Widths in CSS pixels a picture is drawn in: for a page, and for a phone, where a scaled one could not be read."""
TITLE_SIZE = FONT_SIZE + 1
TITLE_PAD, EDGE = 10, 3
GAP, ROW_GAP = 24, 18


@dataclass(frozen=True)
class Legend:
    """A colour's name in the palette and what it stands for."""

    colour: str
    label: str


@dataclass(frozen=True)
class Picture:
    """A picture for the page: the same drawing for a wide and a narrow window, and sentences that say what to see."""

    name: str
    title: str
    caption: list[str]
    wide: str
    narrow: str
    legend: list[Legend] = field(default_factory=list)


@dataclass(frozen=True)
class Sheet:
    """Panels row by row, each row of its own height in pixels: as many beside each other as there are `columns`."""

    width: int
    panels: list[Panel]
    heights: list[int]
    columns: int = 1

    def svg(self, name: str, title: str, description: str) -> str:
        """The picture; `name` keeps its ids apart from those of the page's other pictures."""
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
        """Left, right, top and bottom of each panel's axes: a column's share their sides, a row's their ends."""
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
                max(map(_head, row)),
                max(map(_foot, row)) + (ROW_GAP if end < tops[-1] and row[0].framed else 0),
            )
            places += [(start, start + across, top + head, end - foot) for start, _ in zip(starts, row, strict=False)]
        return places

    def _panel(self, panel: Panel, name: str, left: float, right: float, top: float, bottom: float) -> str:
        def place(x: float, y: float) -> tuple[float, float]:
            return left + panel.x.share(x) * (right - left), bottom - panel.y.share(y) * (bottom - top)

        lines = panel.title.split("\n") if panel.title else []
        first = top - TITLE_PAD - LINE_HEIGHT * (len(lines) - 1)
        parts = [
            text_at(left, first + LINE_HEIGHT * index, line, TITLE_SIZE, "ink", bold=True)
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


def _axes(panel: Panel, left: float, right: float, top: float, bottom: float) -> list[str]:
    """A line at the bottom, a faint grid, and the ticks' words; no frame and no tick marks."""
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
    """Room for the words along y; the height of the panel decides little about how long its numbers are."""
    lines = [line for text in panel.y_marks(200).values() for line in text.split("\n")] if panel.framed else []
    return max([EDGE, *(text_width(line, TICK_SIZE) + TICK_PAD + EDGE for line in lines if line)])


def _right(panel: Panel, pixels: float) -> float:
    """Room for the half of the last number along x that stands out."""
    if not panel.framed:
        return EDGE
    ends = [(text_width(tick(x), TICK_SIZE) / 2 - (1 - panel.x.share(x)) * pixels) for x in panel.x_marks(pixels)]
    return max([EDGE, *ends])


def _head(panel: Panel) -> float:
    return EDGE + (TITLE_PAD + LINE_HEIGHT * (panel.title.count("\n") + 1) if panel.title else 0)


def _foot(panel: Panel) -> float:
    if not panel.framed:
        return EDGE
    return EDGE + TICK_PAD + TICK_SIZE + (LINE_HEIGHT if panel.x_label else 0)


def picture(
    name: str, title: str, caption: list[str], draw: Callable[[int], Sheet], legend: list[Legend] | None = None
) -> Picture:
    """Draw in both widths; `draw` gets the width in pixels."""
    wide, narrow = (
        draw(width).svg(f"{name}-{kind}", title, " ".join(caption))
        for kind, width in (("wide", WIDE), ("narrow", NARROW))
    )
    return Picture(name, title, caption, wide, narrow, legend or [])


def grid(width: int, panels: list[Panel], panel_height: int, *, columns: int = 2) -> Sheet:
    """Panels of one height: `columns` beside each other in a wide window, one in a narrow one."""
    across = 1 if width < WIDE else min(columns, len(panels))
    return Sheet(width, panels, [panel_height] * -(-len(panels) // across), across)


def columns_for(settings: int) -> int:
    """Panels beside each other where every row holds one metric: as many as there are settings, if they fit."""
    return settings if settings == 3 else 2


def named(index: int, width: int, columns: int, *, many: bool) -> bool:
    """Whether a panel has names along its left edge: where there are many, those of the first serve the whole row."""
    return not many or width < WIDE or index % columns == 0


def setting_title(label: str, setting: str, columns: int) -> str:
    """What a panel shows and, on a line of its own, where; a label too long for a third of the page on two lines."""
    return f"{textwrap.fill(label, 24) if columns > 2 else label}\n{setting}"
