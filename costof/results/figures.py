"""Figures: effects, noise floors, and values with their distributions."""

from __future__ import annotations

import math
from collections import Counter
from statistics import fmean

import numpy as np

from costof.results.changes import Judged, judged, noise_difference_of, noise_of, replicates_of
from costof.results.models import (
    LONGEST_WAIT,
    BetweenStarts,
    DistributionPoint,
    Effect,
    Metric,
    NoiseFloor,
    Open,
    Value,
)
from costof.results.run import Run
from costof.results.samples import in_unit
from costof.statistics.estimate import Verdict
from costof.statistics.histogram import merged
from costof.statistics.intervals import FEWEST_ROUNDS, differences, estimate, trimmed_mean
from costof.statistics.units import variance_share_of_starts
from costof.statistics.verdicts import rounds_needed, smallest_detectable
from costof.study.arms import PlannedArm
from costof.study.schema import CPU_PREFIX, SERVER_PREFIX, WHOLE_SLICE
from costof.study.schema import Metric as StudyMetric

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
#: Points of a distribution's curve: enough for a smooth picture, few enough for a small file.
QUANTILES = [*range(0, 99), *(99 + i / 10 for i in range(10)), 99.95, 99.99, 100.0]


def effects_of(run: Run) -> list[Effect]:
    found = judged(run.plan, run.changes, run.error_rate)
    alike = Counter(each.contrast.headline for each in found)
    return [_effect(run, each, alike[each.contrast.headline]) for each in found]


def noise_floors(run: Run) -> list[NoiseFloor]:
    found = []
    for name, change in replicates_of(run.changes):
        if (relative := change.relative()) is not None:
            found.append(
                NoiseFloor(
                    metric=name,
                    context=change.arm.context,
                    difference=change.difference.estimate(change.rounds),
                    ratio=relative,
                    differences=differences(change.control, change.values),
                    absolute=noise_difference_of(change),
                    relative=noise_of(change),
                )
            )
    return found


def between_starts(run: Run) -> list[BetweenStarts]:
    """Return one for each headline metric that can be compared; empty where rounds are the units."""
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline] if run.starts else []
    found = {name: [run.log_ratios_by_round(name, each.arm) for each in run.changes[name]] for name in metrics}
    shares = {name: variance_share_of_starts([*map(run.samples.units.grouped, logs)]) for name, logs in found.items()}
    return [BetweenStarts(metric=name, share=share) for name, share in shares.items() if share is not None]


def _effect(run: Run, of: Judged, alike: int) -> Effect:
    """`alike`: how many effects of its kind were judged."""
    change, metric = of.change, run.plan.study.metrics[of.metric]
    return Effect(
        metric=of.metric,
        unit=metric.unit,
        arm=change.arm.name,
        control_value=fmean(change.control),
        value=fmean(change.values),
        difference=change.difference.estimate(change.rounds),
        ratio=change.relative(),
        usual=trimmed_mean(differences(change.control, change.values)).estimate(change.rounds),
        verdict=of.verdict,
        rounds=change.rounds,
        differences=differences(change.control, change.values),
        open=_open(run, of, alike) if of.verdict is Verdict.UNRESOLVED and change.rounds >= FEWEST_ROUNDS else None,
    )


def _open(run: Run, of: Judged, alike: int) -> Open:
    contrast, relative = of.contrast, of.change.ratio
    unit_seconds = run.measured_seconds / run.units
    most = int(LONGEST_WAIT * (run.plan.budget_seconds or run.measured_seconds) / unit_seconds)
    rounds = rounds_needed(contrast, alike, max(most, contrast.rounds), run.error_rate)
    return Open(
        needed_seconds=None if rounds is None else max(1, rounds - contrast.rounds) * unit_seconds,
        between_rounds=math.expm1(relative.error * math.sqrt(contrast.rounds)) if relative else None,
        smallest=smallest_detectable(contrast, alike, run.error_rate) if relative else None,
        within_noise=contrast.within_noise,
    )


def values_of(run: Run) -> list[Value]:
    return [_value(run, name, arm) for name in run.plan.study.metrics for arm in run.plan.arms if run.has(name, arm)]


def _value(run: Run, name: str, arm: PlannedArm) -> Value:
    metric = run.plan.study.metrics[name]
    if metric.phase == WHOLE_SLICE:
        pieces = [piece.answer for piece in run.of(metric.workload, arm.name) if piece.answer.operations]
        return _value_of_slices(run, name, arm, sum(each.operations for each in pieces))
    if metric.is_of_whole_slice:
        return _value_of_slices(run, name, arm, len(run.samples.by_round(name, arm.name)))
    phases = [p for piece in run.of(metric.workload, arm.name) if (p := piece.answer.phases.get(metric.phase))]
    workers = run.plan.workers(metric.workload, arm)
    count = sum(phase.count for phase in phases)
    highest = max(phase.max_ns for phase in phases)

    asked = [*PERCENTILES.values(), *QUANTILES]
    found = dict(zip(asked, merged(phase.histogram for phase in phases).at_percentiles(asked), strict=True))

    def at(percentile: float) -> float:
        # The histogram rounds to three digits; the largest is known exactly.
        return in_unit(metric, max(1.0, min(found[percentile], float(highest))), workers)

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


def _value_of_slices(run: Run, name: str, arm: PlannedArm, operations: int) -> Value:
    """Return the value of a metric of whole slices: their own numbers are distributed, the worst last."""
    sign = 1 if run.plan.study.metrics[name].better == "lower" else -1
    numbers = run.samples.by_round(name, arm.name).values()
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
    return Metric(
        name=name,
        label=metric.label,
        description=metric.description,
        view=view_of(metric, run),
        unit=metric.unit,
        headline=metric.headline,
        better=metric.better,
        workload=metric.workload,
        phase=metric.phase,
        margin=metric.margin,
    )


def view_of(metric: StudyMetric, run: Run) -> str:
    own = {SERVER_PREFIX: "server", CPU_PREFIX: "cpu"}
    found = (view for prefix, view in own.items() if metric.phase.startswith(prefix))
    return next(found, run.plan.study.workloads[metric.workload].view)
