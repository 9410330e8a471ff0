"""Samples: one number for each metric, arm and round, from the answers of slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costof.ipc.answers import Phase, SliceAnswer
from costof.statistics.intervals import ROUNDS_OF_AN_INTERVAL
from costof.statistics.units import Units
from costof.study.arms import PlannedArm
from costof.study.metric import Metric
from costof.study.plan import Plan

NS_PER_UNIT = {"ms": 1e6, "us": 1e3}
ByRound = Mapping[int, float]


class Turn(NamedTuple):
    """A slice's place in a round."""

    workload: str
    arm: str


@dataclass
class Samples:
    """One number for each metric, arm and round: the mean of a slice, in the metric's unit.

    Whoever estimates from them gets one for each unit, so that they are independent of each other.
    """

    units: Units = field(default_factory=Units)
    _values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    _succeeded: set[Turn] = field(default_factory=set)

    def add(self, metric: str, arm: str, round_number: int, value: float) -> None:
        self._values.setdefault((metric, arm), {})[round_number] = value

    def succeeded(self, turn: Turn) -> None:
        """Something of the workload has succeeded on the arm."""
        self._succeeded.add(turn)

    def by_round(self, metric: str, arm: str) -> ByRound:
        return self._values.get((metric, arm), {})

    def of(self, metric: str, arm: str) -> list[float]:
        """The arm's numbers in the order of the rounds."""
        return self.units.means(self.by_round(metric, arm))

    def together(self, *of: tuple[str, str]) -> list[list[float]]:
        """The numbers of each metric and arm in the rounds that have all of them."""
        found = [self.by_round(*pair) for pair in of]
        return [self.units.means(each) for each in in_common(found)]

    def paired_rounds(self, metric: str, control: str, arm: str) -> list[ByRound]:
        """Both arms' numbers in the rounds that both have, in their order.

        A control without the phase counts as 0: it spends nothing on it.
        """
        of_arm = self.by_round(metric, arm)
        return in_common([self.by_round(metric, control) or dict.fromkeys(of_arm, 0.0), of_arm])

    def pairs(self, metric: str, control: str, arm: str) -> tuple[list[float], list[float]]:
        """Both arms' numbers in the rounds that both have."""
        of_control, of_arm = map(self.units.means, self.paired_rounds(metric, control, arm))
        return of_control, of_arm

    def compared(self, plan: Plan, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
        """The rounds' pairs of an arm and its control, where there are enough of them.

        A control without the phase spends nothing on it; one that never succeeded says nothing.
        """
        if arm.baseline is None or Turn(plan.study.metrics[metric].workload, arm.baseline) not in self._succeeded:
            return None
        control, values = self.pairs(metric, arm.baseline, arm.name)
        return (control, values) if len(values) >= ROUNDS_OF_AN_INTERVAL else None


def in_common(found: Sequence[ByRound]) -> list[ByRound]:
    """Each in the rounds that all of them have, in their order."""
    common = sorted(set.intersection(*map(set, found)))
    return [{number: each[number] for number in common} for each in found]


@dataclass(frozen=True)
class ServersSide:
    """What the servers gave of a slice: figures of their own (`Service.judge`), and CPU seconds by role."""

    figures: dict[str, float]
    cpu_seconds: dict[str, float]


def add_samples(
    plan: Plan, samples: Samples, number: int, turn: Turn, answer: SliceAnswer, servers: ServersSide
) -> None:
    """The slice's means and figures, by metric, in the metric's unit."""
    if answer.operations:
        samples.succeeded(turn)
    for name, metric in plan.study.metrics.items():
        if metric.workload != turn.workload:
            continue
        if metric.of_slice:
            figure = of_slice(metric, answer, servers)
            if figure is not None:
                samples.add(name, turn.arm, number, figure)
        elif (phase := answer.phases.get(metric.phase)) is not None:
            workers = plan.workers(turn.workload, plan.arm(turn.arm)) if metric.all_workers else 1
            samples.add(name, turn.arm, number, in_unit(metric, phase.sum_ns / phase.count, workers))


def of_slice(metric: Metric, answer: SliceAnswer, servers: ServersSide) -> float | None:
    """A metric of the slice as a whole, such as operations over elapsed time; None where the slice does not tell it."""
    kind, _, name = metric.phase.partition(".")
    if kind == "server":
        return servers.figures.get(name)
    if not answer.operations:
        return None
    seconds = answer.elapsed_ns / 1e9
    match kind:
        case "figure":
            return answer.figures.get(name)
        case "cpu":
            nanoseconds = servers.cpu_seconds[name] * 1e9 if name in servers.cpu_seconds else answer.cpu_ns.get(name)
            return None if nanoseconds is None else nanoseconds / answer.operations / NS_PER_UNIT[metric.unit]
        case "bytes":
            return _bytes(answer.phases.get(name))
        case "slice":
            per_second = metric.unit == "per_second"
            return answer.operations / seconds if per_second else answer.elapsed_ns / NS_PER_UNIT[metric.unit]
    counted = answer.count(metric.phase)
    return None if counted is None else counted / seconds


def _bytes(phase: Phase | None) -> float | None:
    if phase is None or phase.bytes_sent is None or phase.bytes_received is None:
        return None
    return (phase.bytes_sent + phase.bytes_received) / phase.count


def in_unit(metric: Metric, nanoseconds: float, workers: int) -> float:
    """A mean time in the metric's unit; a rate is what one worker, or all of them, get done at that time each."""
    if metric.unit == "per_second":
        return 1e9 / nanoseconds * (workers if metric.all_workers else 1)
    return nanoseconds / NS_PER_UNIT[metric.unit]
