"""Samples: one number for each metric, arm and round, from the instruments' answers."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from costof.statistics.capacity import Observation
from costof.statistics.intervals import ROUNDS_FOR_INTERVAL
from costof.statistics.units import Units
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from costof.study.schema import Metric

if TYPE_CHECKING:
    # The ledger imports this module.
    from costof.results.ledger import SliceRecord

NS_PER_UNIT = {"ms": 1e6, "us": 1e3}
ByRound = Mapping[int, float]


class SliceKey(NamedTuple):
    """The workload and the arm of a slice (a measured window).

    In some rounds, the control and its identical copy swap places. `arm` is the arm that was measured. `stands_for` is
    the arm to which the figures belong if that is another arm, otherwise None.
    """

    workload: str
    arm: str
    stands_for: str | None = None

    @property
    def owner(self) -> str:
        """Return the name of the arm to which the slice's figures belong."""
        return self.stands_for or self.arm


@dataclass
class Samples:
    """One number for each metric, arm and round: the mean of a slice, in the metric's unit.

    Estimates use one mean for each round or, if the run restarted its servers, for each start of the servers.
    """

    units: Units = field(default_factory=Units)
    _values: dict[tuple[str, str], dict[int, float]] = field(default_factory=dict)
    _swapped: dict[tuple[str, str], set[int]] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)
    _succeeded: set[SliceKey] = field(default_factory=set)
    observations: dict[str, list[Observation]] = field(default_factory=dict)
    """In a sweep (a run over a range of rates), the slices of each arm (`results/capacity.py`)."""

    def observe(self, metric: str, key: SliceKey, observed: Observation) -> None:
        """Add one slice of a sweep. `metric`, the capacity, is computed after all slices have been added."""
        self.observations.setdefault(key.owner, []).append(observed)
        if key.stands_for is not None:
            self._swapped.setdefault((metric, key.owner), set()).add(observed.round)

    def add(self, metric: str, arm: str, round_number: int, value: float, swapped: bool = False) -> None:
        """Add a metric's number in one round. `swapped` says that control and identical copy had swapped places."""
        self._values.setdefault((metric, arm), {})[round_number] = value
        if swapped:
            self._swapped.setdefault((metric, arm), set()).add(round_number)

    def drop(self, metric: str, arm: str) -> None:
        """Remove the arm's numbers of a metric. They then count as missing, not as 0."""
        self._values.pop((metric, arm), None)
        self._reported.add(metric)

    def without(self, rounds: Container[int]) -> Samples:
        values = {
            pair: {number: value for number, value in numbers.items() if number not in rounds}
            for pair, numbers in self._values.items()
        }
        return Samples(self.units, values, self._swapped, self._reported, self._succeeded)

    def mark_reported(self, metric: str) -> None:
        """Mark a metric as reported by commands. A number that a command lacks counts as missing, not as 0."""
        self._reported.add(metric)

    def mark_succeeded(self, key: SliceKey) -> None:
        self._succeeded.add(key)

    def by_round(self, metric: str, arm: str) -> ByRound:
        return self._values.get((metric, arm), {})

    def means(self, metric: str, arm: str) -> list[float]:
        return self.units.means(self.by_round(metric, arm))

    def common_values(self, *pairs: tuple[str, str]) -> list[list[float]]:
        numbers = [self.by_round(*pair) for pair in pairs]
        return [self.units.means(each) for each in in_common(numbers)]

    def paired_rounds(self, metric: str, control: str, arm: str) -> list[ByRound]:
        """Return the control's numbers and the arm's numbers, by round, for the rounds in which both have a number.

        If the control does not have the metric's phase, its numbers are 0. For example, plaintext has no TLS handshake.

        If `arm` is the control's identical copy, the two were swapped in some rounds (`SliceKey.stands_for`). The
        result assigns the numbers to the arms that were really measured.
        """
        arm_numbers, control_numbers = self.by_round(metric, arm), self.by_round(metric, control)
        if not control_numbers and metric not in self._reported:
            control_numbers = dict.fromkeys(arm_numbers, 0.0)
        common = in_common([control_numbers, arm_numbers])
        swapped = self._swapped.get((metric, arm), set())
        return [{n: (one if n not in swapped else other)[n] for n in one} for one, other in (common, common[::-1])]

    def unit_numbers(self, metric: str, control: str, arm: str) -> list[int]:
        """Return the numbers (from 1) of the rounds, or of the server starts, for which `pairs` returns values."""
        return self.units.numbers(self.paired_rounds(metric, control, arm)[0])

    def pairs(self, metric: str, control: str, arm: str) -> tuple[list[float], list[float]]:
        """Return the numbers of the control and of the arm for each round in which both have a number.

        If the run restarted its servers, return the means over these rounds for each start of the servers instead.
        """
        control_numbers, arm_numbers = map(self.units.means, self.paired_rounds(metric, control, arm))
        return control_numbers, arm_numbers

    def comparable_pairs(self, plan: Plan, metric: str, arm: PlannedArm) -> tuple[list[float], list[float]] | None:
        """Return the paired means of control and arm.

        Return None if there are too few pairs, or if no operation of the workload succeeded on the control.
        """
        if (
            arm.control_arm is None
            or SliceKey(plan.study.metrics[metric].workload, arm.control_arm) not in self._succeeded
        ):
            return None
        control, values = self.pairs(metric, arm.control_arm, arm.name)
        return (control, values) if len(values) >= ROUNDS_FOR_INTERVAL else None


def in_common(numbers: Sequence[ByRound]) -> list[ByRound]:
    """Return the mappings without the rounds that any of them lacks."""
    common = sorted(set.intersection(*map(set, numbers)))
    return [{number: each[number] for number in common} for each in numbers]


def add_samples(plan: Plan, samples: Samples, record: SliceRecord) -> None:
    """Add the slice's number of each metric to `samples`. A metric that the slice lacks gets no number."""
    number, key, answer = record.round, record.key, record.answer
    swapped = key.stands_for is not None
    if answer.operations:
        samples.mark_succeeded(SliceKey(key.workload, key.owner))
    for name, metric in plan.study.metrics.items():
        if metric.workload != key.workload:
            continue
        if metric.command_figure:
            samples.mark_reported(name)
        if metric.is_of_whole_slice:
            figure = slice_figure(metric, record)
            if figure is not None:
                samples.add(name, key.owner, number, figure, swapped)
        elif (phase := answer.phases.get(metric.phase)) is not None:
            workers = plan.workers(key.workload, plan.arm(key.arm)) if metric.all_workers else 1
            samples.add(name, key.owner, number, in_unit(metric, phase.sum_ns / phase.count, workers), swapped)


def slice_figure(metric: Metric, record: SliceRecord) -> float | None:
    """Return the figure of a metric that has one figure per slice, such as operations per second; None if missing."""
    kind, _, name = metric.phase.partition(".")
    if kind == "server":
        return record.server_figures.get(name)
    answer, servers_cpu = record.answer, record.server_cpu_seconds
    if not answer.operations:
        return None
    seconds = answer.elapsed_ns / 1e9
    match kind:
        case "figure":
            return answer.figures.get(name)
        case "cpu":
            nanoseconds = servers_cpu[name] * 1e9 if name in servers_cpu else answer.cpu_ns.get(name)
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
    """Return a mean time in the metric's unit.

    If the unit is a rate, return the rate of one worker, or of all workers if the metric counts all workers together.
    """
    if metric.unit == "per_second":
        return 1e9 / nanoseconds * (workers if metric.all_workers else 1)
    return nanoseconds / NS_PER_UNIT[metric.unit]
