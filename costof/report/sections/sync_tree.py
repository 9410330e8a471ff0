"""Sync trees: which member of a replica set replicates from which, in each arm, before and after every slice."""

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

HEAD = ["variant", "sync tree", "slices", "slices discarded", ""]
METHOD = (
    "A sync tree says from which member each member of a replica set replicates. The tree was read from every member "
    "right before and right after each slice (measured window). Slices in which a member replicated from a wrong "
    "member, or changed to another one, were discarded."
)
SHORT = {"primary": "P", "secondary": "S", "hidden": "H", "read-only": "R"}
LEGEND = "P is the primary, S a secondary, H a hidden secondary, R a read-only secondary without a vote."
Places = dict[str, tuple[float, int]]
ROW_HEIGHT, TITLE_HEIGHT = 20, 44
FEWEST_COLUMNS = 6
"""Minimum number of columns in the picture of a tree.

A star (all members replicate from one) needs only two columns. Two columns that fill the page would need lines across
the whole page.
"""


class Tree(Model):
    """A sync tree (which member replicates from which) that an arm's servers had in some slices of the arm."""

    arm: str
    followers: dict[str, list[str]] = Field(
        description="By replication source, the members that replicate from it; the primary comes first."
    )
    slices: int
    discarded: int = Field(default=0, description="Slices of the arm that were discarded because their tree was wrong.")

    @property
    def root(self) -> str:
        """Return the member that replicates from no other; the first member if all replicate in a circle."""
        following = {name for names in self.followers.values() for name in names}
        return next((source for source in self.followers if source not in following), next(iter(self.followers), ""))


@dataclass(frozen=True)
class Distinct:
    """A sync tree (which member replicates from which), and all arms that had it in at least one slice."""

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
        """Return a title such as '7 members: star, chaining allowed'."""
        return f"{self.members} members: {fmt.listed(self.labels)}"


class SyncTreeSection(Section[None, list[Tree]]):
    name, title, order = "sync_tree", "Sync trees", 40
    data = list[Tree]

    def compute(self, run: Run, core: Core, spec: None) -> list[Tree] | None:
        """Return the sync trees of every arm, the most frequent first; None if the servers report none."""
        trees = [
            Tree(
                arm=arm.name,
                followers=followers_of(tree),
                slices=slices,
                discarded=sum(r.mismatch is not None for r in run.all_slices(arm.name) if not r.warm_up),
            )
            for arm in run.plan.arms
            for tree, slices in set_ups(run, arm).most_common()
        ]
        return trees or None

    def blocks(self, index: Index, data: list[Tree]) -> Iterator[Block]:
        distinct: dict[str, Distinct] = {}
        rows = []
        for tree in data:
            arm = index.arm(tree.arm)
            same = ""
            if arm and not arm.replicate:
                distinct.setdefault(repr(tree.followers), Distinct(tree, [])).arms.append(arm)
                same = f"as {fmt.listed(arm.same_set_up)}: {SAME_SET_UP}" if arm.same_set_up else ""
            rows.append([index.label_at(tree.arm), shape(tree), f"{tree.slices:,}", f"{tree.discarded:,}", same])
        shown = sorted(distinct.values(), key=lambda each: each.members)
        caption = [
            LEGEND,
            *(f"{each.members} members, {fmt.listed(each.labels)}: {shape(each.tree)}." for each in shown),
        ]
        yield Figure("trees", "Sync trees", caption, lambda width: _draw(shown, width), media=HTML)
        yield Table.of(HEAD, rows, title="Trees, by variant", texts=(0, 1, 4), media=FILES)
        yield Paragraph(METHOD, "note", media=FILES)
        lines = []
        for each in shown:
            same = f" ({SAME_SET_UP})" if len(each.labels) > 1 else ""
            lines.append(f"{each.members} members, {fmt.listed(each.labels)}: {shape(each.tree)}{same}")
        discarded = {tree.arm: tree.discarded for tree in data if tree.discarded}
        lines += [
            f"{index.label_at(name)}: {fmt.plural(count, 'slice')} discarded" for name, count in discarded.items()
        ]
        yield Bullets(lines, label="Trees", media=TERMINAL)


def followers_of(tree: str) -> dict[str, list[str]]:
    """Parse text such as 'primary: secondary-1, secondary-2; secondary-1: hidden' into the followers of each source."""
    pairs = (part.partition(": ") for part in tree.split("; ") if part)
    return {source: names.split(", ") for source, _, names in pairs}


def shape(tree: Tree) -> str:
    """Return a tree as text: 'all 6 others replicate from primary', 'primary → secondary-1 → hidden', 'a: b; b: c'."""
    sources = list(tree.followers.items())
    if len(sources) == 1:
        source, names = sources[0]
        return f"all {len(names)} others replicate from {source}" if len(names) > 1 else f"{source} → {names[0]}"
    if any(len(names) != 1 for _, names in sources):
        return "; ".join(f"{source}: {', '.join(names)}" for source, names in sources)
    chain = [tree.root]
    while (names := tree.followers.get(chain[-1], [])) and names[0] not in chain:
        chain.append(names[0])
    return " → ".join(chain)


def places(tree: Tree) -> Places:
    """Return the position (row, column) of each member in the picture.

    The column is the number of hops from the root. The row of a source is the mean row of its followers.
    """
    positions: Places = {}
    free = 0

    def put(name: str, depth: int) -> float:
        nonlocal free
        positions[name] = (0.0, depth)
        below = [put(each, depth + 1) for each in tree.followers.get(name, []) if each not in positions]
        if not below:
            free += 1
        positions[name] = (sum(below) / len(below) if below else float(free), depth)
        return positions[name][0]

    put(tree.root, 0)
    for name in tree.followers:
        # Members that replicate from each other in a circle are not reached from the root, so they are placed here.
        if name not in positions:
            put(name, 0)
    return positions


def _draw(shown: list[Distinct], width: int) -> Sheet:
    layouts = [places(each.tree) for each in shown]
    deepest = max(FEWEST_COLUMNS, *(depth for positions in layouts for _, depth in positions.values()))
    panels = [_panel(each, positions, deepest) for each, positions in zip(shown, layouts, strict=True)]
    heights = [TITLE_HEIGHT + ROW_HEIGHT * round(max(row for row, _ in each.values())) for each in layouts]
    return Sheet(width, panels, heights)


def _panel(shown: Distinct, positions: Places, deepest: int) -> Panel:
    lowest = max(row for row, _ in positions.values()) + 0.6
    panel = Panel(title=shown.title, x=Scale(-0.5, deepest + 0.5), y=Scale(lowest, 0.4), framed=False)
    for source, names in shown.tree.followers.items():
        for follower in names:
            panel.line([positions[each][::-1] for each in (source, follower)], "soft", 1.2)
    for member, (row, hops) in positions.items():
        panel.dot(hops, row, "arm1" if hops == 0 else "control", 17)
        panel.word(hops, row, initials(member), size=8, colour="paper", anchor="middle")
    return panel


def initials(name: str) -> str:
    """Return the short name of a lab's member, such as 'S2' for 'secondary-2', and any other name unchanged."""
    role, _, number = name.rpartition("-") if name[-1:].isdigit() else (name, "", "")
    return SHORT[role] + number if role in SHORT else name


SECTION = SyncTreeSection()
