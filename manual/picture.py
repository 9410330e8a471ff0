"""README's picture, taken from a run's report: the phases of a new connection, plain and protected."""

from __future__ import annotations

from costof.report import document
from costof.report.blocks import Figure
from costof.report.canvas import FONT_SIZE, WIDE, text_at, text_width
from costof.report.palette import paint
from costof.report.result import Result

FIGURE = "phases"
HEAD, SWATCH, GAP = 30, 11, 18


def picture(result: Result) -> str:
    """Return the figure of the phases, with its legend, as SVG. Raises `StopIteration` if the run has no phases."""
    blocks = (block for part in document(result).parts for block in part.blocks)
    figure = next(block for block in blocks if isinstance(block, Figure) and block.name == FIGURE)
    sheet = figure.draw(WIDE)
    height, left, legend = HEAD + sum(sheet.heights), GAP / 2, []
    for each in figure.legend:
        style = f"fill:{paint(each.colour)}"
        legend.append(f'<rect x="{left:.1f}" y="{HEAD - 20}" width="{SWATCH}" height="{SWATCH}" style="{style}"/>')
        legend.append(text_at(left + SWATCH + 5, HEAD - 10, each.label, FONT_SIZE, "ink"))
        left += SWATCH + 5 + text_width(each.label, FONT_SIZE) + GAP
    drawn = sheet.svg(figure.name, figure.title, " ".join(figure.caption))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" font-family="sans-serif">',
            f'<rect width="{WIDE}" height="{height}" style="fill:{paint("paper")}"/>',
            *legend,
            f'<g transform="translate(0 {HEAD})">',
            drawn.replace("<svg ", f'<svg width="{WIDE}" height="{height - HEAD}" ', 1),
            "</g>\n</svg>\n",
        ]
    )
