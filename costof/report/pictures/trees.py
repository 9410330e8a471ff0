"""Who followed whom: every tree of the run once, the primary at the left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report import trees as words
from costof.report.palette import light
from costof.report.pictures.canvas import Picture, figure, panel_title, picture
from costof.report.reading import Reading
from costof.result import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places = dict[str, tuple[float, int]]
ROW_HEIGHT, TITLE_HEIGHT = 20, 44
FEWEST_COLUMNS = 6
"""So that a star's lines do not cross the whole page."""


def trees(reading: Reading) -> Picture | None:
    """None where no servers told who follows whom."""
    shown = words.distinct(reading.result)
    if not shown:
        return None
    text = [f"{title(each)}: {words.shape(each.tree)}." for each in shown]
    return picture("trees", "Who followed whom", [words.LEGEND, *text], lambda width: _draw(shown, width))


def title(shown: words.Shown) -> str:
    """'7 members: star, chaining allowed'."""
    return f"{shown.members} members: {fmt.listed(list(dict.fromkeys(arm.label for arm in shown.arms)))}"


def places(tree: Tree) -> Places:
    """Row and hops of each member: leaves below each other, a source beside the middle of its followers."""
    found: Places = {}
    free = 0

    def put(name: str, depth: int) -> float:
        nonlocal free
        found[name] = (0.0, depth)
        below = [put(each, depth + 1) for each in tree.followers.get(name, []) if each not in found]
        if not below:
            free += 1
        found[name] = (sum(below) / len(below) if below else float(free), depth)
        return found[name][0]

    put(words.root(tree), 0)
    for name in tree.followers:
        # Members that follow each other hang on nothing.
        if name not in found:
            put(name, 0)
    return found


def _draw(shown: list[words.Shown], width: int) -> Figure:
    stood = [places(each.tree) for each in shown]
    rows = [max(x for x, _ in found.values()) for found in stood]
    made = figure(width, sum(TITLE_HEIGHT + ROW_HEIGHT * round(count) for count in rows))
    axes = made.subplots(len(shown), 1, squeeze=False, height_ratios=[TITLE_HEIGHT + ROW_HEIGHT * n for n in rows])
    deepest = max(depth for found in stood for _, depth in found.values())
    for each, (panel,), found in zip(shown, axes, stood, strict=True):
        _panel(panel, each.tree, found)
        panel.set_xlim(-0.5, max(deepest, FEWEST_COLUMNS) + 0.5)
        panel_title(panel, title(each))
    return made


def _panel(axes: Axes, tree: Tree, found: Places) -> None:
    """Hops from the primary to the right, those that follow the same one below each other."""
    for source, names in tree.followers.items():
        for name in names:
            (row, hops), (other, further) = found[source], found[name]
            axes.plot([hops, further], [row, other], color=light("soft"), linewidth=1.2, zorder=1)
    for name, (row, hops) in found.items():
        axes.plot([hops], [row], "o", color=light("arm1" if hops == 0 else "control"), markersize=16, zorder=2)
        label = words.initials(name)
        axes.annotate(label, (hops, row), ha="center", va="center", fontsize=8, color=light("paper"), zorder=3)
    axes.set_ylim(max(row for row, _ in found.values()) + 0.6, 0.4)
    axes.set_axis_off()
