"""The cures from the best to the worst: what each gives back of the loss, as a point with its interval."""

from __future__ import annotations

import textwrap

from costof.analysis.result import Cure
from costof.document.axes import Panel, Scale
from costof.document.canvas import NARROW, Picture, Sheet, picture
from costof.report import winning_back
from costof.report.reading import Reading
from costof.statistics.estimate import Estimate, Verdict

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


def _draw(shown: list[tuple[Cure, Estimate]], width: int) -> Sheet:
    letters = 20 if width <= NARROW else 40
    ends = [100 * end for _, share in shown for end in (share.low, share.high)]
    panel = Panel(
        x=Scale.around([*ends, 0, 100], 0.06),
        y=Scale(len(shown) - 0.5, -0.5),
        x_label="given back, % of the loss",
        most_x_ticks=5,
        y_ticks={row: textwrap.fill(cure.label, letters) for row, (cure, _) in enumerate(shown)},
    )
    panel.upright(0, "ink", 1)
    panel.upright(100, "soft", 1, dashes="4 3")
    for row, (cure, share) in enumerate(shown):
        colour = COLOURS[cure.verdict]
        panel.line([(share.low * 100, row), (share.high * 100, row)], colour, 3)
        panel.dot(share.value * 100, row, colour, 9)
    return Sheet(width, [panel], [76 + ROW_HEIGHT * len(shown)])
