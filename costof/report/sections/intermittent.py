"""Costs that come and go: an arm some of whose slices, or operations within them, stand far apart, more often than the
control's do.

Its mean is its cost to whoever uses it long; its usual round says nothing of what the others are, so the answer names
both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.results.samples import in_common
from costof.statistics.intermittent import intermittent
from costof.statistics.slow_operations import Slices, slow_operations
from costof.study.arms import PlannedArm

HEAD = ["metric", "arm", "slices apart", "times the others", "the control's slices apart"]
SLOW_TITLE = "Slow operations"
SLOW_HEAD = ["metric", "arm", "slow operations", "the control's"]
METHOD = (
    "A slice stands apart where its median operation is more than two robust standard deviations, and a tenth, beyond "
    "the other two of its round, of arm, control and its copy. Whether those of the arm stand apart more and farther is "
    "asked by drawing in each round which of the three is the arm (a randomization test). "
    "An operation is slow where it takes longer than its slice's median by half of it, or of the control's if that is "
    "more. Shares are compared with those of control and its copy by {unit} (t-test)."
)
#: Questions that are asked of each metric and arm: of its slices, and of its operations.
QUESTIONS = 2


class IntermittentCost(Model):
    metric: str
    arm: str
    slices: int = Field(description="Slices of the arm that stand far apart from its others.")
    of: int
    times: Finite = Field(description="How many times the others they took, or were slower by.")
    usual: int = Field(description="Slices of control and its copy that stand apart as far.")
    usual_of: int


class Slow(Model):
    """Shares of operations that take far longer than the others of their slice."""

    metric: str
    arm: str
    share: Finite
    usual: Finite = Field(description="Of control and its copy.")


class Intermittent(Model):
    found: list[IntermittentCost]
    slow: list[Slow]

    @property
    def arms(self) -> set[str]:
        return {each.arm for each in self.found} | {each.arm for each in self.slow}


class IntermittentSection(Section[None, Intermittent]):
    name, title, order = "intermittent", "What comes and goes", 16
    data = Intermittent

    def compute(self, run: Run, core: Core, spec: None) -> Intermittent | None:
        metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
        asked = QUESTIONS * len(metrics) * len(run.plan.protected)
        slices = {name: _slices(run, name) for name in metrics}
        found = [each for name, of in slices.items() for each in _of_slices(run, name, of, asked)]
        slow = [each for name, of in slices.items() for each in _of_operations(run, name, of, asked)]
        return Intermittent(found=found, slow=slow) if found or slow else None

    def answer(self, index: Index, data: Intermittent) -> list[Sentence]:
        told = [_sentence(index, each) for each in data.found] + [_slow_sentence(index, each) for each in data.slow]
        return sentences("warning", told)

    def blocks(self, index: Index, data: Intermittent) -> Iterator[Block]:
        rows = [
            [
                index.metric_label(each.metric),
                each.arm,
                f"{each.slices} of {each.of}",
                f"{fmt.number(each.times, 1)}{fmt.TIMES}",
                f"{each.usual} of {each.usual_of}",
            ]
            for each in data.found
        ]
        slow = [
            [index.metric_label(each.metric), each.arm, fmt.percent(each.share), fmt.percent(each.usual)]
            for each in data.slow
        ]
        if rows:
            yield Table.of(HEAD, rows, title=self.title, texts=(0, 1))
        if slow:
            yield Table.of(SLOW_HEAD, slow, title=SLOW_TITLE, texts=(0, 1))
        yield Paragraph(METHOD.format(unit=index.unit), "note", media=FILES)


def _of_slices(run: Run, name: str, slices: Mapping[str, Slices], comparisons: int) -> Iterator[IntermittentCost]:
    for arm, control, replicate in _threes(run):
        logs = _logs(run, name, slices, [arm, control, replicate])
        if logs is None:
            continue
        of_arm, of_control, replicate_values = logs
        apart = intermittent(of_arm, of_control, replicate_values, comparisons, run.plan.seed)
        if apart is not None:
            yield IntermittentCost(metric=name, arm=arm.name, **asdict(apart))


def _threes(run: Run) -> Iterator[tuple[PlannedArm, PlannedArm, PlannedArm]]:
    for control in run.plan.controls:
        replicate = run.plan.replicate(control)
        for arm in run.plan.protected:
            if arm.baseline == control.name:
                yield arm, control, replicate


def _logs(run: Run, name: str, slices: Mapping[str, Slices], arms: Sequence[PlannedArm]) -> list[list[float]] | None:
    """Logarithms of each arm by round, in the rounds that all of them have, higher for a cost: of the median operation
    of its slice, which stalls of the machine hardly move, or of the figure that slices have as wholes. None of 0."""
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


def _of_operations(run: Run, name: str, slices: Mapping[str, Slices], comparisons: int) -> Iterator[Slow]:
    if not slices:
        return
    for arm, control, replicate in _threes(run):
        of_arm, of_control, replicate_values = (slices[each.name] for each in (arm, control, replicate))
        slow = slow_operations(of_arm, of_control, replicate_values, comparisons, run.samples.units)
        if slow is not None:
            yield Slow(metric=name, arm=arm.name, **asdict(slow))


def _slices(run: Run, name: str) -> dict[str, Slices]:
    """Return the slices of all arms; none of a figure that slices have as wholes."""
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
        f"The cost of {index.label_at(each.arm)} comes and goes: '{metric.label}' {worse} of the others in "
        f"{each.slices} of {each.of} slices (control and its copy: in {each.usual} of {each.usual_of})."
    )
    if effect is None:
        return text
    mean, usual = (
        fmt.absolute(each, effect.unit, signed=True) for each in (effect.difference, effect.typical_difference)
    )
    return f"{text} On average the difference is {mean}, in a usual round {usual}."


def _slow_sentence(index: Index, each: Slow) -> str:
    metric, effect = index.metrics[each.metric], index.effect(each.metric, each.arm)
    text = (
        f"Some operations pay far more for {index.label_at(each.arm)} than others: {fmt.percent(each.share)} of "
        f"'{metric.label}' take longer than usual by half or more (control and its copy: {fmt.percent(each.usual)})."
    )
    if effect is None:
        return text
    return f"{text} On average the difference is {fmt.absolute(effect.difference, effect.unit, signed=True)}."


SECTION = IntermittentSection()
