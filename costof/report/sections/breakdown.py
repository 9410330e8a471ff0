"""Breakdown: how much CPU time a gateway, and then each protection, adds in each process that serves an operation.

A step is the change from one arm to another. The first step is from the arm without the gateway to the control, whose
gateway does not encrypt. Each other step is from the control to a protected arm. A step has one part for each process:
the CPU time that the step adds in this process. The share of a part is its added CPU time divided by the sum over all
parts, with Fieller's interval. Added CPU time matters because it lowers the throughput if all cores are busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import neg

from pydantic import Field

from costof import format as fmt
from costof.format import Text
from costof.model import Finite, Model
from costof.report.blocks import FILES, Block, Details, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Context, Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS, ROUNDS_FOR_INTERVAL, differences, estimate, ratio, share_of_whole
from costof.study.arms import PlannedArm

HEAD = ["part", "before the step", "added by the step", "share of the added"]
METHOD = (
    "The table compares the service before and after each of two steps: the gateway is added, and then columns are "
    "encrypted. For each program, it has the CPU time of an operation before the step, and the CPU "
    "time that the step adds, both as means over rounds. A program's share is its added CPU time divided by the added "
    "CPU time of all programs, with its 95 % interval (Fieller). A program that needs less CPU time after the step "
    "has a negative share, so the shares of the others can exceed 100 %. Added CPU time lowers the throughput if all "
    "cores are busy."
)
TOTAL = "total"


class Spec(Model):
    """The table `[sections.breakdown]` of a study: a metric to explain, and the costs that explain it.

    For example, the CPU time that an operation needs in each process explains why the throughput is lower.
    """

    metric: str = Field(description="The metric whose loss is explained.")
    without: str = Field(description="Level of the main factor that measures without the gateway.")
    presence: str = Field(
        description="Label of the step from that level to the control, such as 'the gateway's presence'."
    )
    what: str = Field(description="Label of the sum of the parts, such as 'CPU time for each transaction'.")
    parts: dict[str, str] = Field(description="Metrics that add up, such as CPU time by role, with their labels.")
    beside: dict[str, str] = Field(
        default={}, description="Metrics that are shown below the parts, but are not parts of the sum."
    )


class Added(Model):
    """One part of an operation's cost, such as the server's CPU time, and how much a step between arms adds to it."""

    metric: str
    label: str
    unit: str
    before: Finite = Field(description="Mean over the rounds of the arm before the step.")
    added: Estimate
    share: Estimate | None = Field(
        description="The added amount divided by that of all parts; 1 is all of it. None if the sum of all parts is "
        "unresolved, or if the metric is not a part."
    )


class Step(Model):
    """The cost that one step, from arm `start` to arm `end`, adds to an operation, in total and by part."""

    start: str = Field(description="The arm before the step.")
    end: str = Field(description="The arm after the step.")
    label: str
    what: str = Field(description="Label of the sum of the parts.")
    context: str
    metric: str
    ratio: Estimate = Field(description="The metric after the step divided by the metric before it.")
    total: Estimate = Field(description="Added amount of all parts together, in the unit of the parts.")
    parts: list[Added]
    beside: list[Added] = Field(description="Metrics shown with the parts; not in the total.")


class BreakdownSection(Section[Spec, list[Step]]):
    name, title, order = "breakdown", "Where the loss comes from", 50
    spec, data = Spec, list[Step]

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric, *spec.parts, *spec.beside]

    def compute(self, run: Run, core: Core, spec: Spec) -> list[Step] | None:
        steps = []
        for control in run.plan.controls:
            arms = [arm for arm in run.plan.protected if arm.control_arm == control.name]
            without = [arm for arm in arms if arm.levels[run.plan.study.main_factor] == spec.without]
            steps += [_step(run, spec, arm, control) for arm in without]
            steps += [_step(run, spec, control, arm) for arm in arms if arm not in without]
        return [step for step in steps if step is not None] or None

    def lead(self, index: Index, data: list[Step]) -> Lead:
        """Exclude the arm without the gateway from the top of the report, because it is not a protection."""
        return Lead(without=frozenset({step.start for step in data} - _controls(index)))

    def answer(self, index: Index, data: list[Step]) -> list[Sentence]:
        """Return sentences about the cost of the gateway itself and about the protection that adds most CPU time."""
        first = [step for step in data if step.context == data[0].context]
        presence = [step for step in first if step.end in _controls(index)]
        largest = max((s for s in first if s not in presence), key=lambda step: step.total.value, default=None)
        steps = [*presence, *([largest] if largest else [])]
        texts = [_sentence(index, step) for step in steps]
        return [*sentences("answer", texts), *sentences("why", texts[-1:])]

    def blocks(self, index: Index, data: list[Step]) -> Iterator[Block]:
        nearest = [step for step in data if step.context == index.nearest.name]
        for step in nearest:
            yield Paragraph(_sentence(index, step), media=FILES)
        for context in index.contexts:
            if steps := [step for step in data if step.context == context.name]:
                table = _table(index, context, steps)
                yield table if context is index.nearest else Details(table.title, [table], media=FILES)
        yield Paragraph(METHOD, "note", media=FILES)


def _controls(index: Index) -> set[str]:
    return {arm.name for arm in index.core.arms if arm.control}


def _step(run: Run, spec: Spec, start: PlannedArm, end: PlannedArm) -> Step | None:
    arms = (start.name, end.name)
    loss = run.common_values(*((spec.metric, arm) for arm in arms), fewest=ROUNDS_FOR_INTERVAL)
    numbers = run.common_values(*((name, arm) for name in spec.parts for arm in arms), fewest=FEWEST_ROUNDS)
    changed = ratio(loss[0], loss[1]) if loss else None
    if numbers is None or changed is None:
        return None
    pairs = dict(zip(spec.parts, zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    total = [sum(parts) for parts in zip(*(differences(*pair) for pair in pairs.values()), strict=True)]
    beside = {
        name: run.common_values(*((name, arm) for arm in arms), fewest=ROUNDS_FOR_INTERVAL) for name in spec.beside
    }
    return Step(
        start=start.name,
        end=end.name,
        label=spec.presence if end.control else end.label,
        what=spec.what,
        context=end.context,
        metric=spec.metric,
        ratio=changed,
        total=estimate(total),
        parts=[_part(run, name, spec.parts[name], *pair, total) for name, pair in pairs.items()],
        beside=[_part(run, name, spec.beside[name], *pair) for name, pair in beside.items() if pair],
    )


def _part(
    run: Run, name: str, words: str, before: Sequence[float], after: Sequence[float], total: Sequence[float] = ()
) -> Added:
    added = differences(before, after)
    whole = estimate(total) if total else None
    # A share of the total has a meaning only if the interval of the total excludes 0.
    resolved = whole is not None and (whole.low > 0 or whole.high < 0)
    return Added(
        metric=name,
        label=words,
        unit=run.plan.study.metrics[name].unit,
        before=sum(before) / len(before),
        added=estimate(added),
        share=share_of_whole(added, total) if resolved else None,
    )


def _sentence(index: Index, step: Step) -> str:
    """Return the sentences about a step: its effect on the metric, and the CPU time that it adds in each program."""
    metric = index.metrics[step.metric]
    if 1 - metric.margin <= step.ratio.low and step.ratio.high <= 1 + metric.margin:
        change = f"makes no difference above {fmt.share(metric.margin)} to '{metric.label}'"
    elif step.ratio.low <= 1 <= step.ratio.high:
        change = f"has an unresolved effect on '{metric.label}' ({fmt.relative(step.ratio)})"
    elif metric.better == "higher" and step.ratio.value < 1:
        change = f"lowers '{metric.label}' by {fmt.loss(step.ratio)}"
    else:
        change = f"changes '{metric.label}' by {fmt.relative(step.ratio)}"
    start, total, unit = f"{fmt.capital(step.label)} {change}.", step.total, step.parts[0].unit
    if total.low <= 0 <= total.high:
        amount = fmt.absolute(total, unit, signed=True)
        return f"{start} The effect of {step.label} on {step.what} is unresolved: {amount}."
    # Show amounts and not shares, because a share can exceed 100 % or be negative.
    resolved = [part for part in step.parts if part.added.low > 0 or part.added.high < 0]
    amounts = [f"{part.label} {fmt.absolute(part.added, unit, signed=True)}" for part in resolved]
    unresolved = [part.label for part in step.parts if part not in resolved]
    texts = [fmt.listed(amounts)] if amounts else []
    if unresolved:
        changes = "the change in {} is unresolved" if len(unresolved) == 1 else "the changes in {} are unresolved"
        texts.append(changes.format(fmt.listed(unresolved)))
    verb, size = ("adds", total) if total.value > 0 else ("saves", total.through(neg))
    what = f"{verb} {fmt.absolute(size, unit)} of {step.what}"
    return f"{start} {fmt.capital(step.label)} {what}: {'; '.join(texts)}."


def _table(index: Index, context: Context, steps: list[Step]) -> Table:
    rows: list[list[str | Text]] = []
    for step in steps:
        total: list[str | Text] = [TOTAL, "", fmt.absolute(step.total, step.parts[0].unit, signed=True), ""]
        name = f"{step.label}: {fmt.relative(step.ratio)}"
        rows += [[name, *cells] for cells in [*map(_row, step.parts), total, *map(_row, step.beside)]]
    title = f"{fmt.capital(steps[0].what)}: what each step adds{context.suffix}"
    first = f"step: its effect on '{index.metric_label(steps[0].metric)}'"
    return Table.of([first, *HEAD], rows, title=title, texts=(0, 1))


def _row(part: Added) -> list[str | Text]:
    before = fmt.with_unit(fmt.number(part.before, fmt.significant_decimals(part.before)), part.unit)
    share = fmt.percentage(part.share) if part.share else ""
    return [part.label, before, fmt.absolute(part.added, part.unit, signed=True), share]


SECTION = BreakdownSection()
