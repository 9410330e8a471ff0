"""Operations that failed, and figures that are missing, by arm."""

from __future__ import annotations

from costof.messages.answers import MISSING, PEAK_MEMORY
from costof.results.models import Failing, Missing
from costof.results.run import Run
from costof.statistics.proportions import newcombe
from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD


def failing_of(run: Run) -> list[Failing]:
    """Return all arms of each workload in which any operation failed."""
    found = []
    for workload in run.plan.study.workloads:
        counts = {arm.name: _counted(run, workload, arm) for arm in run.plan.arms}
        if any(failed for failed, _ in counts.values()):
            found += [_failing(workload, arm, counts) for arm in run.plan.arms if counts[arm.name][1]]
    return found


def _counted(run: Run, workload: str, arm: PlannedArm) -> tuple[int, int]:
    """Return how many operations failed, of how many; slices that do not prove their arm are left out."""
    answers = [piece.answer for piece in run.of(workload, arm.name)]
    return sum(answer.failed for answer in answers), sum(answer.begun for answer in answers)


def _failing(workload: str, arm: PlannedArm, counts: dict[str, tuple[int, int]]) -> Failing:
    failed, of = counts[arm.name]
    control = counts.get(arm.baseline or "", (0, 0))
    if not control[1]:
        return Failing(workload=workload, arm=arm.name, failed=failed, of=of)
    more, low, high = newcombe(control, (failed, of))
    return Failing(workload=workload, arm=arm.name, failed=failed, of=of, more=more, more_low=low, more_high=high)


def missing_of(run: Run) -> list[Missing]:
    """Return the figures that commands report on some arms and not, or not in every slice, on others."""
    found = []
    for name, metric in run.plan.study.metrics.items():
        figure = metric.of_command
        if figure is None or figure == PEAK_MEMORY or not _is_reported(run, name):
            continue
        for arm in run.plan.arms:
            pieces = [piece for piece in run.of(metric.workload, arm.name) if piece.answer.operations]
            lacking = [piece for piece in pieces if figure not in piece.answer.figures]
            if lacking and not arm.twin:
                reasons = (piece.answer.evidence.get(MISSING, {}).get(figure) for piece in lacking)
                why = next((f" ({each})" for each in reasons if each), "")
                some = "" if len(lacking) == len(pieces) else f" in {len(lacking)} of {len(pieces)} slices"
                reason = f"the output of {arm.label} does not have it{some}{why}"
                found.append(Missing(metric=name, arm=arm.name, slices=len(lacking), of=len(pieces), reason=reason))
    return found


def overloaded_of(run: Run) -> list[Missing]:
    """Return the times of arms that could not carry the load."""
    found = []
    for arm, metrics in run.dropped.items():
        slices = len(run.of(WORKLOAD, arm))
        reason = f"{run.plan.arm(arm).label} cannot carry this load, so its times mean nothing"
        found += [Missing(metric=name, arm=arm, slices=slices, of=slices, reason=reason) for name in metrics]
    return [each for each in found if not run.plan.arm(each.arm).twin]


def _is_reported(run: Run, metric: str) -> bool:
    return any(run.samples.by_round(metric, arm.name) for arm in run.plan.arms)
