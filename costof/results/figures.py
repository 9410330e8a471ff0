"""Figures of a run: effects, noise floors, and values with their distributions."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean

import numpy as np

from costof.messages.answers import mean_count
from costof.results.changes import (
    Change,
    JudgedChange,
    absolute_noise,
    judge_changes,
    relative_noise,
    replicate_changes,
)
from costof.results.metrics import in_unit
from costof.results.models import (
    LONGEST_WAIT,
    BetweenStarts,
    DistributionPoint,
    Effect,
    Metric,
    NoiseFloor,
    Unresolved,
    Value,
)
from costof.results.run import Run
from costof.statistics.estimate import Verdict
from costof.statistics.histogram import merged
from costof.statistics.intervals import FEWEST_ROUNDS, differences, estimate, trimmed_mean
from costof.statistics.uneven import disagrees, ratio_of_means, uneven_rounds
from costof.statistics.units import variance_share_of_starts
from costof.statistics.verdicts import rounds_needed, smallest_detectable, with_errors
from costof.study.arms import PlannedArm
from costof.study.schema import CPU_PREFIX, SERVER_PREFIX, WHOLE_SLICE
from costof.study.schema import Metric as StudyMetric

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
#: The percentiles at which a distribution's curve has points: enough for a smooth picture, and few enough for a small
#: file.
QUANTILES = [*range(0, 99), *(99 + i / 10 for i in range(10)), 99.95, 99.99, 100.0]


def build_effects(run: Run) -> list[Effect]:
    judged = judge_changes(run.plan, run.judged_changes, run.error_rate)
    family_sizes = Counter(each.contrast.headline for each in judged)
    changes = [each for changes in run.changes.values() for each in changes if not each.arm.replicate]
    return [
        _effect(run, each, change, family_sizes[each.contrast.headline])
        for each, change in zip(judged, changes, strict=True)
    ]


def noise_floors(run: Run) -> list[NoiseFloor]:
    floors = []
    for name, change in replicate_changes(run.changes):
        if (relative := change.relative()) is not None:
            floors.append(
                NoiseFloor(
                    metric=name,
                    context=change.arm.context,
                    difference=change.difference.estimate(change.rounds),
                    ratio=relative,
                    differences=differences(change.control, change.values),
                    absolute=absolute_noise(change),
                    relative=relative_noise(change),
                )
            )
    return floors


def between_starts(run: Run) -> list[BetweenStarts]:
    """Return the variation between starts of the servers for each headline metric; [] if there is only one start."""
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline] if run.starts else []
    log_ratios = {name: [run.log_ratios_by_round(name, each.arm) for each in run.changes[name]] for name in metrics}
    shares = {
        name: variance_share_of_starts([*map(run.samples.units.grouped, logs)]) for name, logs in log_ratios.items()
    }
    return [BetweenStarts(metric=name, share=share) for name, share in shares.items() if share is not None]


def _effect(run: Run, judged: JudgedChange, change: Change, family_size: int) -> Effect:
    """Return an effect with the verdict of `judged` and the intervals of `change`.

    `family_size` is the number of effects whose verdicts are corrected together.
    """
    metric = run.plan.study.metrics[judged.metric]
    difference, ratio = change.difference.estimate(change.rounds), change.relative()
    contradicts = disagrees(difference, ratio, change.control, change.values)
    numbers = run.samples.unit_numbers(judged.metric, change.arm.control_arm or "", change.arm.name)
    return Effect(
        metric=judged.metric,
        unit=metric.unit,
        arm=change.arm.name,
        control_value=fmean(change.control),
        value=fmean(change.values),
        difference=difference,
        ratio=ratio,
        ratio_disagrees=contradicts,
        ratio_of_means=ratio_of_means(change.control, change.values) if contradicts else None,
        uneven=uneven_rounds(numbers, difference, ratio, change.control, change.values),
        typical_difference=trimmed_mean(differences(change.control, change.values)).estimate(change.rounds),
        verdict=judged.verdict,
        rounds=change.rounds,
        differences=differences(change.control, change.values),
        unresolved=_unresolved(run, judged, family_size)
        if judged.verdict is Verdict.UNRESOLVED and change.rounds >= FEWEST_ROUNDS
        else None,
    )


def _unresolved(run: Run, judged: JudgedChange, family_size: int) -> Unresolved:
    """Return why the effect has no verdict, and how much longer the run would have to measure for a verdict.

    This assumes that the longer run ends as planned, even if this run did not.
    """
    contrast, widening = judged.contrast, judged.change.widening
    relative, planned = judged.change.ratio, with_errors(contrast, 1 / widening)
    unit_seconds = run.measured_seconds / run.units
    most = int(LONGEST_WAIT * (run.plan.budget_seconds or run.measured_seconds) / unit_seconds)
    rate = run.error_rate_if_resumed if run.resumable_rounds else run.error_rate
    rounds = rounds_needed(planned, family_size, max(most, contrast.rounds), rate)
    return Unresolved(
        needed_seconds=None if rounds is None else max(1, rounds - contrast.rounds) * unit_seconds,
        deviation_between_rounds=math.expm1(planned.change.error * math.sqrt(contrast.rounds)) if relative else None,
        smallest_detectable=smallest_detectable(contrast, family_size, run.error_rate) if relative else None,
        within_noise=contrast.within_noise,
    )


def build_values(run: Run) -> list[Value]:
    return [
        _value(run, name, arm)
        for name in run.plan.study.metrics
        for arm in run.plan.arms
        if run.has_enough_rounds(name, arm)
    ]


def _value(run: Run, name: str, arm: PlannedArm) -> Value:
    metric = run.plan.study.metrics[name]
    if metric.phase == WHOLE_SLICE:
        records = [
            record.answer for record in run.counted_slices(metric.workload, arm.name) if record.answer.operations
        ]
        return _value_of_slices(run, name, arm, sum(each.operations for each in records))
    if metric.is_of_whole_slice:
        return _value_of_slices(run, name, arm, len(run.samples.by_round(name, arm.name)))
    phases = [
        p for record in run.counted_slices(metric.workload, arm.name) if (p := record.answer.phases.get(metric.phase))
    ]
    workers = run.plan.workers(metric.workload, arm)
    count = sum(phase.count for phase in phases)
    highest = max(phase.max_ns for phase in phases)

    quantiles = [*PERCENTILES.values(), *QUANTILES]
    nanoseconds = dict(
        zip(quantiles, merged(phase.histogram for phase in phases).at_percentiles(quantiles), strict=True)
    )

    def at(percentile: float) -> float:
        # A histogram rounds to three digits, so a percentile could exceed the maximum, which is known exactly.
        return in_unit(metric, max(1.0, min(nanoseconds[percentile], float(highest))), workers)

    return Value(
        metric=name,
        arm=arm.name,
        mean=estimate(run.samples.means(name, arm.name)),
        operations=count,
        percentiles={label: at(percentile) for label, percentile in PERCENTILES.items()},
        distribution=[DistributionPoint(value=at(q), fraction=q / 100) for q in QUANTILES],
        round_trips=mean_count(phases, "round_trips"),
        bytes_sent=mean_count(phases, "bytes_sent"),
        bytes_received=mean_count(phases, "bytes_received"),
    )


def _value_of_slices(run: Run, name: str, arm: PlannedArm, operations: int) -> Value:
    """Return the value of a metric that has one figure per slice.

    The value's percentiles are those of the slices' figures, from the best to the worst: for a rate, from the highest
    to the lowest.
    """
    sign = 1 if run.plan.study.metrics[name].better == "lower" else -1
    numbers = run.samples.by_round(name, arm.name).values()
    quantiles = [*PERCENTILES.values(), *QUANTILES]
    # One call for all quantiles, because each call has a large overhead.
    values = sign * np.percentile([sign * number for number in numbers], quantiles)
    at = dict(zip(quantiles, map(float, values), strict=True))

    return Value(
        metric=name,
        arm=arm.name,
        mean=estimate(run.samples.means(name, arm.name)),
        operations=operations,
        percentiles={label: at[percentile] for label, percentile in PERCENTILES.items()},
        distribution=[DistributionPoint(value=at[q], fraction=q / 100) for q in QUANTILES],
    )


def build_metric(name: str, metric: StudyMetric, run: Run) -> Metric:
    return Metric(name=name, view=metric_view(metric, run), **metric.model_dump(exclude={"all_workers"}))


def metric_view(metric: StudyMetric, run: Run) -> str:
    views = {SERVER_PREFIX: "server", CPU_PREFIX: "cpu"}
    special = (view for prefix, view in views.items() if metric.phase.startswith(prefix))
    return next(special, run.plan.study.workloads[metric.workload].view)
