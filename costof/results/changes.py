"""Changes of each arm against its control, and the verdicts on the changes.

Changes and verdicts are computed both during a run, for its progress, and at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from costof.results.metrics import Samples
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import Mean, differences, log_ratios, mean_over_rounds
from costof.statistics.moderation import Variance, moderated
from costof.statistics.verdicts import ERROR_RATE, Contrast, verdicts
from costof.study.arms import PlannedArm
from costof.study.plan import Plan


@dataclass(frozen=True)
class Change:
    """The comparison of an arm with its control in one metric.

    - `control`, `values`: the control's and the arm's numbers, one for each round or start of the servers.
    - `logarithmic`: False if any of these numbers is 0, because 0 has no logarithm.
    - `ratio`: If `logarithmic`, the mean logarithm of arm / control. Otherwise, the mean difference divided by the
      control's mean. None if the control is always 0 and the arm is not.
    - `widening`: The standard errors of `difference` and `ratio` were multiplied by this factor. It is 1 if the run
      ended as planned.
    """

    arm: PlannedArm
    control: list[float]
    values: list[float]
    difference: Mean
    ratio: Mean | None
    logarithmic: bool
    widening: float = 1.0

    @property
    def rounds(self) -> int:
        return len(self.values)

    def relative(self) -> Estimate | None:
        """Return the ratio of arm to control with its interval (1 is no change); None without a ratio."""
        if self.ratio is None:
            return None
        if self.logarithmic:
            return self.ratio.estimate(self.rounds).through(math.exp)
        return self.ratio.estimate(self.rounds).through(lambda share: 1 + share)


#: By metric, the changes of all arms that can be compared with a control, including the control's identical copies.
Changes = Mapping[str, list[Change]]
Widen = Callable[[int, float], float]


def every_change(
    plan: Plan, samples: Samples, metrics: Iterable[str] | None = None, widen: Widen | None = None
) -> Changes:
    """Return the changes of all arms against their controls, by metric.

    The variances are moderated: partly pooled over the arms of each metric (`statistics/moderation.py`). `metrics`
    limits the result to some metrics of the study. The standard errors are multiplied by `widen(rounds, degrees of
    freedom)`.
    """
    by_metric = {}
    for metric in plan.study.metrics if metrics is None else metrics:
        pairs = [(arm, samples.comparable_pairs(plan, metric, arm)) for arm in plan.arms]
        changes = [_change(arm, *both) for arm, both in pairs if both is not None]
        variances = [Variance(each.ratio.error**2 * each.rounds, each.ratio.freedom) for each in changes if each.ratio]
        shared = iter(moderated(variances))
        changes = [_with_variance(each, next(shared)) if each.ratio else each for each in changes]
        by_metric[metric] = [_widened(each, widen) for each in changes] if widen else changes
    return by_metric


def _change(arm: PlannedArm, control: list[float], values: list[float]) -> Change:
    difference, logs, control_mean = (
        mean_over_rounds(differences(control, values)),
        log_ratios(control, values),
        fmean(control),
    )
    if logs is not None:
        return Change(arm, control, values, difference, mean_over_rounds(logs), logarithmic=True)
    share = (
        Mean(difference.value / control_mean, difference.error / control_mean, difference.freedom)
        if control_mean > 0
        else None
    )
    if not any((*control, *values)):
        # Control and arm are always 0, so the difference is exactly 0.
        share = difference
    return Change(arm, control, values, difference, share, logarithmic=False)


def _with_variance(change: Change, variance: Variance) -> Change:
    """Return the change with this variance of its ratio.

    The standard errors of the ratio and of the difference change by the same factor.
    """
    assert change.ratio is not None
    error = math.sqrt(variance.value / change.rounds)
    times = error / change.ratio.error if change.ratio.error else 1.0
    difference = replace(change.difference, error=change.difference.error * times, freedom=variance.freedom)
    return replace(change, ratio=Mean(change.ratio.value, error, variance.freedom), difference=difference)


def _widened(change: Change, widen: Widen) -> Change:
    times = widen(change.rounds, change.difference.freedom)
    ratio = change.ratio and change.ratio.widened(times)
    return replace(change, difference=change.difference.widened(times), ratio=ratio, widening=times)


class ContrastedChange(NamedTuple):
    """A change of a protected arm in one metric. `contrast` has the figures from which the verdict is computed."""

    metric: str
    change: Change
    contrast: Contrast


@dataclass(frozen=True)
class JudgedChange:
    metric: str
    change: Change
    contrast: Contrast
    verdict: Verdict


def contrast_changes(plan: Plan, changes: Changes) -> list[ContrastedChange]:
    """Return the change of each metric on each protected arm, with the contrast that decides its verdict."""
    contrasts: list[ContrastedChange] = []
    for name, changes_of_metric in changes.items():
        replicates = {each.arm.context: each for each in changes_of_metric if each.arm.replicate}
        contrasts += [
            ContrastedChange(name, each, build_contrast(plan, name, each, replicates.get(each.arm.context)))
            for each in changes_of_metric
            if not each.arm.replicate
        ]
    return contrasts


def judge_changes(plan: Plan, changes: Changes, error_rate: float = ERROR_RATE) -> list[JudgedChange]:
    """Return the verdicts on all protected arms, metric by metric, corrected together for the number of tests."""
    contrasts = contrast_changes(plan, changes)
    judgements = verdicts([each.contrast for each in contrasts], error_rate)
    return [JudgedChange(*each, verdict) for each, verdict in zip(contrasts, judgements, strict=True)]


def replicate_changes(changes: Changes) -> list[tuple[str, Change]]:
    """Return (metric, change) for each identical copy of a control (replicate). These changes are noise."""
    return [(name, each) for name, of_metric in changes.items() for each in of_metric if each.arm.replicate]


def relative_noise(replicate: Change) -> float:
    """Return the largest relative difference between identical arms that the interval allows; 0.05 is 5 %.

    The difference is divided by the smaller of the two figures. So a rate has the same noise as the time from which it
    is computed: half the rate and twice the time are both 100 %.
    """
    relative = replicate.relative()
    if relative is None:
        return 0.0
    less = 1 / relative.low - 1 if relative.low > 0 else 1 - relative.low
    return max(less, relative.high - 1)


def absolute_noise(replicate: Change) -> float:
    """Return the largest difference between identical arms that the interval allows, in the metric's unit."""
    difference = replicate.difference.estimate(replicate.rounds)
    return max(abs(difference.low), abs(difference.high))


def build_contrast(plan: Plan, name: str, change: Change, replicate: Change | None = None) -> Contrast:
    """Return the contrast of a change: the figures from which the verdict is computed.

    `replicate` is the change of the control's identical copy. If the arm's change is smaller, it counts as noise and
    not as a cost.
    """
    metric = plan.study.metrics[name]
    return Contrast(
        change.ratio or change.difference,
        change.rounds,
        metric.margin if change.ratio else None,
        relative_noise(replicate) if replicate else 0.0,
        metric.headline,
        metric.better,
        change.difference if change.logarithmic else None,
        absolute_noise(replicate) if replicate else 0.0,
    )


def all_headlines_resolved(changes: Sequence[JudgedChange]) -> bool:
    """Return whether there are effects in headline (most important) metrics, and none of them is unresolved."""
    headline = [each for each in changes if each.contrast.headline]
    return bool(headline) and all(each.verdict is not Verdict.UNRESOLVED for each in headline)
