"""Figures: effects, noise floors, and values with their distributions."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from costof.analysis.models import DistributionPoint, Effect, Metric, NoiseFloor, Value
from costof.analysis.run import Run
from costof.ledger.samples import in_unit
from costof.statistics.effects import Mean, differences, estimate, log_ratios, mean_of, trimmed_mean
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.histogram import merged
from costof.statistics.moderation import Variance, moderated
from costof.statistics.verdicts import Contrast, rounds_needed, verdicts
from costof.study.arms import PlannedArm
from costof.study.schema import OF_CPU, OF_SERVERS, WHOLE_SLICE
from costof.study.schema import Metric as StudyMetric

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
#: Points of a distribution's curve: enough for a smooth picture, few enough for a small file.
QUANTILES = [*range(0, 99), *(99 + i / 10 for i in range(10)), 99.95, 99.99, 100.0]


def effects_of(run: Run, floors: list[NoiseFloor]) -> list[Effect]:
    """The effects of all arms but the twins, in the order of the study's metrics, all judged together."""
    noise = {(floor.metric, floor.context): floor.relative for floor in floors}
    metrics = run.plan.study.metrics
    changes = [(name, change) for name in metrics for change in changes_of(run, name) if not change.arm.twin]
    contrasts = [judgeable(run, name, each, noise.get((name, each.arm.context), 0.0)) for name, each in changes]
    alike = Counter(contrast.headline for contrast in contrasts)
    return [
        _effect(run, name, change, contrast, verdict, alike[contrast.headline])
        for (name, change), contrast, verdict in zip(changes, contrasts, verdicts(contrasts), strict=True)
    ]


@dataclass(frozen=True)
class Change:
    """An arm against its control in one metric: numbers by round, and their mean ratio and difference.

    `ratio` is a logarithm; where a round has nothing of the metric in one of them, the share of the control's mean.
    None where the control has nothing of it at all.
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
        """Arm over control, with its interval."""
        if self.ratio is None:
            return None
        if self.logarithmic:
            return self.ratio.estimate(self.rounds).through(math.exp)
        return self.ratio.estimate(self.rounds).through(lambda share: 1 + share)


def changes_of(run: Run, metric: str) -> list[Change]:
    """Of all arms and twins that have enough rounds, their variances moderated over each other."""
    found = [(arm, *pairs) for arm in run.plan.arms if (pairs := run.pairs(metric, arm)) is not None]
    changes = [_change(arm, control, values) for arm, control, values in found]
    lent = moderated(
        [Variance(each.ratio.error**2 * each.rounds, each.ratio.freedom) for each in changes if each.ratio]
    )
    variances = iter(lent)
    return [_lent(each, next(variances)) if each.ratio else each for each in changes]


def _change(arm: PlannedArm, control: list[float], values: list[float]) -> Change:
    difference, logs, usual = mean_of(differences(control, values)), log_ratios(control, values), fmean(control)
    if logs is not None:
        return Change(arm, control, values, difference, mean_of(logs), logarithmic=True)
    share = Mean(difference.value / usual, difference.error / usual, difference.freedom) if usual > 0 else None
    return Change(arm, control, values, difference, share, logarithmic=False)


def _lent(change: Change, variance: Variance) -> Change:
    """The change with another variance, of its difference in proportion."""
    assert change.ratio is not None
    error = math.sqrt(variance.value / change.rounds)
    times = error / change.ratio.error if change.ratio.error else 1.0
    difference = replace(change.difference, error=change.difference.error * times, freedom=variance.freedom)
    return replace(change, ratio=Mean(change.ratio.value, error, variance.freedom), difference=difference)


def judgeable(run: Run, name: str, change: Change, noise: float = 0.0) -> Contrast:
    """What of a change is judged; `noise` is the share that it has to exceed."""
    metric = run.plan.study.metrics[name]
    return Contrast(
        change.ratio or change.difference,
        change.rounds,
        metric.margin if change.ratio else None,
        noise,
        metric.headline,
        metric.better,
    )


def noise_floors(run: Run) -> list[NoiseFloor]:
    """What each control's twin differs from it by, in each metric that both have."""
    changes = ((name, change) for name in run.plan.study.metrics for change in changes_of(run, name) if change.arm.twin)
    return [_noise_floor(name, change, relative) for name, change in changes if (relative := change.relative())]


def _noise_floor(metric: str, change: Change, relative: Estimate) -> NoiseFloor:
    absolute = change.difference.estimate(change.rounds)
    return NoiseFloor(
        metric=metric,
        context=change.arm.context,
        difference=absolute,
        ratio=relative,
        differences=differences(change.control, change.values),
        absolute=max(abs(absolute.low), abs(absolute.high)),
        relative=max(abs(1 - relative.low), abs(relative.high - 1)),
    )


def _effect(run: Run, name: str, change: Change, contrast: Contrast, verdict: Verdict, judged: int) -> Effect:
    metric = run.plan.study.metrics[name]
    needed = None
    if verdict is Verdict.UNRESOLVED and run.rounds:
        rounds = rounds_needed(contrast, judged)
        if rounds is not None:
            needed = max(0, rounds - change.rounds) * run.measured_seconds / run.rounds
    return Effect(
        metric=name,
        unit=metric.unit,
        arm=change.arm.name,
        control_value=fmean(change.control),
        value=fmean(change.values),
        difference=change.difference.estimate(change.rounds),
        ratio=change.relative(),
        usual=_usual(change),
        verdict=verdict,
        rounds=change.rounds,
        differences=differences(change.control, change.values),
        needed_seconds=needed,
    )


def _usual(change: Change) -> Estimate:
    """The difference in a usual round: its trimmed mean."""
    return trimmed_mean(differences(change.control, change.values)).estimate(change.rounds)


def values_of(run: Run) -> list[Value]:
    """Every metric of every arm that has enough rounds."""
    return [_value(run, name, arm) for name in run.plan.study.metrics for arm in run.plan.arms if run.has(name, arm)]


def _value(run: Run, name: str, arm: PlannedArm) -> Value:
    metric = run.plan.study.metrics[name]
    if metric.phase == WHOLE_SLICE:
        pieces = [piece.answer for piece in run.of(metric.workload, arm.name) if piece.answer.operations]
        return _value_of_slices(run, name, arm, run.samples.of(name, arm.name), sum(each.operations for each in pieces))
    if metric.of_slice:
        numbers = run.samples.of(name, arm.name)
        return _value_of_slices(run, name, arm, numbers, len(numbers))
    phases = [p for piece in run.of(metric.workload, arm.name) if (p := piece.answer.phases.get(metric.phase))]
    workers = run.plan.workers(metric.workload, arm)
    count = sum(phase.count for phase in phases)
    highest = max(phase.max_ns for phase in phases)

    # All in one pass over the histogram: asked one by one, each would be a pass of its own.
    found = merged(phase.histogram for phase in phases).get_percentile_to_value_dict(
        [*PERCENTILES.values(), *QUANTILES]
    )

    def at(percentile: float) -> float:
        # The histogram rounds to three digits; the largest is known exactly.
        return in_unit(metric, max(1.0, min(float(found[percentile]), float(highest))), workers)

    def each(total: int | None) -> float | None:
        return total / count if total is not None else None

    def total(attribute: str) -> int | None:
        counted = [getattr(phase, attribute) for phase in phases]
        return None if None in counted else sum(counted)

    return Value(
        metric=name,
        arm=arm.name,
        mean=estimate(run.samples.of(name, arm.name)),
        operations=count,
        percentiles={label: at(percentile) for label, percentile in PERCENTILES.items()},
        distribution=[DistributionPoint(value=at(q), fraction=q / 100) for q in QUANTILES],
        round_trips=each(total("round_trips")),
        bytes_sent=each(total("bytes_sent")),
        bytes_received=each(total("bytes_received")),
    )


def _value_of_slices(run: Run, name: str, arm: PlannedArm, numbers: list[float], operations: int) -> Value:
    """A metric of whole slices: what is distributed are the slices' own numbers, the worst last."""
    sign = 1 if run.plan.study.metrics[name].better == "lower" else -1
    asked = [*PERCENTILES.values(), *QUANTILES]
    # All in one call: each takes longer to begin than to answer.
    found = sign * np.percentile([sign * number for number in numbers], asked)
    at = dict(zip(asked, map(float, found), strict=True))

    return Value(
        metric=name,
        arm=arm.name,
        mean=estimate(run.samples.of(name, arm.name)),
        operations=operations,
        percentiles={label: at[percentile] for label, percentile in PERCENTILES.items()},
        distribution=[DistributionPoint(value=at[q], fraction=q / 100) for q in QUANTILES],
    )


def metric_result(name: str, metric: StudyMetric, run: Run) -> Metric:
    """A study's metric as the result has it."""
    return Metric(
        name=name,
        label=metric.label,
        description=metric.description,
        view=_view(metric, run),
        unit=metric.unit,
        headline=metric.headline,
        better=metric.better,
        workload=metric.workload,
        phase=metric.phase,
        margin=metric.margin,
    )


def _view(metric: StudyMetric, run: Run) -> str:
    own = {OF_SERVERS: "server", OF_CPU: "cpu"}
    found = (view for prefix, view in own.items() if metric.phase.startswith(prefix))
    return next(found, run.plan.study.workloads[metric.workload].view)
