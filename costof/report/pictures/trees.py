"""Who followed whom: every tree of the run once, the primary at the left."""

from __future__ import annotations

from costof.analysis.result import Tree
from costof.document import format as fmt
from costof.document.axes import Panel, Scale
from costof.document.canvas import Picture, Sheet, picture
from costof.report import trees as words
from costof.report.reading import Reading

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


def _draw(shown: list[words.Shown], width: int) -> Sheet:
    stood = [places(each.tree) for each in shown]
    deepest = max(FEWEST_COLUMNS, *(depth for found in stood for _, depth in found.values()))
    panels = [_panel(title(each), each.tree, found, deepest) for each, found in zip(shown, stood, strict=True)]
    heights = [TITLE_HEIGHT + ROW_HEIGHT * round(max(row for row, _ in found.values())) for found in stood]
    return Sheet(width, panels, heights)


def _panel(name: str, tree: Tree, found: Places, deepest: int) -> Panel:
    """Hops from the primary to the right, those that follow the same one below each other."""
    lowest = max(row for row, _ in found.values()) + 0.6
    panel = Panel(title=name, x=Scale(-0.5, deepest + 0.5), y=Scale(lowest, 0.4), framed=False)
    for source, names in tree.followers.items():
        for follower in names:
            panel.line([found[each][::-1] for each in (source, follower)], "soft", 1.2)
    for member, (row, hops) in found.items():
        panel.dot(hops, row, "arm1" if hops == 0 else "control", 17)
        panel.word(hops, row, words.initials(member), size=8, colour="paper", anchor="middle")
    return panel
