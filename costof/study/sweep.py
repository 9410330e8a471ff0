"""Sweeps: runs over a range of loads that find how much load each arm carries within a limit on latency.

A closed loop's maximum says nothing of latency, and a run at one load says nothing of other loads. A service is sized
by the load at which it still keeps its limit, such as a p99 of 10 ms: its capacity at this limit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from pydantic import Field

from costof.errors import CostofError, ErrorText, nearest
from costof.model import Model
from costof.study.load import CONNECTION, QUERY, WORKLOAD, Arrivals, CommandRate, Load, Pool, RequestedLoad, parse_rate
from costof.study.schema import Metric, Profile, SliceSize, Study

CAPACITY = f"{WORKLOAD}.capacity"
#: The largest relative cost that counts as none.
MARGIN = 0.05
RANGE_SIGN = ".."
#: The range must allow a search: its ends differ at least by this factor.
LEAST_RATIO = 1.5
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)\s+of\s+(?:an?\s+|the\s+)?(.+)", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
LEAST_PERCENTILE, GREATEST_PERCENTILE = 50.0, 99.9
#: The number of operations beyond the limit that a slice at the capacity should have, so that their share is known.
BEYOND_IN_SLICE = 5
#: The number of slices, each at another rate, that a round has of each arm.
SLICES_IN_ROUND = 3
#: The shortest and the longest slice of a sweep in seconds.
SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 4.0


class LatencyLimit(Model):
    """A limit on a percentile of an operation's latency, such as 'p99 of a query within 10 ms'."""

    metric: str = Field(description="The operation's metric in a run at one load, such as clients.query.")
    phase: str
    label: str
    percentile: float
    milliseconds: float

    @property
    def in_words(self) -> str:
        return f"p{self.percentile:g} of a {self.label} within {self.milliseconds:g} ms"

    @property
    def share_beyond(self) -> float:
        """The share of operations that may take longer than the limit: 0.01 for a p99."""
        return 1 - self.percentile / 100


class Sweep(Model):
    """A range of loads, in connections or operations a second, and the limit that tells which loads are carried."""

    least: float = Field(gt=0)
    most: float = Field(gt=0)
    limit: LatencyLimit
    operations_per_arrival: int = Field(
        default=1, ge=1, description="How many operations that the limit covers each arrival has, such as queries."
    )

    @property
    def middle(self) -> float:
        return math.sqrt(self.least * self.most)

    def seconds(self, per_second: float) -> float:
        """Return the length of a slice at a rate, for enough operations beyond the limit."""
        needed = BEYOND_IN_SLICE / self.limit.share_beyond / self.operations_per_arrival / per_second
        return min(max(needed, SHORTEST_SECONDS), LONGEST_SECONDS)

    def seconds_for_verdict(self, arms: int) -> float:
        """Return the seconds for a verdict: its rounds and one more, with half a second of overhead for each slice."""
        # Imported here, because importing numpy would delay the error for a mistyped option.
        from costof.statistics.intervals import FEWEST_ROUNDS

        return math.ceil((FEWEST_ROUNDS + 1) * SLICES_IN_ROUND * arms * (self.seconds(self.middle) + 0.5))

    def give_up_ms(self, seconds: float) -> float:
        """Return the delay of an arrival, in ms, from which on its slice cannot keep the limit any more.

        If a connection's own latency is limited, a delay of twice the share that may be late, times the slice's length,
        makes more connections late than the limit allows. Otherwise a delay of half a slice means overload.
        """
        if self.limit.metric != CONNECTION:
            return seconds * 1000 / 2
        return self.limit.milliseconds + 2 * self.limit.share_beyond * seconds * 1000


def split_range(text: str | None) -> tuple[str, str] | None:
    """Return both ends of a range such as '100/s..3000/s'; None for anything else."""
    if text is None or RANGE_SIGN not in text:
        return None
    least, _, most = text.partition(RANGE_SIGN)
    return least.strip(), most.strip()


def is_latency_limit(limit: tuple[str, str]) -> bool:
    """Return whether a pair of --limit limits a percentile, such as ('p99 of a query', '10ms')."""
    return _PERCENTILE.fullmatch(limit[0].strip()) is not None


def parse_sweep(
    study: Study, load: Load | None, requested: RequestedLoad, limits: Iterable[tuple[str, str]]
) -> Sweep | None:
    """Return the sweep that --load and --limit describe, or None if the load is no range.

    `study` is the study at the range's least load. Raises `BAD_RATE`, `BAD_RANGE`, `BAD_LATENCY_LIMIT`,
    `UNKNOWN_METRIC`, `LIMIT_NEEDS_RANGE`, `RANGE_NEEDS_LIMIT` and `NO_SWEEP`.
    """
    ends, latency_limits = split_range(requested.rate), [each for each in limits if is_latency_limit(each)]
    if ends is None:
        if latency_limits:
            raise CostofError(ErrorText.LIMIT_NEEDS_RANGE, metric=latency_limits[0][0])
        return None
    if load is None or isinstance(load, CommandRate):
        raise CostofError(ErrorText.NO_SWEEP, study=study.name)
    least, most = map(parse_rate, ends)
    if most < least * LEAST_RATIO:
        raise CostofError(ErrorText.BAD_RANGE, text=requested.rate or "", ratio=LEAST_RATIO)
    if len(latency_limits) != 1:
        raise CostofError(ErrorText.RANGE_NEEDS_LIMIT)
    limit = _latency_limit(study, *latency_limits[0])
    queries = load.queries_per_connection if isinstance(load, Arrivals) else 1
    per_arrival = max(1, queries - 1) if limit.metric == QUERY else 1
    return Sweep(least=least, most=most, limit=limit, operations_per_arrival=per_arrival)


def _latency_limit(study: Study, name: str, text: str) -> LatencyLimit:
    matched, time = _PERCENTILE.fullmatch(name.strip()), _TIME.fullmatch(text.strip())
    assert matched is not None
    times = {key: metric for key, metric in study.metrics.items() if not metric.is_of_whole_slice}
    labels = {metric.label.casefold(): key for key, metric in times.items()}
    wanted = matched[2].strip().casefold()
    if wanted not in labels:
        allowed = [f"p99 of a {label}" for label in labels]
        listed = ", ".join(f"'{label}'" for label in allowed)
        raise CostofError(
            ErrorText.UNKNOWN_METRIC, name=name, study=study.name, nearest=nearest(name, allowed), allowed=listed
        )
    percentile = float(matched[1])
    milliseconds = float(time[1]) * _MILLISECONDS[time[2]] if time else 0.0
    if not LEAST_PERCENTILE <= percentile <= GREATEST_PERCENTILE or milliseconds <= 0:
        raise CostofError(ErrorText.BAD_LATENCY_LIMIT, metric=name, text=text)
    key = labels[wanted]
    return LatencyLimit(
        metric=key,
        phase=times[key].phase,
        label=times[key].label,
        percentile=percentile,
        milliseconds=milliseconds,
    )


def at_sweep(study: Study, load: Arrivals | Pool, sweep: Sweep) -> Study:
    """Return the study, which is at one load already, with the capacity of each arm as its only metric."""
    several = load.operation[1]
    capacity = Metric(
        label=f"{several} a second, {sweep.limit.in_words}",
        description=f"The rate of {several} up to which the {sweep.limit.in_words} is kept.",
        workload=WORKLOAD,
        # No slice has this figure: it is fitted to all slices of a run (`results/capacity.py`).
        phase="capacity.rate",
        unit="per_second",
        headline=True,
        better="higher",
        margin=MARGIN,
    )
    size = SliceSize(operations=2**31, seconds=sweep.seconds(sweep.middle))

    def resized(profile: Profile) -> Profile:
        # Each arm takes several slices a round, so a profile's further arms would take too long.
        levels = {name: each if name == study.main_factor else each[:1] for name, each in profile.factors.items()}
        return profile.model_copy(update={"slices": {WORKLOAD: size}, "factors": levels, "also": []})

    return study.model_copy(
        update={
            "metrics": {CAPACITY: capacity},
            "sections": {},
            "limits": {},
            "profiles": {name: resized(profile) for name, profile in study.profiles.items()},
        }
    )
