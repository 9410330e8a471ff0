"""How long slices last: of each workload as short as its noise allows, and never longer than the study plans.

Slices of r operations, of t seconds each after a start-up of s, give an estimate of variance
(B + W / r) * (s + r * t) / T in T seconds, for a variance W of operations and B between slices. That is least at
r = sqrt(s / t * W / B) (Kalibera & Jones 2013). One round of warm-up does not tell B, and need not: where s is a tenth
of a slice, no longer one brings the variance down by more than a tenth, whatever B is, and where B is large every
longer one is worse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from costof.messages.answers import PopulationAnswer, SliceAnswer
from costof.results.samples import SliceKey
from costof.study.load import PHASES, WORKLOAD, CommandRate
from costof.study.plan import Plan
from costof.study.schema import SliceSize

#: Of a slice, start-up included.
MOST_START_UP = 0.1
#: Of the precision that is asked for. The logarithm of a slice's mean is too low by half the relative variance that its
#: operations give it, and arms may differ in that.
MOST_BIAS = 0.1
#: Five of the steps of 10 ms in which a lab hands out shares of CPU and the kernel counts what others use.
SHORTEST_SECONDS = 0.05
#: Operations of each worker: the first one finds caches and connections as the arm before has left them.
FEWEST_IN_A_ROW = 2
#: The same where a figure is of the slice as a whole: its workers do not end together, which blurs up to one of them.
FEWEST_IN_A_ROW_OF_WHOLE = 100
#: Of a slice of a load, where connections last so long.
LIVES_OF_A_CONNECTION = 2
LONGEST_SECONDS_OF_A_LOAD = 30.0
#: Of a slice that ends by its seconds: of the fastest arm's operations, as many times those that were planned.
ENDLESS, MOST_TIMES = 2**31, 10


@dataclass(frozen=True)
class MeasuredSlice:
    """A turn that was taken: its slice, and the seconds that it took beside it."""

    turn: SliceKey
    answer: SliceAnswer
    start_up_seconds: float

    @property
    def seconds(self) -> float:
        return self.answer.elapsed_ns / 1e9

    @property
    def noise(self) -> float:
        """Relative variance of the mean of its operations, by the phase that holds all others."""
        whole = max(self.answer.phases.values(), key=lambda phase: phase.sum_ns)
        return max(0.0, whole.sum_squares_ns2 * whole.count / whole.sum_ns**2 - 1) / whole.count


def chosen_sizes(plan: Plan, round_slices: Sequence[MeasuredSlice]) -> dict[str, SliceSize]:
    """The sizes of slices, by the plan and by what its warm-up took. Where several hosts measure their windows end by
    time, and all at once; operations are a ceiling.
    """
    sizes = _chosen(plan, round_slices)
    return sizes if plan.hosts is None else _ended_by_time(plan, sizes, round_slices)


def _ended_by_time(
    plan: Plan, sizes: Mapping[str, SliceSize], round_slices: Sequence[MeasuredSlice]
) -> dict[str, SliceSize]:
    """So long as the slowest arm takes for as many operations, and the fastest for so many times more: hosts would run
    out of ports for its connections. A program that is told how long to run ends by itself."""
    told = {name for name, each in plan.study.workloads.items() if each.takes_duration}
    seconds: dict[str, list[float]] = {}
    for taken in round_slices:
        if taken.answer.operations:
            name = plan.size_name(taken.turn.workload, plan.arm(taken.turn.arm))
            asked = min(sizes[name].seconds, sizes[name].operations / taken.answer.operations * taken.seconds)
            seconds.setdefault(name, []).append(asked)
    ended = {name: min(max(found), MOST_TIMES * min(found)) for name, found in seconds.items()}
    return {
        name: size
        if name in told
        else size.model_copy(update={"operations": ENDLESS, "seconds": ended.get(name, size.seconds)})
        for name, size in sizes.items()
    }


def _chosen(plan: Plan, round_slices: Sequence[MeasuredSlice]) -> dict[str, SliceSize]:
    """The plan's sizes of slices, each shortened for all its arms alike as far as this round of warm-up allows.

    Slices of a load are made longer where its connections last so long that few would be open at once.

    Where the number of rounds is fixed nothing is gained by shorter slices, and they stay, and so do those of a load
    and of a program that was told how long to run. They stay so long, too, that the most rounds fill the budget.
    """
    if plan.load is not None and not isinstance(plan.load, CommandRate):
        return {WORKLOAD: _of_a_load(plan.slices[WORKLOAD], round_slices)}
    if plan.start_budget_seconds is None or plan.precision is None or not plan.may_shorten_slices:
        return plan.slices
    of_size: dict[str, list[MeasuredSlice]] = {}
    for taken in round_slices:
        if taken.answer.operations:
            of_size.setdefault(plan.size_name(taken.turn.workload, plan.arm(taken.turn.arm)), []).append(taken)
    round_seconds = sum(taken.seconds + taken.start_up_seconds for taken in round_slices)
    filling = plan.start_budget_seconds / plan.most_rounds / round_seconds if round_seconds else 1.0
    needed = {name: max(filling, _share_needed(plan, slices, plan.precision)) for name, slices in of_size.items()}
    keeping = {name for name, each in plan.study.workloads.items() if each.keeps_its_length}
    return {
        name: size if name in keeping else size.times(min(1.0, needed.get(name, 1.0)))
        for name, size in plan.slices.items()
    }


def _of_a_load(planned: SliceSize, round_slices: Sequence[MeasuredSlice]) -> SliceSize:
    """So long that connections come for a multiple of how long one lasts: at a slice's start none is open yet."""
    answers = [taken.answer for taken in round_slices if taken.answer.operations]
    lasts = (
        sum(answer.phases[phase].sum_ns for phase in PHASES if phase in answer.phases) / answer.operations
        for answer in answers
    )
    seconds = min(LONGEST_SECONDS_OF_A_LOAD, LIVES_OF_A_CONNECTION * max(lasts, default=0.0) / 1e9)
    return planned.model_copy(update={"seconds": max(planned.seconds, seconds)})


def _share_needed(plan: Plan, slices: Sequence[MeasuredSlice], precision: float) -> float:
    """The share of their length that is enough for slices of one size."""
    # The mean: what is slow to change costs a few slices much time, which belongs to all of them.
    start_up = fmean(taken.start_up_seconds for taken in slices)
    seconds = max(SHORTEST_SECONDS, start_up * (1 / MOST_START_UP - 1)) / min(taken.seconds for taken in slices)
    # Of noise the median: one slow operation of a cold server would make it large for all.
    noise = median(taken.noise for taken in slices) / (2 * MOST_BIAS * precision)
    workload = slices[0].turn.workload
    of_whole = any(metric.of_slice for metric in plan.study.metrics.values() if metric.workload == workload)
    fewest = FEWEST_IN_A_ROW_OF_WHOLE if of_whole else FEWEST_IN_A_ROW
    in_a_row = fewest / min(_in_a_row(plan, taken) for taken in slices)
    return max(seconds, noise, in_a_row)


def _in_a_row(plan: Plan, taken: MeasuredSlice) -> float:
    """Operations of each worker; a command has one on each host."""
    workers = plan.workers(taken.turn.workload, plan.arm(taken.turn.arm))
    if isinstance(taken.answer, PopulationAnswer) and plan.study.workloads[taken.turn.workload].command is not None:
        workers = len(taken.answer.hosts)
    return taken.answer.operations / workers
