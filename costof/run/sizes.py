"""Sizes of slices (measured windows): as short as the noise of a workload allows, never longer than the study plans.

Let each operation take t seconds, and the start-up of a slice s seconds. Let W be the variance of operations, and B the
variance between slices. Slices of r operations, measured for T seconds in all, give an estimate with the variance (B +
W / r) * (s + r * t) / T. This variance is lowest at r = sqrt(s / t * W / B) (Kalibera & Jones 2013).

One warm-up round does not show B, but B is not needed. If s is a tenth of a slice, longer slices reduce the variance by
at most a tenth, whatever B is. If B is large, they even increase the variance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from costof.messages.answers import PopulationAnswer, SliceAnswer
from costof.results.metrics import SliceKey
from costof.study.load import PHASES, WORKLOAD, CommandRate
from costof.study.plan import Plan
from costof.study.schema import SliceSize

#: The maximum start-up time of a slice (measured window), as a share of the slice's time including start-up.
MOST_START_UP = 0.1
#: The maximum bias of a slice (measured window), as a share of the plan's precision. Effects are computed from the
#: logarithm of each slice's mean. This logarithm is on average too low by half the mean's relative variance. The bias
#: does not cancel in an effect, because the variance may differ between arms.
MOST_BIAS = 0.1
#: The minimum length of a slice (measured window): five times 10 ms, the period in which a lab enforces CPU limits and
#: the kernel counts CPU time.
SHORTEST_SECONDS = 0.05
#: The minimum number of operations of each worker in a slice (measured window). One is not enough, because the arm that
#: was measured before affects the first operation.
FEWEST_IN_A_ROW = 2
#: The minimum number of operations of each worker in a slice whose figure is computed over the whole slice, such as a
#: rate. The end of the slice may cut off one operation of each worker. With so many operations, this changes the figure
#: little.
FEWEST_IN_A_ROW_OF_WHOLE = 100
#: At a fixed load (--load), a slice (measured window) lasts this many times as long as a connection.
LIVES_OF_A_CONNECTION = 2
LONGEST_SECONDS_OF_A_LOAD = 30.0
#: The limit on operations of a slice (measured window) that should end only at its time limit.
UNLIMITED = 2**31
#: If a slice (measured window) ends only at its time limit, the fastest arm may perform at most this multiple of the
#: planned operations.
MOST_TIMES = 10


@dataclass(frozen=True)
class MeasuredSlice:
    """A measured slice, with the seconds that its preparation and bookkeeping took."""

    key: SliceKey
    answer: SliceAnswer
    start_up_seconds: float

    @property
    def seconds(self) -> float:
        return self.answer.elapsed_ns / 1e9

    @property
    def noise(self) -> float:
        """The relative variance of the slice's mean time, for its longest phase (which contains all other phases)."""
        whole = max(self.answer.phases.values(), key=lambda phase: phase.sum_ns)
        return max(0.0, whole.sum_squares_ns2 * whole.count / whole.sum_ns**2 - 1) / whole.count


def choose_sizes(plan: Plan, round_slices: Sequence[MeasuredSlice]) -> dict[str, SliceSize]:
    """Choose the sizes of slices (measured windows) from the plan and the last warm-up round.

    With several hosts, a slice ends at its time limit instead of after a number of operations, so that all hosts end
    together.
    """
    sizes = _choose_for_one_machine(plan, round_slices)
    return sizes if plan.hosts is None else _ended_by_time(plan, sizes, round_slices)


def _ended_by_time(
    plan: Plan, sizes: Mapping[str, SliceSize], round_slices: Sequence[MeasuredSlice]
) -> dict[str, SliceSize]:
    """Return sizes with only a time limit: the time that the slowest arm needs for the planned operations.

    The limit is shorter if the fastest arm would otherwise perform more than `MOST_TIMES` times the planned operations:
    hosts might run out of ports for its connections. A program whose command line has a duration keeps its size,
    because it ends by time anyway.
    """
    unchanged = {name for name, each in plan.study.workloads.items() if each.takes_duration}
    seconds: dict[str, list[float]] = {}
    for measured in round_slices:
        if measured.answer.operations:
            name = plan.size_name(measured.key.workload, plan.arm(measured.key.arm))
            needed = min(sizes[name].seconds, sizes[name].operations / measured.answer.operations * measured.seconds)
            seconds.setdefault(name, []).append(needed)
    ended = {name: min(max(each), MOST_TIMES * min(each)) for name, each in seconds.items()}
    return {
        name: size
        if name in unchanged
        else size.model_copy(update={"operations": UNLIMITED, "seconds": ended.get(name, size.seconds)})
        for name, size in sizes.items()
    }


def _choose_for_one_machine(plan: Plan, round_slices: Sequence[MeasuredSlice]) -> dict[str, SliceSize]:
    """Return the plan's sizes, shortened as far as the warm-up round allows, equally for all arms.

    Slices (measured windows) keep their planned size if the number of rounds is fixed, or if their command line
    contains a duration. Other slices are shortened, but not so far that the maximum number of rounds would end before
    the budget. At a fixed load, slices are never shortened. They are lengthened if connections last long, so that
    enough connections are open at once.
    """
    if plan.load is not None and not isinstance(plan.load, CommandRate):
        return {WORKLOAD: _size_at_load(plan.slices[WORKLOAD], round_slices)}
    if plan.start_budget_seconds is None or plan.precision is None or not plan.may_shorten_slices:
        return plan.slices
    by_size: dict[str, list[MeasuredSlice]] = {}
    for measured in round_slices:
        if measured.answer.operations:
            by_size.setdefault(plan.size_name(measured.key.workload, plan.arm(measured.key.arm)), []).append(measured)
    round_seconds = sum(measured.seconds + measured.start_up_seconds for measured in round_slices)
    filling = plan.start_budget_seconds / plan.most_rounds / round_seconds if round_seconds else 1.0
    needed = {name: max(filling, _share_needed(plan, slices, plan.precision)) for name, slices in by_size.items()}
    unchanged = {name for name, each in plan.study.workloads.items() if each.keeps_its_length}
    return {
        name: size if name in unchanged else size.times(min(1.0, needed.get(name, 1.0)))
        for name, size in plan.slices.items()
    }


def _size_at_load(planned: SliceSize, round_slices: Sequence[MeasuredSlice]) -> SliceSize:
    """Return the size of a slice (measured window) that lasts `LIVES_OF_A_CONNECTION` times as long as a connection.

    No connection is open when a slice begins. A shorter slice would end before as many connections are open at once as
    this load keeps open in the long run.
    """
    answers = [measured.answer for measured in round_slices if measured.answer.operations]
    lifetimes = (
        sum(answer.phases[phase].sum_ns for phase in PHASES if phase in answer.phases) / answer.operations
        for answer in answers
    )
    seconds = min(LONGEST_SECONDS_OF_A_LOAD, LIVES_OF_A_CONNECTION * max(lifetimes, default=0.0) / 1e9)
    return planned.model_copy(update={"seconds": max(planned.seconds, seconds)})


def _share_needed(plan: Plan, slices: Sequence[MeasuredSlice], precision: float) -> float:
    """Return the factor by which the measured length of slices can be multiplied without losing the plan's precision.

    The factor is above 1 if the measured slices were too short.
    """
    # Use the mean: if a factor takes seconds to change, only a few slices have a long start-up, and the median would
    # ignore these slices.
    start_up = fmean(measured.start_up_seconds for measured in slices)
    seconds = max(SHORTEST_SECONDS, start_up * (1 / MOST_START_UP - 1)) / min(measured.seconds for measured in slices)
    # Use the median and not the mean, because one slow operation of a cold server would raise the mean.
    noise = median(measured.noise for measured in slices) / (2 * MOST_BIAS * precision)
    workload = slices[0].key.workload
    whole_slices = any(
        metric.is_of_whole_slice for metric in plan.study.metrics.values() if metric.workload == workload
    )
    fewest = FEWEST_IN_A_ROW_OF_WHOLE if whole_slices else FEWEST_IN_A_ROW
    in_a_row = fewest / min(_operations_per_worker(plan, measured) for measured in slices)
    return max(seconds, noise, in_a_row)


def _operations_per_worker(plan: Plan, measured: MeasuredSlice) -> float:
    """Return how many operations each worker performed in the slice.

    A command has one worker on each host.
    """
    workers = plan.workers(measured.key.workload, plan.arm(measured.key.arm))
    if (
        isinstance(measured.answer, PopulationAnswer)
        and plan.study.workloads[measured.key.workload].command is not None
    ):
        workers = len(measured.answer.hosts)
    return measured.answer.operations / workers
