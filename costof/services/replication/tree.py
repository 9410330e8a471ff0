"""Who follows whom in a replica set: the tree that an arm asks for, and what a tree that was read says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The source that each member follows; None for the primary, and for one that follows nobody.
Tree = Mapping[str, str | None]

STAR, CHAIN, NATURAL = "star", "chain", "natural"
TREE_PREFIX = "tree-"


def wanted_tree(shape: str, members: Sequence[str]) -> Tree | None:
    """The tree of a level of `sync`, filled breadth first in the members' order, the primary first.

    None where MongoDB chooses.
    """
    if shape == NATURAL:
        return None
    widths = {STAR: max(1, len(members) - 1), CHAIN: 1}
    width = widths[shape] if shape in widths else int(shape.removeprefix(TREE_PREFIX))
    return {name: members[(number - 1) // width] if number else None for number, name in enumerate(members)}


def depths(tree: Tree, primary: str) -> dict[str, int]:
    """Hops of the oplog from the primary to each member; members that no hop leads to are left out."""
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None and name != primary:
            followers.setdefault(source, []).append(name)
    found, level, hops = {primary: 0}, [primary], 0
    while level:
        hops += 1
        # Two that follow each other for a moment are reached from nowhere.
        level = [name for source in level for name in followers.get(source, [])]
        found |= dict.fromkeys(level, hops)
    return found


def hops_to_majority(tree: Tree, primary: str, voters: Sequence[str]) -> int | None:
    """How many hops the oplog travels until a majority of those that vote has it; None where it never does."""
    known = depths(tree, primary)
    reached = sorted(known[name] for name in voters if name in known)
    majority = len(voters) // 2 + 1
    return reached[majority - 1] if len(reached) >= majority else None


def told(tree: Tree) -> str:
    """Such as 'primary: secondary-1, secondary-2; secondary-1: hidden': each source and who follows it."""
    followers: dict[str, list[str]] = {}
    for name, source in tree.items():
        if source is not None:
            followers.setdefault(source, []).append(name)
    in_order = [name for name in tree if name in followers] + [name for name in followers if name not in tree]
    return "; ".join(f"{source}: {', '.join(followers[source])}" for source in in_order)
