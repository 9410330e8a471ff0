"""Where the loss goes: what each step along a chain of roles adds to each part of an operation's cost.

The steps are from the arm without the chain to the control, which has it and asks nothing of it, and from the control
to each protected arm. A part's share is its added cost over that of all parts, with Fieller's interval, as a cure's
share of the loss is (`analysis/cures.py`). In a closed loop on busy cores it is CPU time that throughput is lost to.
"""

from __future__ import annotations

from collections.abc import Sequence

from costof.analysis.cures import share_given_back
from costof.analysis.result import SplitPart, SplitStep
from costof.analysis.run_record import Run
from costof.statistics.effects import FEWEST_ROUNDS, ROUNDS_OF_AN_INTERVAL, difference, ratio
from costof.statistics.estimate import Estimate
from costof.study.arms import PlannedArm
from costof.study.schema import Split


def split_of(run: Run) -> list[SplitStep]:
    """The steps of every context; none where the study asks for none."""
    asked = run.plan.study.split
    if asked is None:
        return []
    steps = [_step(run, asked, start, end) for start, end in _pairs(run, asked)]
    return [step for step in steps if step is not None]


def _pairs(run: Run, asked: Split) -> list[tuple[PlannedArm, PlannedArm]]:
    found = []
    for control in run.plan.controls:
        arms = [arm for arm in run.plan.protected if arm.baseline == control.name]
        without = [arm for arm in arms if arm.levels[run.plan.study.main_factor] == asked.without]
        found += [(arm, control) for arm in without]
        found += [(control, arm) for arm in arms if arm not in without]
    return found


def _step(run: Run, asked: Split, start: PlannedArm, end: PlannedArm) -> SplitStep | None:
    lost = _common(run, [asked.metric], start, end)
    numbers = _common(run, list(asked.parts), start, end)
    if not lost or not numbers or len(numbers) < FEWEST_ROUNDS:
        return None
    changed = ratio(_at(run, asked.metric, start, lost), _at(run, asked.metric, end, lost))
    if changed is None:
        return None
    added = {name: _added(run, name, start, end, numbers) for name in asked.parts}
    total = [sum(parts) for parts in zip(*added.values(), strict=True)]
    nothing = [0.0] * len(numbers)
    return SplitStep(
        start=start.name,
        end=end.name,
        label=asked.presence if end.control else end.label,
        what=asked.what,
        context=end.context,
        metric=asked.metric,
        ratio=changed,
        total=difference(nothing, total),
        parts=[
            SplitPart(
                metric=name,
                label=words,
                unit=run.plan.study.metrics[name].unit,
                before=sum(_at(run, name, start, numbers)) / len(numbers),
                added=difference(nothing, added[name]),
                share=_share(added[name], total),
            )
            for name, words in asked.parts.items()
        ],
        beside=[part for name, words in asked.beside.items() if (part := _beside(run, name, words, start, end))],
    )


def _beside(run: Run, name: str, words: str, start: PlannedArm, end: PlannedArm) -> SplitPart | None:
    numbers = _common(run, [name], start, end)
    if not numbers:
        return None
    before = _at(run, name, start, numbers)
    added = difference(before, _at(run, name, end, numbers))
    unit = run.plan.study.metrics[name].unit
    return SplitPart(metric=name, label=words, unit=unit, before=sum(before) / len(before), added=added, share=None)


def _share(part: Sequence[float], total: Sequence[float]) -> Estimate | None:
    """None where the total is not resolved: a share of it would be a share of nothing."""
    whole = difference([0.0] * len(total), total)
    return share_given_back(part, total) if whole.low > 0 or whole.high < 0 else None


def _common(run: Run, names: Sequence[str], start: PlannedArm, end: PlannedArm) -> list[int]:
    """The rounds in which both arms have all of the metrics; none below what an interval needs."""
    each = [set(run.samples.rounds(name, arm.name)) for name in names for arm in (start, end)]
    found = sorted(set.intersection(*each))
    return found if len(found) >= ROUNDS_OF_AN_INTERVAL else []


def _at(run: Run, name: str, arm: PlannedArm, numbers: Sequence[int]) -> list[float]:
    return [run.samples.at(name, arm.name, number) for number in numbers]


def _added(run: Run, name: str, start: PlannedArm, end: PlannedArm, numbers: Sequence[int]) -> list[float]:
    pairs = zip(_at(run, name, start, numbers), _at(run, name, end, numbers), strict=True)
    return [after - before for before, after in pairs]
