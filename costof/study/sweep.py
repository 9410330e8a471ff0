"""Sweeps: runs over a range of loads that find the highest load at which each arm keeps a limit on latency.

This load is called the capacity, by which a service is sized. An example of a limit is a p99 of 10 ms. Other runs do
not find the capacity: the maximum rate of a closed loop says nothing about latency, and a run at one load says nothing
about other loads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from pydantic import Field

from costof.errors import CostofError, ErrorText, nearest
from costof.model import Model
from costof.study.commands import FIGURE_PREFIX
from costof.study.load import (
    CONNECTION,
    FIRST_QUERY,
    QUERY,
    WORKLOAD,
    Arrivals,
    CommandRate,
    Load,
    RequestedLoad,
    parse_rate,
)
from costof.study.schema import Metric, Profile, Study, Workload

CAPACITY = f"{WORKLOAD}.capacity"
#: The largest relative cost that counts as no cost.
MARGIN = 0.05
RANGE_SIGN = ".."
#: The upper end of a range must be at least this multiple of its lower end. In a narrower range there is little to
#: search.
LEAST_RATIO = 1.5
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)\s+of\s+(?:an?\s+|the\s+)?(.+)", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)")
_MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
#: Matches the name of a figure that is a percentile reported by a command, such as 'p99_ms' or 'get_p999_us'.
_FIGURE = re.compile(r"(?:(?P<of>\w+)_)?p(?P<digits>\d{2,3})_(?:us|ms)")
LEAST_PERCENTILE, GREATEST_PERCENTILE = 50.0, 99.9
#: At the highest rate that keeps the latency limit (the capacity), about this many operations of a slice (measured
#: window) should take longer than the limit. With fewer, the slice would hardly show which share takes longer.
BEYOND_IN_SLICE = 5
#: The number of slices (measured windows) of each arm in a round. Each of these slices has another rate.
SLICES_IN_ROUND = 3
SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 4.0
#: A sweep (a search for capacities) with a budget should take at most `SWEEP_SECONDS`, or its budget if that is longer.
#: To end in time, its slices may be as short as `LEAST_SECONDS`. `OVERHEAD_SECONDS` is the additional time of each
#: slice.
SWEEP_SECONDS, LEAST_SECONDS, OVERHEAD_SECONDS = 215.0, 1.0, 0.4
#: The warm-up searches the range of rates that contains the capacity of an arm (compared configuration). The search
#: ends when the upper end of this range is at most this multiple of its lower end.
CLOSE = 1.1


class LatencyLimit(Model):
    """A limit on a percentile of an operation's latency, such as 'p99 of a query within 10 ms'."""

    metric: str = Field(description="The operation's metric in a run at one load, such as clients.query.")
    phase: str = Field(
        description="The phase of an operation, or 'figure.p99_ms' for a percentile that a command prints."
    )
    label: str
    percentile: float
    milliseconds: float
    milliseconds_per_unit: float = Field(default=1.0, description="The unit of a command's figure in milliseconds.")

    @property
    def figure(self) -> str | None:
        """The name of the percentile that a command reports, such as 'p99_ms'; None if costof times the operations."""
        return self.phase.removeprefix(FIGURE_PREFIX) if self.phase.startswith(FIGURE_PREFIX) else None

    @property
    def in_words(self) -> str:
        return f"p{self.percentile:g} of a {self.label} within {self.milliseconds:g} ms"

    @property
    def share_beyond(self) -> float:
        """The share of operations that may take longer than the limit: 0.01 for a p99."""
        return 1 - self.percentile / 100


class Sweep(Model):
    """A range of loads, in connections or operations a second. The run finds the highest load that keeps `limit`."""

    least: float = Field(gt=0)
    most: float = Field(gt=0)
    limit: LatencyLimit
    workload: str = Field(default=WORKLOAD, description="The workload whose slices have different rates.")
    operations_per_arrival: int = Field(
        default=1, ge=1, description="How many operations that the limit covers each arrival has, such as queries."
    )
    slice_seconds: float | None = Field(
        default=None, description="The length of each slice of a command; None: it follows from the rate."
    )
    longest_seconds: float = Field(
        default=LONGEST_SECONDS, description="The maximum length of a slice whose length follows from the rate."
    )

    @property
    def middle(self) -> float:
        return math.sqrt(self.least * self.most)

    def seconds(self, per_second: float) -> float:
        """Return the length of a slice (measured window) at a rate, in seconds.

        At the highest rate that keeps the latency limit, about `BEYOND_IN_SLICE` operations of a slice of this length
        take longer than the limit. The length is at least `SHORTEST_SECONDS` and at most `longest_seconds`, unless a
        command has a length of its own.
        """
        if self.slice_seconds is not None:
            return self.slice_seconds
        needed = BEYOND_IN_SLICE / self.limit.share_beyond / self.operations_per_arrival / per_second
        return min(max(needed, SHORTEST_SECONDS), self.longest_seconds)

    @property
    def halvings(self) -> int:
        """The number of slices (measured windows) that the warm-up needs to find the capacity of one arm roughly."""
        return math.ceil(math.log2(math.log(self.most / self.least) / math.log(CLOSE)))

    def fit(self, budget_seconds: float | None, arms: int) -> Sweep:
        """Return the sweep with slices (measured windows) so short that `arms` arms get a verdict within the budget.

        With a budget of None the sweep is unchanged, because the run then ends after a number of rounds.
        """
        if budget_seconds is None:
            return self
        slices = _rounds_for_verdict() * SLICES_IN_ROUND * arms + self.halvings * (arms - 1)
        seconds = max(budget_seconds, SWEEP_SECONDS) / slices - OVERHEAD_SECONDS
        seconds = round(min(max(seconds, LEAST_SECONDS), LONGEST_SECONDS), 1)
        return self.model_copy(update={"longest_seconds": seconds})

    def seconds_for_verdict(self, arms: int) -> float:
        """Return the seconds of the rounds that a verdict on all `arms` arms needs."""
        seconds = self.seconds(self.middle) + OVERHEAD_SECONDS
        return math.ceil(_rounds_for_verdict() * SLICES_IN_ROUND * arms * seconds)

    def give_up_ms(self, seconds: float) -> float:
        """Return how many ms late an operation may begin. If one begins later, its slice (measured window) ends early.

        For a limit on new connections, return limit + 2 * share * length. `share` is the permitted share of connections
        above the limit (0.01 for a p99), and `length` is the length of the slice. If an arrival is later than this,
        more than the permitted share exceeds the limit. For all other limits, return half the slice's length, which
        only an overloaded server reaches.
        """
        if self.limit.metric != CONNECTION:
            return seconds * 1000 / 2
        return self.limit.milliseconds + 2 * self.limit.share_beyond * seconds * 1000


def _rounds_for_verdict() -> int:
    """Return the minimum number of rounds that a verdict needs, plus one in case a round is discarded."""
    # Imported here, because importing numpy would delay the error for a mistyped option.
    from costof.statistics.intervals import FEWEST_ROUNDS

    return FEWEST_ROUNDS + 1


def split_range(text: str | None) -> tuple[str, str] | None:
    """Return both ends of a range such as '100/s..3000/s'; None for anything else."""
    if text is None or RANGE_SIGN not in text:
        return None
    least, _, most = text.partition(RANGE_SIGN)
    return least.strip(), most.strip()


def parse_range(text: str) -> tuple[float, float]:
    """Return both ends of a range of loads. Raises `BAD_RATE` and `BAD_RANGE`."""
    ends = split_range(text)
    assert ends is not None
    least, most = map(parse_rate, ends)
    if most < least * LEAST_RATIO:
        raise CostofError(ErrorText.BAD_RANGE, text=text, ratio=LEAST_RATIO)
    return least, most


def is_latency_limit(limit: tuple[str, str]) -> bool:
    """Return whether a pair of --limit limits a percentile, such as ('p99 of a query', '10ms')."""
    return _PERCENTILE.fullmatch(limit[0].strip()) is not None


def parse_sweep(
    study: Study, profile: str, load: Load | None, requested: RequestedLoad, limits: Iterable[tuple[str, str]]
) -> Sweep | None:
    """Return the sweep that --load and --limit describe, or None without a limit on latency.

    `study` must already be the study at the lowest load of the range (`at_load`). Raises `BAD_RATE`, `BAD_RANGE`,
    `BAD_LATENCY_LIMIT`, `UNKNOWN_METRIC`, `LIMIT_NEEDS_RANGE`, `ONE_LATENCY_LIMIT` and `NO_PERCENTILE`.
    """
    latency_limits = [each for each in limits if is_latency_limit(each)]
    if not latency_limits:
        return None
    if requested.rate is None or split_range(requested.rate) is None or load is None:
        raise CostofError(ErrorText.LIMIT_NEEDS_RANGE, metric=latency_limits[0][0])
    least, most = parse_range(requested.rate)
    if len(latency_limits) != 1:
        raise CostofError(ErrorText.ONE_LATENCY_LIMIT)
    if isinstance(load, CommandRate):
        name, workload = next((name, each) for name, each in study.workloads.items() if each.takes_rate)
        limit = _limit_of_command(study, name, workload, *latency_limits[0])
        seconds = study.profiles[profile].slices[name].seconds
        return Sweep(least=least, most=most, limit=limit, workload=name, slice_seconds=seconds)
    limit = _latency_limit(study, *latency_limits[0])
    queries = load.queries_per_connection if isinstance(load, Arrivals) else 1
    per_arrival = max(1, queries - 1) if limit.metric == QUERY else 1
    return Sweep(least=least, most=most, limit=limit, operations_per_arrival=per_arrival)


def _latency_limit(study: Study, name: str, text: str) -> LatencyLimit:
    percentile, milliseconds = _parse_limit(name, text)
    times = {key: metric for key, metric in study.metrics.items() if not metric.is_of_whole_slice}
    labels = {metric.label.casefold(): key for key, metric in times.items()}
    if FIRST_QUERY in times and QUERY not in times:
        # If each connection has only one query, users may call it 'query' instead of 'first query'.
        labels[times[FIRST_QUERY].label.removeprefix("first ")] = FIRST_QUERY
    wanted = _operation(name).casefold()
    if wanted not in labels:
        allowed = [f"p99 of a {label}" for label in labels]
        listed = ", ".join(f"'{label}'" for label in allowed)
        raise CostofError(
            ErrorText.UNKNOWN_METRIC, name=name, study=study.name, nearest=nearest(name, allowed), allowed=listed
        )
    key = labels[wanted]
    return LatencyLimit(
        metric=key,
        phase=times[key].phase,
        label=wanted,
        percentile=percentile,
        milliseconds=milliseconds,
    )


def _parse_limit(name: str, text: str) -> tuple[float, float]:
    """Return percentile and milliseconds of a limit such as ('p99 of a query', '10ms'). Raises `BAD_LATENCY_LIMIT`."""
    matched, time = _PERCENTILE.fullmatch(name.strip()), _TIME.fullmatch(text.strip())
    assert matched is not None
    percentile = float(matched[1])
    milliseconds = float(time[1]) * _MILLISECONDS[time[2]] if time else 0.0
    if not LEAST_PERCENTILE <= percentile <= GREATEST_PERCENTILE or milliseconds <= 0:
        raise CostofError(ErrorText.BAD_LATENCY_LIMIT, metric=name, text=text)
    return percentile, milliseconds


def _operation(name: str) -> str:
    """Return the operation of a limit's name: 'query' of 'p99 of a query'."""
    matched = _PERCENTILE.fullmatch(name.strip())
    assert matched is not None
    return matched[2].strip()


def _limit_of_command(study: Study, workload: str, program: Workload, name: str, text: str) -> LatencyLimit:
    """Return the limit on a percentile that a command reports.

    If the command reports this percentile for several operations, such as reads and writes, `name` must say for which
    one. Raises `NO_PERCENTILE`.
    """
    percentile, milliseconds = _parse_limit(name, text)
    assert program.command is not None
    reported = percentile_figures(program.command.all_figures)
    wanted = _operation(name).casefold()
    figures = {of: figure for (of, each), figure in reported.items() if each == percentile}
    chosen = next(iter(figures.values())) if len(figures) == 1 else figures.get(wanted, figures.get(""))
    if chosen is None:
        allowed = [f"p{each:g} of a {of or 'request'}" for of, each in reported]
        command = program.command.read or program.command.run.partition(" ")[0]
        known = f"choose from: {', '.join(allowed)}" if allowed else "it reports no percentiles"
        raise CostofError(ErrorText.NO_PERCENTILE, command=command, name=name, known=known)
    unit = study.metrics[f"{workload}.{chosen}"].unit
    return LatencyLimit(
        metric=f"{workload}.{chosen}",
        phase=f"{FIGURE_PREFIX}{chosen}",
        label=wanted,
        percentile=percentile,
        milliseconds=milliseconds,
        milliseconds_per_unit=_MILLISECONDS[unit],
    )


def percentile_figures(figures: Iterable[str]) -> dict[tuple[str, float], str]:
    """Return the names of figures that are percentiles of times, by operation and percentile, such as ('get', 99.9).

    The operation is '' if the figure's name has none, such as 'p99_ms'.
    """
    matches = {name: _FIGURE.fullmatch(name) for name in figures}
    return {
        (found["of"] or "", float(f"{found['digits'][:2]}.{found['digits'][2:] or 0}")): name
        for name, found in matches.items()
        if found is not None
    }


def at_sweep(study: Study, load: Load, sweep: Sweep) -> Study:
    """Return the study with the capacity of each arm (compared configuration) as its only metric.

    `study` must already be the study at the single load `load` (`at_load`). This function does not change the
    length of slices (measured windows). Later, `resolve` gives them the length that the sweep requires.
    """
    several = load.operation[1]
    capacity = Metric(
        label=f"{several} a second, {sweep.limit.in_words}",
        description=f"The rate of {several} up to which the {sweep.limit.in_words} is kept.",
        workload=sweep.workload,
        # No single slice has this figure. It is computed from all slices of a run (`results/capacity.py`).
        phase="capacity.rate",
        unit="per_second",
        headline=True,
        better="higher",
        margin=MARGIN,
    )

    def resized(profile: Profile) -> Profile:
        # Keep only the first level of each factor except the main one. Each arm takes several slices a round, so a run
        # with all arms of the profile would take too long.
        levels = {name: each if name == study.main_factor else each[:1] for name, each in profile.factors.items()}
        slices = {sweep.workload: profile.slices[sweep.workload]}
        return profile.model_copy(update={"slices": slices, "factors": levels, "also": []})

    return study.model_copy(
        update={
            "workloads": {sweep.workload: study.workloads[sweep.workload]},
            "metrics": {CAPACITY: capacity},
            "sections": {},
            "limits": {},
            "profiles": {name: resized(profile) for name, profile in study.profiles.items()},
        }
    )
