"""Choice of the sizes of slices (measured windows): as short as a workload's noise allows, at most as long as planned.

Short slices allow more rounds, but each slice also needs time to start up. Let each operation take t seconds, and the
start-up of a slice s seconds. Let W be the variance between operations, and B the variance between slices. If slices of
r operations are measured for T seconds in all, the estimate has the variance (B + W / r) * (s + r * t) / T. This
variance is lowest at r = sqrt(s / t * W / B) (Kalibera & Jones 2013).

The warm-up does not show B. It is not needed: if the start-up is a tenth of a slice's time, longer slices can reduce
the variance by at most a tenth. If B is large, longer slices even increase the variance.
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

#: The maximum start-up time of a slice (measured window), as a share of the slice's whole time (start-up included).
MOST_START_UP = 0.1
#: The maximum bias of the figure of a slice (measured window), as a share of the plan's precision. Effects are computed
#: from the logarithm of each slice's mean. On average this logarithm is too low, by half the mean's relative variance.
#: The bias does not cancel in an effect, because the variance may differ between arms.
MOST_BIAS = 0.1
#: The minimum length of a slice (measured window): five times 10 ms, the period in which a lab enforces CPU limits and
#: the kernel counts CPU time.
SHORTEST_SECONDS = 0.05
#: The minimum number of operations of each worker in a slice (measured window). A single operation would not be enough:
#: the first one of a slice is affected by the arm that was measured before.
FEWEST_IN_A_ROW = 2
#: The minimum number of operations of each worker in a slice (measured window) if a figure such as a rate is computed
#: from the slice as a whole. The end of the slice may cut off one operation of each worker. Among so many operations,
#: one hardly changes the figure.
FEWEST_IN_A_ROW_OF_WHOLE = 100
#: At a fixed load (--load), a slice (measured window) is this many times as long as a client's connection stays open.
LIVES_OF_A_CONNECTION = 2
LONGEST_SECONDS_OF_A_LOAD = 30.0
#: The limit on operations for slices (measured windows) that should end by their time limit. No slice reaches it.
UNLIMITED = 2**31
#: The maximum number of operations of the fastest arm in slices (measured windows) that end by their time limit, as a
#: multiple of the planned number.
MOST_TIMES = 10


@dataclass(frozen=True)
class MeasuredSlice:
    key: SliceKey
    answer: SliceAnswer
    start_up_seconds: float

    @property
    def seconds(self) -> float:
        return self.answer.elapsed_ns / 1e9

    @property
    def noise(self) -> float:
        """The relative variance of the mean time of the slice's longest phase, which contains all other phases."""
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
    """Return sizes with only a time limit: the time in which the slowest arm performs the planned operations.

    The limit is shorter if the fastest arm would otherwise perform more than `MOST_TIMES` times the planned operations.
    With more operations, hosts might open so many connections that their ports run out. A program whose command line
    sets its duration keeps its size.
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
    """Return the sizes of slices (measured windows): the planned ones, shortened equally for all arms where possible.

    Three kinds of slices keep their planned size or become longer:

    - Slices of a run with a fixed number of rounds keep it.
    - Slices of a program whose command line sets its duration keep it.
    - At a fixed load (--load), slices become longer if connections stay open for long, so that enough connections are
      open at once.

    Other slices are shortened as far as the noise in the warm-up allows. They stay long enough that the run does not
    reach its maximum number of rounds before the end of its budget.
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

    A slice begins without open connections. The number of open connections then rises until as many are closed as are
    opened. A shorter slice would end before that.
    """
    answers = [measured.answer for measured in round_slices if measured.answer.operations]
    lifetimes = (
        sum(answer.phases[phase].sum_ns for phase in PHASES if phase in answer.phases) / answer.operations
        for answer in answers
    )
    seconds = min(LONGEST_SECONDS_OF_A_LOAD, LIVES_OF_A_CONNECTION * max(lifetimes, default=0.0) / 1e9)
    return planned.model_copy(update={"seconds": max(planned.seconds, seconds)})


def _share_needed(plan: Plan, slices: Sequence[MeasuredSlice], precision: float) -> float:
    """Return the factor by which to multiply the length of slices (measured windows) to reach the plan's precision.

    The factor is below 1 if the slices can be shorter, and above 1 if they must be longer.
    """
    # Use the mean and not the median: a factor that takes seconds to change gives a few slices a long start-up, which
    # the median would ignore.
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
    """Return how many operations each worker performed in the slice (measured window).

    A command has one worker on each host.
    """
    workers = plan.workers(measured.key.workload, plan.arm(measured.key.arm))
    if (
        isinstance(measured.answer, PopulationAnswer)
        and plan.study.workloads[measured.key.workload].command is not None
    ):
        workers = len(measured.answer.hosts)
    return measured.answer.operations / workers
