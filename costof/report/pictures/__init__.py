"""The pictures of the HTML report, one file each; a study that needs another adds its file and a name here."""

from __future__ import annotations

from collections.abc import Callable

from costof.document.canvas import Legend, Picture
from costof.report.pictures.break_even import break_even
from costof.report.pictures.cpu import cpu
from costof.report.pictures.cures import cures
from costof.report.pictures.differences import differences
from costof.report.pictures.distance import distance
from costof.report.pictures.distributions import distributions
from costof.report.pictures.phases import phases
from costof.report.pictures.trees import trees
from costof.report.reading import Reading

__all__ = ["PICTURES", "Legend", "Picture", "draw_all"]

PICTURES: dict[str, Callable[[Reading], Picture | None]] = {
    "phases": phases,
    "distributions": distributions,
    "differences": differences,
    "cures": cures,
    "trees": trees,
    "break_even": break_even,
    "distance": distance,
    "cpu": cpu,
}


def draw_all(reading: Reading) -> dict[str, Picture]:
    """The pictures that the run has data for, by the name its section asks for."""
    drawn = {name: draw(reading) for name, draw in PICTURES.items()}
    return {name: made for name, made in drawn.items() if made is not None}
