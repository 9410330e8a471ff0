"""The capacity of each arm in a sweep (a run over a range of loads).

The capacity is the highest load that an arm carries within the limit on latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from costof.messages.answers import SCHEDULED, SliceAnswer
from costof.results.metrics import Samples
from costof.statistics.capacity import Observation, by_round, crossing
from costof.statistics.histogram import merged, upper_bounds
from costof.study.plan import Plan
from costof.study.sweep import CAPACITY, LatencyLimit, Sweep


def observation(sweep: Sweep, number: int, per_second: float, answer: SliceAnswer) -> Observation | None:
    """Return how many operations a slice had, and how many of them exceeded the sweep's limit on latency.

    Operations of clients that arrived but were not served count as beyond the limit.

    A command reports only a percentile. If its report lacks the percentile, return None. The exception is a slice in
    which all operations failed: it counts as beyond the limit, because commands time out under overload.
    """
    if sweep.limit.figure is not None:
        value = answer.figures.get(sweep.limit.figure)
        if value is None:
            return None if answer.operations else Observation.of_percentile(number, per_second, math.inf)
        ratio = value * sweep.limit.milliseconds_per_unit / sweep.limit.milliseconds
        return Observation.of_percentile(number, per_second, ratio)
    operations, beyond = _counts(sweep.limit, answer)
    arrivals = answer.count(SCHEDULED) or answer.operations
    unserved = max(0, arrivals - answer.operations) * sweep.operations_per_arrival
    return Observation(number, per_second, operations + unserved, beyond + unserved)


def _counts(limit: LatencyLimit, answer: SliceAnswer) -> tuple[int, int]:
    phase = answer.phases.get(limit.phase)
    if phase is None:
        return 0, 0
    counts = merged([phase.histogram])
    late = upper_bounds(counts.buckets) > limit.milliseconds * 1e6
    return counts.total, int(counts.counts[late].sum())


def keeps_limit(sweep: Sweep, observed: Observation) -> bool:
    return observed.beyond <= sweep.limit.share_beyond * observed.operations


def estimate(sweep: Sweep, observations: Sequence[Observation], near: float) -> float | None:
    """Return the capacity that fits the observations; None if none fits, or if it is outside the sweep's range.

    The search begins at the rate `near`.
    """
    found = crossing(observations, sweep.limit.share_beyond, near)
    return found if found is not None and sweep.least <= found <= sweep.most else None


def add_capacities(plan: Plan, samples: Samples) -> None:
    """Replace the samples of the metric `CAPACITY` by the capacities that fit all observations so far.

    An arm has no samples if its capacity is outside the sweep's range.
    """
    sweep = plan.sweep
    assert sweep is not None
    for arm, observations in samples.observations.items():
        samples.drop(CAPACITY, arm)
        rates = sorted(each.per_second for each in observations)
        if not rates:
            continue
        middle = rates[len(rates) // 2]
        if estimate(sweep, observations, middle) is None:
            continue
        for number, value in by_round(observations, sweep.limit.share_beyond, middle).items():
            samples.add(CAPACITY, arm, number, value)
