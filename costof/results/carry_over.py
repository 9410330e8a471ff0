"""Whether the order of slices matters in a run: by the run's own data."""

from __future__ import annotations

import math
from itertools import pairwise

from costof.results.ledger import SliceRecord
from costof.results.models import CarryOver
from costof.results.run import Run
from costof.statistics.carry_over import carry_over
from costof.statistics.intervals import FEWEST_ROUNDS, Mean
from costof.study.arms import PlannedArm

#: Chance of a run without carry-over that is said to have some, over all its headline metrics (Bonferroni).
FALSE_ALARMS = 0.01


def carry_over_of(run: Run) -> list[CarryOver]:
    """Return the headline metrics in which slices after another arm differ from those after their own.

    Differences below the metric's margin are left out. Only pairs of slices of one workload and context are compared.
    """
    followers = [
        (piece, not _alike(run, before, piece))
        for before, piece in pairwise(run.slices)
        if run.counts(piece) and before.workload == piece.workload and _context(run, before) == _context(run, piece)
    ]
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
    found = []
    for name in metrics:
        metric, difference = run.plan.study.metrics[name], _difference(run, name, followers)
        if difference is None or abs(difference.value) < math.log1p(metric.margin):
            continue
        level = FALSE_ALARMS / len(metrics)
        if abs(difference.value) > difference.half(1 - level):
            found.append(CarryOver(metric=name, ratio=difference.estimate(run.rounds).through(math.exp)))
    return found


def _difference(run: Run, name: str, followers: list[tuple[SliceRecord, bool]]) -> Mean | None:
    """Return the difference of logarithms; None where the run does not tell it."""
    logs, rounds, arms, after_other = [], [], [], []
    names = [arm.name for arm in run.plan.arms]
    contexts = [control.context for control in run.plan.controls]
    for piece, is_after_other in followers:
        if piece.workload != run.plan.study.metrics[name].workload:
            continue
        number = run.samples.by_round(name, piece.turn.role).get(piece.round)
        if number is not None and number > 0:
            logs.append(math.log(number))
            rounds.append(piece.round * len(contexts) + contexts.index(_context(run, piece)))
            arms.append(names.index(_kind(run, piece).name))
            after_other.append(is_after_other)
    if len(set(rounds)) < FEWEST_ROUNDS:
        return None
    return carry_over(logs, rounds, arms, after_other)


def _alike(run: Run, one: SliceRecord, other: SliceRecord) -> bool:
    """Both copies of the control are one kind."""
    return _kind(run, one) is _kind(run, other)


def _kind(run: Run, piece: SliceRecord) -> PlannedArm:
    return run.plan.original(run.plan.arm(piece.answer.arm))


def _context(run: Run, piece: SliceRecord) -> str:
    return run.plan.arm(piece.answer.arm).context
