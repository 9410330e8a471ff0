"""What all pictures share: a figure in CSS pixels, and its SVG made fit to stand in a page.

matplotlib draws; the SVG is then cleaned: text stays text in the page's own font, colours become CSS variables, ids
are unique in the page, and nothing in it names another file or address. The output is the same for the same data.
"""

from __future__ import annotations

import html
import io
import re
import textwrap
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from costof.report import format as fmt
from costof.report.palette import as_variables, light

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE, NARROW = 800, 360
"""Widths in CSS pixels a picture is drawn in: for a page, and for a phone, where a scaled one could not be read."""
FONT_SIZE = 12
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "costof",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": FONT_SIZE,
    "text.parse_math": False,
    "text.color": light("ink"),
    "axes.edgecolor": light("line"),
    "axes.labelcolor": light("soft"),
    "axes.labelsize": FONT_SIZE,
    "axes.titlesize": FONT_SIZE + 1,
    "axes.unicode_minus": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": light("soft"),
    "ytick.color": light("soft"),
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
    "grid.color": light("line"),
    "grid.linewidth": 0.8,
    "path.simplify": True,
}


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


def drawing() -> AbstractContextManager[None]:
    """matplotlib's settings for the pictures; they are back to what they were afterwards."""
    import matplotlib

    return matplotlib.rc_context(SETTINGS)  # type: ignore[arg-type]  # its keys are literals by type alone


def picture(
    name: str, title: str, caption: list[str], draw: Callable[[int], Figure], legend: list[Legend] | None = None
) -> Picture:
    """Draw in both widths; `draw` gets the width in pixels and returns the figure."""
    with drawing():
        wide, narrow = (
            _svg(draw(width), f"{name}-{kind}", title, " ".join(caption))
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        )
    return Picture(name, title, caption, wide, narrow, legend or [])


def figure(width: int, height: int) -> Figure:
    """A figure of so many CSS pixels: SVG has 72 points an inch, and one point is drawn as one pixel."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), layout="constrained")


def panels(width: int, count: int, panel_height: int, *, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """A grid of so many panels: `columns` beside each other in a wide window, one in a narrow one."""
    across = 1 if width < WIDE else min(columns, count)
    rows = -(-count // across)
    made = figure(width, panel_height * rows)
    made.get_layout_engine().set(hspace=0.1, wspace=0.04)  # type: ignore[union-attr, call-arg]
    axes = made.subplots(rows, across, squeeze=False)
    flat = [each for row in axes for each in row]
    for spare in flat[count:]:
        spare.set_visible(False)
    return made, flat[:count]


def columns_for(settings: int) -> int:
    """Panels beside each other where every row holds one metric: as many as there are settings, if they fit."""
    return settings if settings == 3 else 2


def first_in_row(axes: Axes) -> bool:
    """Whether names along the left edge of this panel serve the whole row."""
    place = axes.get_subplotspec()
    return place is None or place.is_first_col()


def calm(axes: Axes, *, grid: str | None = "x", left: bool = False) -> None:
    """No frame, a faint grid along one axis, no tick marks."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(side == "bottom" or (left and side == "left"))
    axes.tick_params(which="both", length=0, pad=6)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(visible=True, axis=grid)  # type: ignore[arg-type]


def setting_title(label: str, setting: str, columns: int) -> str:
    """What a panel shows and, on a line of its own, where; a label too long for a third of the page on two lines."""
    return f"{textwrap.fill(label, 24) if columns > 2 else label}\n{setting}"


def panel_title(axes: Axes, text: str) -> None:
    """A bold title over the left edge of the panel."""
    axes.set_title(text, loc="left", fontweight="bold", color=light("ink"), pad=10)


def few_ticks(axes: Axes, most: int) -> None:
    """At most so many steps along a linear x axis, at round numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=most, steps=[1, 2, 5, 10]))


def plain_numbers(axis: Any) -> None:
    """Tick labels as the rest of the report writes numbers; no powers of ten, no minor labels that crowd."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: tick(value)))
    axis.set_minor_formatter(NullFormatter())


def tick(value: float) -> str:
    """A tick's number without trailing zeros."""
    text = f"{value:,.6f}".rstrip("0").rstrip(".")
    return text.replace("-", fmt.MINUS)


def _svg(made: Figure, name: str, title: str, description: str) -> str:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    canvas = FigureCanvasSVG(made)
    # Laid out here and once: to do it, saving would draw the whole figure and throw that away.
    if layout := made.get_layout_engine():
        layout.execute(made)
        made.set_layout_engine("none")
    metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    canvas.print_svg(buffer, metadata=metadata)  # type: ignore[no-untyped-call]
    return _clean(buffer.getvalue(), name, title, description)


def _clean(svg: str, name: str, title: str, description: str) -> str:
    """An SVG for the inside of a page, without prologue, comments, metadata, namespaces and ids nobody refers to."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->\n?|<metadata>.*?</metadata>\n?", "", svg, flags=re.DOTALL)
    opening, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    body = body.replace("xlink:href", "href")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda id_: f' id="{name}-{id_[1]}"' if id_[1] in used else "", body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r"font: ([^;\"]*?)(\d+(?:\.\d+)?)px [^;\"]*", r"font: \1\2px var(--font, sans-serif)", body)
    body = re.sub(r' transform="rotate\(-0 [^"]*"|<g/>', "", body)
    body = re.sub(r'(?<= )(d|x|y|transform)="[^"]*"', lambda place: _to_hundredths(place[0]), body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    head = (
        f'<svg {box.group() if box else ""} role="img" aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-desc">{html.escape(description)}</desc>'
    )
    return head + as_variables(body).rstrip()


def _to_hundredths(coordinates: str) -> str:
    """Of a pixel: what is finer nobody sees, and it is a third of a picture's size."""
    return re.sub(r"\d+\.\d+", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), coordinates)
