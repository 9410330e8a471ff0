"""Who followed whom, in words and rows."""

from __future__ import annotations

from dataclasses import dataclass

from costof.analysis.result import Arm, Result, Tree
from costof.document import format as fmt

SAME = "no difference: same tree"
HEAD = ["arm", "who followed whom", "slices", "thrown out", ""]
METHOD = (
    "The tree was read from every member right before and right after each slice; a slice whose tree was not the "
    "arm's, or changed, was thrown out."
)
SHORT = {"primary": "P", "secondary": "S", "hidden": "H", "read-only": "R"}
LEGEND = "P is the primary, S a secondary, H a hidden one, R one that is read-only and has no vote."


@dataclass(frozen=True)
class Shown:
    """One tree and the arms that had it, whatever their setting."""

    tree: Tree
    arms: list[Arm]

    @property
    def members(self) -> int:
        return 1 + sum(map(len, self.tree.followers.values()))


def distinct(result: Result) -> list[Shown]:
    """Every tree once, from few members to many; twins are their control's."""
    found: dict[str, Shown] = {}
    arms = {arm.name: arm for arm in result.arms}
    for tree in result.trees:
        if not arms[tree.arm].twin:
            found.setdefault(repr(tree.followers), Shown(tree, [])).arms.append(arms[tree.arm])
    return sorted(found.values(), key=lambda each: each.members)


def rows(result: Result) -> list[list[str]]:
    """A row for each arm and tree."""
    arms = {arm.name: arm for arm in result.arms}
    return [
        [
            tree.arm,
            shape(tree),
            f"{tree.slices:,}",
            f"{tree.thrown_out:,}",
            f"as {fmt.listed(tree.same_as)}: {SAME}" if tree.same_as and not arms[tree.arm].twin else "",
        ]
        for tree in result.trees
    ]


def lines(result: Result) -> list[str]:
    """One for each tree, whatever the setting, and one for slices that were thrown out; few enough for a console."""
    found = []
    for shown in distinct(result):
        labels = list(dict.fromkeys(arm.label for arm in shown.arms))
        same = f" ({SAME})" if len(labels) > 1 else ""
        found.append(f"{shown.members} members, {fmt.listed(labels)}: {shape(shown.tree)}{same}")
    thrown = {tree.arm: tree.thrown_out for tree in result.trees if tree.thrown_out}
    return found + [f"{name}: {fmt.plural(count, 'slice')} thrown out" for name, count in thrown.items()]


def shape(tree: Tree) -> str:
    """'all 6 follow primary', 'primary → secondary-1 → …', or each source and its followers."""
    sources = list(tree.followers.items())
    if len(sources) == 1:
        source, names = sources[0]
        return f"all {len(names)} follow {source}" if len(names) > 1 else f"{source} → {names[0]}"
    if all(len(names) == 1 for _, names in sources):
        return " → ".join(chain(tree))
    return "; ".join(f"{source}: {', '.join(names)}" for source, names in sources)


def root(tree: Tree) -> str:
    """The one that is followed and follows nobody; of members that follow each other, the first."""
    following = {name for names in tree.followers.values() for name in names}
    return next((source for source in tree.followers if source not in following), next(iter(tree.followers), ""))


def chain(tree: Tree) -> list[str]:
    found = [root(tree)]
    while (names := tree.followers.get(found[-1])) and names[0] not in found:
        found.append(names[0])
    return found


def initials(name: str) -> str:
    """'S2' of 'secondary-2'; a name that costof did not give, as it is."""
    role, _, number = name.rpartition("-") if name[-1:].isdigit() else (name, "", "")
    return SHORT[role] + number if role in SHORT else name
