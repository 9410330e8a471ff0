"""Who followed whom: every tree of the run once, the primary at the top."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report import trees as words
from costof.report.palette import light
from costof.report.pictures.canvas import WIDE, Picture, panel_title, panels, picture
from costof.report.reading import Reading
from costof.result import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Places = dict[str, tuple[float, int]]
LEVEL_HEIGHT = 34


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
    """Where members stand: leaves side by side, a source over the middle of its followers, by hops from the primary."""
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
    deepest = max(depth for found in stood for _, depth in found.values())
    made, axes = panels(width, len(shown), 70 + LEVEL_HEIGHT * (deepest + 1), columns=3 if width >= WIDE else 1)
    for each, panel, found in zip(shown, axes, stood, strict=True):
        _panel(panel, each.tree, found)
        panel.set_ylim(deepest + 0.6, -0.6)
        panel_title(panel, f"{each.members} members\n{title(each).partition(': ')[2]}")
    return made


def _panel(axes: Axes, tree: Tree, found: Places) -> None:
    for source, names in tree.followers.items():
        for name in names:
            (x, y), (below, depth) = found[source], found[name]
            axes.plot([x, below], [y, depth], color=light("soft"), linewidth=1.2, zorder=1)
    for name, (x, depth) in found.items():
        colour = light("arm1" if depth == 0 else "control")
        axes.plot([x], [depth], "o", color=colour, markersize=17, zorder=2)
        label = words.initials(name)
        axes.annotate(label, (x, depth), ha="center", va="center", fontsize=8, color=light("paper"), zorder=3)
    across = [x for x, _ in found.values()]
    axes.set_xlim(min(across) - 0.8, max(across) + 0.8)
    axes.set_axis_off()
