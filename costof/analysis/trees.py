"""Trees: who followed whom in each arm's slices, and which arms had the same tree and so the same set-up."""

from __future__ import annotations

from collections import Counter

from costof.analysis.result import Tree
from costof.analysis.run_record import Run
from costof.study.arms import PlannedArm

FACT = "tree"


def trees_of(run: Run) -> list[Tree]:
    """Every tree of every arm, the most frequent of an arm first. None where the servers told no tree."""
    seen = {arm.name: _of_arm(run, arm) for arm in run.plan.arms}
    only = {name: next(iter(trees)) for name, trees in seen.items() if len(trees) == 1}
    return [
        Tree(
            arm=arm.name,
            followers=followers_of(told),
            slices=slices,
            thrown_out=sum(p.mismatch is not None for p in run.slices if p.answer.arm == arm.name and not p.warm_up),
            same_as=[
                other.name
                for other in run.plan.arms
                if arm.name in only and other is not arm and not other.twin and other.context == arm.context
                if only.get(other.name) == told
            ],
        )
        for arm in run.plan.arms
        for told, slices in seen[arm.name].most_common()
    ]


def _of_arm(run: Run, arm: PlannedArm) -> Counter[str]:
    mine = (piece for piece in run.counted if piece.answer.arm == arm.name)
    return Counter(piece.server_facts[FACT] for piece in mine if FACT in piece.server_facts)


def followers_of(told: str) -> dict[str, list[str]]:
    """Of 'primary: secondary-1, secondary-2; secondary-1: hidden' (`sync_tree.told`)."""
    pairs = (part.partition(": ") for part in told.split("; ") if part)
    return {source: names.split(", ") for source, _, names in pairs}
