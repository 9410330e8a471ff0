"""Samples: one number for each metric, arm and round, from the answers of slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from costof.messages.answers import SliceAnswer
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL
from costof.statistics.units import Units
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import Metric

NS_PER_UNIT = {"ms": 1e6, "us": 1e3}
ByRound = Mapping[int, float]


class SliceKey(NamedTuple):
    """A slice's place in a round. `stands_for`: of the control's two copies, the one whose figures it gives, where that
    is the other one than it was measured on."""

    workload: str
    arm: str
    stands_for: str | None = None

    @property
    def role(self) -> str:
        return self.stands_for or self.arm


@dataclass
class Samples:
    """One number for each metric, arm and round: the mean of a slice, in the metric's unit.

    Whoever estimates from them gets one for each unit, so that they are independent of each other.
    """

    units: Units = field(default_factory=Units)
    _values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    _swapped: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _succeeded: set[SliceKey] = field(default_factory=set)

    def add(self, metric: str, arm: str, round_number: int, value: float, swapped: bool = False) -> None:
        """`swapped`: the number stands for this arm, and was measured on the other copy of the control."""
        self._values.setdefault((metric, arm), {})[round_number] = value
        if swapped:
            self._swapped.setdefault((metric, arm), set()).add(round_number)

    def drop(self, metric: str, arm: str) -> None:
        """Forget the arm's numbers: they are missing then, and not 0."""
        self._values.pop((metric, arm), None)
        self._reported.add(metric)

    def reported(self, metric: str) -> None:
        """Note that commands report the metric: where one does not, the number is missing, and not 0."""
        self._reported.add(metric)

    def succeeded(self, turn: SliceKey) -> None:
        self._succeeded.add(turn)

    def by_round(self, metric: str, arm: str) -> ByRound:
        return self._values.get((metric, arm), {})

    def of(self, metric: str, arm: str) -> list[float]:
        return self.units.means(self.by_round(metric, arm))

    def together(self, *of: tuple[str, str]) -> list[list[float]]:
        found = [self.by_round(*pair) for pair in of]
        return [self.units.means(each) for each in in_common(found)]

    def paired_rounds(self, metric: str, control: str, arm: str) -> list[ByRound]:
        """Return both arms' numbers in the rounds that both have, in their order.

        A control without the phase counts as 0: it spends nothing on it. Where the control's copies have changed places
        (`SliceKey.stands_for`), the pair of control and replicate is turned round: a difference is between the same two copies.
        """
        of_arm, of_control = self.by_round(metric, arm), self.by_round(metric, control)
        if not of_control and metric not in self._reported:
            of_control = dict.fromkeys(of_arm, 0.0)
        common = in_common([of_control, of_arm])
        swapped = self._swapped.get((metric, arm), set())
        return [{n: (one if n not in swapped else other)[n] for n in one} for one, other in (common, common[::-1])]

    def pairs(self, metric: str, control: str, arm: str) -> tuple[list[float], list[float]]:
        """Return both arms' numbers in the rounds that both have."""
        of_control, of_arm = map(self.units.means, self.paired_rounds(metric, control, arm))
        return of_control, of_arm

    def compared(self, plan: Plan, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
        """The rounds' pairs of an arm and its control, where there are enough of them.

        A control without the phase spends nothing on it; one that never succeeded says nothing.
        """
        if arm.baseline is None or SliceKey(plan.study.metrics[metric].workload, arm.baseline) not in self._succeeded:
            return None
        control, values = self.pairs(metric, arm.baseline, arm.name)
        return (control, values) if len(values) >= ROUNDS_FOR_INTERVAL else None


def in_common(found: Sequence[ByRound]) -> list[ByRound]:
    common = sorted(set.intersection(*map(set, found)))
    return [{number: each[number] for number in common} for each in found]


@dataclass(frozen=True)
class ServersSide:
    """What the servers gave of a slice: their own figures (`Service.judge`), and CPU seconds by role."""

    figures: dict[str, float]
    cpu_seconds: dict[str, float]


def add_samples(
    plan: Plan, samples: Samples, number: int, turn: SliceKey, answer: SliceAnswer, servers: ServersSide
) -> None:
    swapped = turn.stands_for is not None
    if answer.operations:
        samples.succeeded(SliceKey(turn.workload, turn.role))
    for name, metric in plan.study.metrics.items():
        if metric.workload != turn.workload:
            continue
        if metric.command_figure:
            samples.reported(name)
        if metric.is_of_whole_slice:
            figure = of_slice(metric, answer, servers)
            if figure is not None:
                samples.add(name, turn.role, number, figure, swapped)
        elif (phase := answer.phases.get(metric.phase)) is not None:
            workers = plan.workers(turn.workload, plan.arm(turn.arm)) if metric.all_workers else 1
            samples.add(name, turn.role, number, in_unit(metric, phase.sum_ns / phase.count, workers), swapped)


def of_slice(metric: Metric, answer: SliceAnswer, servers: ServersSide) -> float | None:
    """Return a figure of the slice as a whole, such as operations over elapsed time; None where the slice lacks it."""
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
            phase = answer.phases.get(name)
            if phase is None or phase.bytes_sent is None or phase.bytes_received is None:
                return None
            return (phase.bytes_sent + phase.bytes_received) / phase.count
        case "slice":
            per_second = metric.unit == "per_second"
            return answer.operations / seconds if per_second else answer.elapsed_ns / NS_PER_UNIT[metric.unit]
    counted = answer.count(metric.phase)
    return None if counted is None else counted / seconds


def in_unit(metric: Metric, nanoseconds: float, workers: int) -> float:
    """Convert a mean time to the metric's unit; a rate is what one worker, or all, get done at that time each."""
    if metric.unit == "per_second":
        return 1e9 / nanoseconds * (workers if metric.all_workers else 1)
    return nanoseconds / NS_PER_UNIT[metric.unit]
