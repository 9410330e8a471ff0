"""The cures from the best to the worst: what each gives back of the loss, as a point with its interval."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from costof.report import winning_back
from costof.report.palette import light
from costof.report.pictures.canvas import NARROW, Picture, calm, few_ticks, figure, picture, plain_numbers
from costof.report.reading import Reading
from costof.result import Cure, Estimate, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    Verdict.SAVES: "saves",
    Verdict.COSTS: "costs",
    Verdict.NO_COST: "none",
    Verdict.UNRESOLVED: "unresolved",
}
ROW_HEIGHT = 40


def cures(reading: Reading) -> Picture | None:
    """None where no cure has a share of the loss to show."""
    shown = [(cure, cure.given_back) for cure in reading.result.cures if cure.given_back is not None]
    if not shown:
        return None
    text = ["The point is what a cure gives back of the loss, the line its 95 % interval; 100 % is all of it."]
    text += [f"{cure.label}: {winning_back.share(given_back)}." for cure, given_back in shown]
    return picture("cures", "What each cure gives back", text, lambda width: _draw(shown, width))


def _draw(shown: list[tuple[Cure, Estimate]], width: int) -> Figure:
    made = figure(width, 76 + ROW_HEIGHT * len(shown))
    axes = made.subplots()
    for row, (cure, share) in enumerate(shown):
        colour = light(COLOURS[cure.verdict])
        axes.plot([share.low * 100, share.high * 100], [row, row], color=colour, linewidth=3, solid_capstyle="butt")
        axes.plot([share.value * 100], [row], "o", color=colour, markersize=8)
    axes.axvline(0, color=light("ink"), linewidth=1)
    axes.axvline(100, color=light("soft"), linewidth=1, linestyle=(0, (4, 3)))
    letters = 20 if width <= NARROW else 40
    axes.set_yticks(range(len(shown)), [textwrap.fill(cure.label, letters) for cure, _ in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.margins(x=0.06)
    calm(axes)
    plain_numbers(axes.xaxis)
    few_ticks(axes, 5)
    axes.set_xlabel("given back, % of the loss")
    return made
