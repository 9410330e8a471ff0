"""Intermittent costs: arms that have more outlying slices or more slow operations than their control.

The mean cost of such an arm is right over a long time, but its cost in most rounds is different. The answer therefore
has both the mean and the difference in a typical round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from operator import neg

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.metrics import in_common
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.intermittent import intermittent
from costof.statistics.slow_operations import Slices, slow_operations
from costof.study.arms import PlannedArm

HEAD = ["metric", "variant", "outlying slices", "compared with other slices", "control: outlying slices"]
SLOW_TITLE = "Slow operations"
SLOW_HEAD = ["metric", "variant", "slow operations", "control: slow operations"]
METHOD = (
    "Each slice (measured window) is compared with the median slice of its variant. A slice is outlying if, relative "
    "to this median, it is worse than the round's slices of the control and its identical copy are relative to theirs, "
    "by more than 10 % and by more than two robust standard deviations. A randomization test decides whether the "
    "variant has more outlying slices than the control and its identical copy."
)
SLOW_METHOD = (
    "An operation is slow if it takes more than 1.5 times the median of its slice (measured window), and exceeds this "
    "median by more than half of the control's median. A t-test over {unit}s compares the variant's share of slow "
    "operations with the share of the control and its identical copy."
)
#: Number of statistical tests for each metric and arm: one for outlying slices, one for slow operations.
TESTS = 2


class IntermittentCost(Model):
    """An arm with more outliers among its slices (measured windows) than the control and its identical copy."""

    metric: str
    arm: str
    slices: int = Field(description="Outlying slices of the arm.")
    of: int = Field(description="All slices of the arm.")
    times: Finite = Field(
        description="Figure of the outlying slices divided by that of the other slices; for a rate, the inverse."
    )
    usual: int = Field(description="Outlying slices of the control and its identical copy.")
    usual_of: int


class Slow(Model):
    """An arm with more slow operations than its control.

    A slow operation takes far longer than the median of its slice.
    """

    metric: str
    arm: str
    share: Finite
    usual: Finite = Field(description="The share of the control and its identical copy.")


class Intermittent(Model):
    outlying_slices: list[IntermittentCost]
    slow_operations: list[Slow]

    @property
    def arms(self) -> set[str]:
        return {each.arm for each in self.outlying_slices} | {each.arm for each in self.slow_operations}


class IntermittentSection(Section[None, Intermittent]):
    name, title, order = "intermittent", "Intermittent costs", 16
    data = Intermittent

    def compute(self, run: Run, core: Core, spec: None) -> Intermittent | None:
        metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
        tests = TESTS * len(metrics) * len(run.plan.protected)
        slices = {name: _slices(run, name) for name in metrics}
        outlying = [each for name, by_arm in slices.items() for each in _outlying_slices(run, name, by_arm, tests)]
        slow = [each for name, by_arm in slices.items() for each in _slow_operations(run, name, by_arm, tests)]
        return Intermittent(outlying_slices=outlying, slow_operations=slow) if outlying or slow else None

    def answer(self, index: Index, data: Intermittent) -> list[Sentence]:
        outlying = sorted(data.outlying_slices, key=lambda each: each.times * each.slices / each.of, reverse=True)
        slow = sorted(data.slow_operations, key=lambda each: each.share - each.usual, reverse=True)
        texts = [_sentence(index, each) for each in outlying]
        texts += [_slow_sentence(index, each) for each in slow]
        return sentences("warning", texts)

    def blocks(self, index: Index, data: Intermittent) -> Iterator[Block]:
        rows = [
            [
                index.metric_label(each.metric),
                each.arm,
                f"{each.slices} of {each.of}",
                f"{fmt.number(each.times, 1)}{fmt.TIMES}",
                f"{each.usual} of {each.usual_of}",
            ]
            for each in data.outlying_slices
        ]
        slow = [
            [index.metric_label(each.metric), each.arm, fmt.percent(each.share), fmt.percent(each.usual)]
            for each in data.slow_operations
        ]
        if rows:
            yield Table.of(HEAD, rows, title=self.title, texts=(0, 1))
            yield Paragraph(METHOD, "note", media=FILES)
        if slow:
            yield Table.of(SLOW_HEAD, slow, title=SLOW_TITLE, texts=(0, 1))
            yield Paragraph(SLOW_METHOD.format(unit=index.unit), "note", media=FILES)


def _outlying_slices(run: Run, name: str, slices: Mapping[str, Slices], comparisons: int) -> Iterator[IntermittentCost]:
    for arm, control, replicate in _threes(run):
        logs = _logs(run, name, slices, [arm, control, replicate])
        if logs is None:
            continue
        protected, usual, replicated = logs
        cost = intermittent(protected, usual, replicated, comparisons, run.plan.seed)
        if cost is not None:
            yield IntermittentCost(metric=name, arm=arm.name, **asdict(cost))


def _threes(run: Run) -> Iterator[tuple[PlannedArm, PlannedArm, PlannedArm]]:
    for control in run.plan.controls:
        replicate = run.plan.replicate(control)
        for arm in run.plan.protected:
            if arm.control_arm == control.name:
                yield arm, control, replicate


def _logs(run: Run, name: str, slices: Mapping[str, Slices], arms: Sequence[PlannedArm]) -> list[list[float]] | None:
    """Return, by arm, the logarithm of each slice's figure, for the rounds in which all arms have a figure.

    The figure of a slice is the median time of its operations, because a stall of the machine hardly changes it. If the
    metric has only one figure for each slice, such as a rate, this figure is used. Logarithms of rates are negated, so
    that a higher number always means a higher cost. Return None if a figure is 0.
    """
    metric = run.plan.study.metrics[name]
    if metric.is_of_whole_slice:
        sign = 1 if metric.better == "lower" else -1
        by_round = [run.samples.by_round(name, arm.name) for arm in arms]
    else:
        sign = 1
        by_round = [slices[arm.name].median_by_round for arm in arms]
    numbers = [list(each.values()) for each in in_common(by_round)]
    if any(number <= 0 for each in numbers for number in each):
        return None
    return [[sign * math.log(number) for number in each] for each in numbers]


def _slow_operations(run: Run, name: str, slices: Mapping[str, Slices], comparisons: int) -> Iterator[Slow]:
    if not slices:
        return
    for arm, control, replicate in _threes(run):
        slow = slow_operations(
            slices[arm.name], slices[control.name], slices[replicate.name], comparisons, run.samples.units
        )
        if slow is not None:
            yield Slow(metric=name, arm=arm.name, **asdict(slow))


def _slices(run: Run, name: str) -> dict[str, Slices]:
    """Return the latency distributions of each arm's slices; {} if the metric has only one figure for each slice."""
    if run.plan.study.metrics[name].is_of_whole_slice:
        return {}
    return {arm.name: Slices.decode(run.histograms(name, arm.name)) for arm in run.plan.arms}


def _sentence(index: Index, each: IntermittentCost) -> str:
    metric, effect = index.metrics[each.metric], index.effect(each.metric, each.arm)
    times = fmt.number(each.times, 1)
    worse = (
        f"was {times}{fmt.TIMES} that" if metric.better == "lower" else f"was lower by a factor of {times} than that"
    )
    text = (
        f"{fmt.capital(index.subject(each.arm))} has an intermittent cost: in {each.slices} of {each.of} slices "
        f"(measured windows), '{metric.label}' {worse} of the other slices. The control and its identical copy had "
        f"{fmt.plural(each.usual, 'such outlying slice')} of {each.usual_of}."
    )
    if effect is None:
        return text
    mean, usual = (
        fmt.absolute(each, effect.unit, signed=True) for each in (effect.difference, effect.typical_difference)
    )
    return (
        f"{text} The difference of {index.quoted(each.arm)} from the control in '{metric.label}' is {mean} on "
        f"average and {usual} in a typical round."
    )


def _slow_sentence(index: Index, each: Slow) -> str:
    metric, effect, label = index.metrics[each.metric], index.effect(each.metric, each.arm), index.quoted(each.arm)
    text = (
        f"{fmt.capital(index.subject(each.arm))} slows some operations far more than others. In the measurements of "
        f"'{metric.label}', {fmt.percent(each.share)} of the operations of {label} take at least 1.5 times as long as "
        f"the median operation; of those of the control and its identical copy, {fmt.percent(each.usual)} do."
    )
    if effect is None:
        return text
    is_more = effect.difference.value > 0
    size = effect.difference if is_more else effect.difference.through(neg)
    than = "higher than" if is_more else "lower than"
    amount = fmt.absolute(size, effect.unit)
    return f"{text} For {label}, the mean of '{metric.label}' is {amount} {than} for the control."


SECTION = IntermittentSection()
