"""Costs that come and go: an arm some of whose slices, or operations within them, stand far apart, more often than the
control's do.

Its mean is its cost to whoever uses it long; its usual round says nothing of what the others are, so the answer names
both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from pydantic import Field

from costof.analysis.index import Index
from costof.analysis.models import Core, Effect, Sentence
from costof.analysis.run import Run
from costof.analysis.section import Section, sentences
from costof.document import format as fmt
from costof.document.blocks import FILES, Block, Paragraph, Table
from costof.model import Finite, Model
from costof.statistics.intermittent import intermittent
from costof.statistics.slow_operations import Slices, slow_operations
from costof.study.arms import PlannedArm

HEAD = ["metric", "arm", "slices apart", "times the others", "the control's slices apart"]
SLOW_TITLE = "What few operations pay"
SLOW_HEAD = ["metric", "arm", "slow operations", "the control's"]
METHOD = (
    "A slice stands apart where it is more than five robust standard deviations above the arm's others, and by a tenth "
    "at least. Whether the arm has more of them than the control and its twin is asked by Fisher's exact test. "
    "An operation is slow where it takes longer than its slice's median by half of it, or of the control's if that is "
    "more. Shares are compared with those of control and twin by {unit} (t-test)."
)
#: Questions that are asked of each metric and arm: of its slices, and of its operations.
QUESTIONS = 2


class ComesAndGoes(Model):
    metric: str
    arm: str
    slices: int = Field(description="Slices of the arm that stand far apart from its others.")
    of: int
    times: Finite = Field(description="How many times the others they took, or were slower by.")
    usual: int = Field(description="Slices of control and twin that stand apart as far.")
    usual_of: int


class Slow(Model):
    """Shares of operations that take far longer than the others of their slice."""

    metric: str
    arm: str
    share: Finite
    usual: Finite = Field(description="Of control and twin.")


class Intermittent(Model):
    found: list[ComesAndGoes]
    slow: list[Slow]

    @property
    def arms(self) -> set[str]:
        """Of which anything is found."""
        return {each.arm for each in self.found} | {each.arm for each in self.slow}


class IntermittentSection(Section[None, Intermittent]):
    name, title, order = "intermittent", "What comes and goes", 16
    data = Intermittent

    def compute(self, run: Run, core: Core, spec: None) -> Intermittent | None:
        metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
        asked = QUESTIONS * len(metrics) * len(run.plan.protected)
        found = [each for name in metrics for each in _of_slices(run, name, asked)]
        slow = [each for name in metrics for each in _of_operations(run, name, asked)]
        return Intermittent(found=found, slow=slow) if found or slow else None

    def answer(self, index: Index, data: Intermittent) -> list[Sentence]:
        told = [_sentence(index, each) for each in data.found] + [_slow_sentence(index, each) for each in data.slow]
        return sentences("caution", told)

    def blocks(self, index: Index, data: Intermittent) -> Iterator[Block]:
        if data.found:
            yield Table.of(HEAD, [_row(index, each) for each in data.found], title=self.title, texts=(0, 1))
        if data.slow:
            yield Table.of(SLOW_HEAD, [_slow_row(index, each) for each in data.slow], title=SLOW_TITLE, texts=(0, 1))
        yield Paragraph(METHOD.format(unit=index.unit), "note", media=FILES)


def _of_slices(run: Run, name: str, comparisons: int) -> Iterator[ComesAndGoes]:
    sign = 1 if run.plan.study.metrics[name].better == "lower" else -1
    logs = {
        change.arm.name: [sign * each for each in found.values()]
        for change in run.changes[name]
        if (found := run.log_ratios_by_round(name, change.arm))
    }
    twins = {control.name: logs.get(run.plan.twin_of(control).name) for control in run.plan.controls}
    for arm in run.plan.protected:
        twin = twins.get(arm.baseline or "")
        if arm.name not in logs or twin is None:
            continue
        apart = intermittent(logs[arm.name], twin, comparisons)
        if apart is not None:
            yield ComesAndGoes(metric=name, arm=arm.name, **asdict(apart))


def _of_operations(run: Run, name: str, comparisons: int) -> Iterator[Slow]:
    if run.plan.study.metrics[name].of_slice:
        return
    for control in run.plan.controls:
        of_control, of_twin = _slices(run, name, control), _slices(run, name, run.plan.twin_of(control))
        for arm in (each for each in run.plan.protected if each.baseline == control.name):
            slow = slow_operations(_slices(run, name, arm), of_control, of_twin, comparisons, run.samples.units)
            if slow is not None:
                yield Slow(metric=name, arm=arm.name, **asdict(slow))


def _slices(run: Run, metric: str, arm: PlannedArm) -> Slices:
    return Slices.of(run.histograms(metric, arm.name))


def _row(index: Index, each: ComesAndGoes) -> list[str]:
    return [
        index.metric_label(each.metric),
        each.arm,
        f"{each.slices} of {each.of}",
        f"{fmt.number(each.times, 1)}{fmt.TIMES}",
        f"{each.usual} of {each.usual_of}",
    ]


def _slow_row(index: Index, each: Slow) -> list[str]:
    return [index.metric_label(each.metric), each.arm, fmt.percent(each.share), fmt.percent(each.usual)]


def _sentence(index: Index, each: ComesAndGoes) -> str:
    metric, effect = index.metrics[each.metric], index.effect(each.metric, each.arm)
    times = fmt.number(each.times, 1)
    worse = (
        f"was {times}{fmt.TIMES} that" if metric.better == "lower" else f"was lower by a factor of {times} than that"
    )
    text = (
        f"The cost of {index.label_at(each.arm)} comes and goes: '{metric.label}' {worse} of the others in "
        f"{each.slices} of {each.of} slices (control and twin: in {each.usual} of {each.usual_of})."
    )
    return f"{text} {_both(effect)}" if effect else text


def _slow_sentence(index: Index, each: Slow) -> str:
    metric, effect = index.metrics[each.metric], index.effect(each.metric, each.arm)
    text = (
        f"Few operations pay for {index.label_at(each.arm)}: {fmt.percent(each.share)} of '{metric.label}' take longer "
        f"than usual by half or more (control and twin: {fmt.percent(each.usual)})."
    )
    if effect is None:
        return text
    return f"{text} On average the difference is {fmt.absolute(effect.difference, effect.unit, signed=True)}."


def _both(effect: Effect) -> str:
    mean, usual = (fmt.absolute(each, effect.unit, signed=True) for each in (effect.difference, effect.usual))
    return f"On average the difference is {mean}, in a usual round {usual}."


SECTION = IntermittentSection()
