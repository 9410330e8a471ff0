"""What each arm changes against its control, and what may be said of it: during a run and once it is over."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from costof.results.samples import Samples
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import Mean, differences, log_ratios, mean_over_rounds
from costof.statistics.moderation import Variance, moderated
from costof.statistics.verdicts import ERROR_RATE, Contrast, verdicts
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


@dataclass(frozen=True)
class Change:
    """An arm against its control in one metric: numbers by round, and their mean ratio and difference.

    `ratio` is a logarithm; where a round has nothing of the metric in one of them, the share of the control's mean.
    None where the control alone has nothing of it at all.
    """

    arm: PlannedArm
    control: list[float]
    values: list[float]
    difference: Mean
    ratio: Mean | None
    logarithmic: bool

    @property
    def rounds(self) -> int:
        return len(self.values)

    def relative(self) -> Estimate | None:
        if self.ratio is None:
            return None
        if self.logarithmic:
            return self.ratio.estimate(self.rounds).through(math.exp)
        return self.ratio.estimate(self.rounds).through(lambda share: 1 + share)


#: By metric, in the study's order: of all arms and replicates that have enough rounds.
Changes = Mapping[str, list[Change]]


def every_change(plan: Plan, samples: Samples) -> Changes:
    """Compare all arms of a run, with variances moderated over the arms of each metric."""
    found = {}
    for metric in plan.study.metrics:
        pairs = [(arm, samples.compared(plan, metric, arm)) for arm in plan.arms]
        changes = [_change(arm, *both) for arm, both in pairs if both is not None]
        own = [Variance(each.ratio.error**2 * each.rounds, each.ratio.freedom) for each in changes if each.ratio]
        lent = iter(moderated(own))
        found[metric] = [_lent(each, next(lent)) if each.ratio else each for each in changes]
    return found


def _change(arm: PlannedArm, control: list[float], values: list[float]) -> Change:
    difference, logs, usual = (
        mean_over_rounds(differences(control, values)),
        log_ratios(control, values),
        fmean(control),
    )
    if logs is not None:
        return Change(arm, control, values, difference, mean_over_rounds(logs), logarithmic=True)
    share = Mean(difference.value / usual, difference.error / usual, difference.freedom) if usual > 0 else None
    if not any((*control, *values)):
        # Nothing in either: as much in one as in the other, and known exactly.
        share = difference
    return Change(arm, control, values, difference, share, logarithmic=False)


def _lent(change: Change, variance: Variance) -> Change:
    """Return the change with another variance, that of its difference in proportion."""
    assert change.ratio is not None
    error = math.sqrt(variance.value / change.rounds)
    times = error / change.ratio.error if change.ratio.error else 1.0
    difference = replace(change.difference, error=change.difference.error * times, freedom=variance.freedom)
    return replace(change, ratio=Mean(change.ratio.value, error, variance.freedom), difference=difference)


@dataclass(frozen=True)
class Judged:
    """A change of a protected arm, what of it was judged, and the verdict."""

    metric: str
    change: Change
    contrast: Contrast
    verdict: Verdict


def judged(plan: Plan, changes: Changes, error_rate: float = ERROR_RATE) -> list[Judged]:
    """Judge all arms but control replicates together, in the order of the study's metrics."""
    found: list[tuple[str, Change, Contrast]] = []
    for name, of_metric in changes.items():
        replicates = {each.arm.context: each for each in of_metric if each.arm.replicate}
        found += [
            (name, each, contrast_of(plan, name, each, replicates.get(each.arm.context)))
            for each in of_metric
            if not each.arm.replicate
        ]
    reached = verdicts([contrast for *_, contrast in found], error_rate)
    return [Judged(*each, verdict) for each, verdict in zip(found, reached, strict=True)]


def replicates_of(changes: Changes) -> list[tuple[str, Change]]:
    """Return what each control replicate changes in each metric: nothing but noise."""
    return [(name, each) for name, of_metric in changes.items() for each in of_metric if each.arm.replicate]


def noise_of(replicate: Change) -> float:
    """What two identical arms may differ by: how much more the larger is than the smaller, at the farther end of the
    interval. So a rate has the noise of the time that it comes from."""
    relative = replicate.relative()
    if relative is None:
        return 0.0
    less = 1 / relative.low - 1 if relative.low > 0 else 1 - relative.low
    return max(less, relative.high - 1)


def noise_difference_of(replicate: Change) -> float:
    """Return what two identical arms may differ by, in the metric's unit: the farther end of the interval."""
    difference = replicate.difference.estimate(replicate.rounds)
    return max(abs(difference.low), abs(difference.high))


def contrast_of(plan: Plan, name: str, change: Change, replicate: Change | None = None) -> Contrast:
    """Return what of a change is judged; it has to exceed what the control's `replicate` changes."""
    metric = plan.study.metrics[name]
    return Contrast(
        change.ratio or change.difference,
        change.rounds,
        metric.margin if change.ratio else None,
        noise_of(replicate) if replicate else 0.0,
        metric.headline,
        metric.better,
        change.difference if change.logarithmic else None,
        noise_difference_of(replicate) if replicate else 0.0,
    )


def all_stand(found: Sequence[Judged]) -> bool:
    headline = [each for each in found if each.contrast.headline]
    return bool(headline) and all(each.verdict is not Verdict.UNRESOLVED for each in headline)
