"""Sync trees: who followed whom in each arm's slices, read from every member before and after each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.blocks import FILES, HTML, TERMINAL, Block, Bullets, Figure, Paragraph, Table
from costof.report.canvas import Panel, Scale, Sheet
from costof.report.sections import Section
from costof.results.arms import set_ups
from costof.results.index import SAME_SET_UP, Index
from costof.results.models import Arm, Core
from costof.results.run import Run

HEAD = ["arm", "who followed whom", "slices", "discarded", ""]
METHOD = (
    "The tree was read from every member right before and right after each slice; a slice whose tree was not the "
    "arm's, or changed, was discarded."
)
SHORT = {"primary": "P", "secondary": "S", "hidden": "H", "read-only": "R"}
LEGEND = "P is the primary, S a secondary, H a hidden one, R one that is read-only and has no vote."
Places = dict[str, tuple[float, int]]
ROW_HEIGHT, TITLE_HEIGHT = 20, 44
FEWEST_COLUMNS = 6
"""So that a star's lines do not cross the whole page."""


class Tree(Model):
    """Who followed whom in slices of an arm."""

    arm: str
    followers: dict[str, list[str]] = Field(description="Members by the one they follow; the primary comes first.")
    slices: int
    discarded: int = Field(default=0, description="Slices of the arm whose tree was not its own; in no figure.")

    @property
    def root(self) -> str:
        """The member that is followed and follows nobody; of members that follow each other, the first."""
        following = {name for names in self.followers.values() for name in names}
        return next((source for source in self.followers if source not in following), next(iter(self.followers), ""))


@dataclass(frozen=True)
class Distinct:
    """One tree and the arms that had it, whatever their context."""

    tree: Tree
    arms: list[Arm]

    @property
    def members(self) -> int:
        return 1 + sum(map(len, self.tree.followers.values()))

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(arm.label for arm in self.arms))

    @property
    def title(self) -> str:
        """'7 members: star, chaining allowed'."""
        return f"{self.members} members: {fmt.listed(self.labels)}"


class SyncTreeSection(Section[None, list[Tree]]):
    name, title, order = "sync_tree", "Who followed whom", 40
    data = list[Tree]

    def compute(self, run: Run, core: Core, spec: None) -> list[Tree] | None:
        """Return every tree of every arm, the most frequent first; None where the servers report no tree."""
        found = [
            Tree(
                arm=arm.name,
                followers=followers_of(tree),
                slices=slices,
                discarded=sum(p.mismatch is not None for p in run.all_slices(arm.name) if not p.warm_up),
            )
            for arm in run.plan.arms
            for tree, slices in set_ups(run, arm).most_common()
        ]
        return found or None

    def blocks(self, index: Index, data: list[Tree]) -> Iterator[Block]:
        distinct: dict[str, Distinct] = {}
        rows = []
        for tree in data:
            arm = index.arm(tree.arm)
            same = ""
            if arm and not arm.replicate:
                distinct.setdefault(repr(tree.followers), Distinct(tree, [])).arms.append(arm)
                same = f"as {fmt.listed(arm.same_set_up)}: {SAME_SET_UP}" if arm.same_set_up else ""
            rows.append([tree.arm, shape(tree), f"{tree.slices:,}", f"{tree.discarded:,}", same])
        found = sorted(distinct.values(), key=lambda each: each.members)
        caption = [LEGEND, *(f"{each.title}: {shape(each.tree)}." for each in found)]
        yield Figure("trees", "Who followed whom", caption, lambda width: _draw(found, width), media=HTML)
        yield Table.of(HEAD, rows, title="Trees, by arm", texts=(0, 1, 4), media=FILES)
        yield Paragraph(METHOD, "note", media=FILES)
        lines = []
        for each in found:
            same = f" ({SAME_SET_UP})" if len(each.labels) > 1 else ""
            lines.append(f"{each.members} members, {fmt.listed(each.labels)}: {shape(each.tree)}{same}")
        discarded = {tree.arm: tree.discarded for tree in data if tree.discarded}
        lines += [f"{name}: {fmt.plural(count, 'slice')} discarded" for name, count in discarded.items()]
        yield Bullets(lines, label="Trees", media=TERMINAL)


def followers_of(tree: str) -> dict[str, list[str]]:
    """Of 'primary: secondary-1, secondary-2; secondary-1: hidden', as the servers' fact says it."""
    pairs = (part.partition(": ") for part in tree.split("; ") if part)
    return {source: names.split(", ") for source, _, names in pairs}


def shape(tree: Tree) -> str:
    """'all 6 follow primary', 'primary → secondary-1 → …', or each source and its followers."""
    sources = list(tree.followers.items())
    if len(sources) == 1:
        source, names = sources[0]
        return f"all {len(names)} follow {source}" if len(names) > 1 else f"{source} → {names[0]}"
    if any(len(names) != 1 for _, names in sources):
        return "; ".join(f"{source}: {', '.join(names)}" for source, names in sources)
    chain = [tree.root]
    while (names := tree.followers.get(chain[-1], [])) and names[0] not in chain:
        chain.append(names[0])
    return " → ".join(chain)


def places(tree: Tree) -> Places:
    """Return row and hops of each member: leaves below each other, a source beside the middle of its followers."""
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

    put(tree.root, 0)
    for name in tree.followers:
        # Members that follow each other hang on nothing.
        if name not in found:
            put(name, 0)
    return found


def _draw(shown: list[Distinct], width: int) -> Sheet:
    stood = [places(each.tree) for each in shown]
    deepest = max(FEWEST_COLUMNS, *(depth for found in stood for _, depth in found.values()))
    panels = [_panel(each, found, deepest) for each, found in zip(shown, stood, strict=True)]
    heights = [TITLE_HEIGHT + ROW_HEIGHT * round(max(row for row, _ in found.values())) for found in stood]
    return Sheet(width, panels, heights)


def _panel(shown: Distinct, found: Places, deepest: int) -> Panel:
    lowest = max(row for row, _ in found.values()) + 0.6
    panel = Panel(title=shown.title, x=Scale(-0.5, deepest + 0.5), y=Scale(lowest, 0.4), framed=False)
    for source, names in shown.tree.followers.items():
        for follower in names:
            panel.line([found[each][::-1] for each in (source, follower)], "soft", 1.2)
    for member, (row, hops) in found.items():
        panel.dot(hops, row, "arm1" if hops == 0 else "control", 17)
        panel.word(hops, row, initials(member), size=8, colour="paper", anchor="middle")
    return panel


def initials(name: str) -> str:
    """'S2' of 'secondary-2'; a name that costof did not give, as it is."""
    role, _, number = name.rpartition("-") if name[-1:].isdigit() else (name, "", "")
    return SHORT[role] + number if role in SHORT else name


SECTION = SyncTreeSection()
