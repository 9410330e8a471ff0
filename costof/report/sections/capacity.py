"""Capacity: the load that each arm carries within the limit on latency, and latency over load.

Only sweeps (`--load 100/s..3000/s` with a limit such as `--limit 'p99 of a query' 10ms`) have this section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from pydantic import Field

from costof import format as fmt
from costof.messages.answers import SliceAnswer
from costof.model import Finite, Model
from costof.report.blocks import HTML, Block, Figure, Paragraph, Plot, Table
from costof.report.canvas import Legend, Panel, Scale, Sheet, decades, log
from costof.report.key_figures import KeyFigure, of_effect
from costof.report.palette import colour_of
from costof.report.plots import Series
from costof.report.sections import Section, sentences
from costof.results.capacity import keeps_limit, observation
from costof.results.index import Index, Lead
from costof.results.models import Arm, Core, Sentence
from costof.results.run import Run
from costof.statistics.capacity import Observation
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.histogram import merged
from costof.study.arms import PlannedArm
from costof.study.load import Load
from costof.study.several_loads import rate_in_words
from costof.study.sweep import CAPACITY, Sweep, percentile_figures

PERCENTILES = (50.0, 95.0, 99.0)
#: Slices belong to the same point of a curve if their rates differ by less than this factor.
SAME_RATE = 1.05
HEAD = ["", "without", "with", "difference", "relative"]
METHOD = (
    "The warm-up halves the range of loads until each variant's capacity is roughly known. Each round then measures "
    "each variant at three rates within {near} of its capacity, in alternation. The capacity is the rate at which "
    "{fit} all these slices (measured windows). Its interval comes from leaving out one round at a time (jackknife)."
)
FIT = "exactly the allowed share of '{what}' takes longer than the limit, by a Poisson regression over"
FIT_OF_COMMANDS = "the {percentile} that the command reports is the limit, by a line through the logarithms of"
HOW_TO_READ = (
    "Each dot is the {percentile} over all slices at about one rate, those of the warm-up included. Upright lines are "
    "the capacities, with their 95 % intervals as bands; the dashed line is the limit."
)


class Curve(Model):
    """The percentiles of an arm's latency at one rate: a single point of the arm's curve.

    The percentiles are computed from all slices (measured windows) at about this rate, including the warm-up's.
    """

    per_second: Finite
    p50_ms: Finite | None = Field(description="None if a command does not report it.")
    p95_ms: Finite | None
    p99_ms: Finite | None
    limited_ms: Finite = Field(description="The percentile that the limit names.")
    slices: int
    unserved: Finite = Field(description="Share of arrivals that were not served within their slices.")


class ArmCapacity(Model):
    """The latencies of one arm at several rates.

    `found` says whether the run found the highest load that the arm carries within the limit on latency.
    """

    arm: str
    found: bool
    carries_all: bool = Field(description="Whether the arm kept the limit even at the upper end of the range.")
    carries_none: bool = Field(description="Whether the arm exceeded the limit even at the lower end of the range.")
    curve: list[Curve]


class Capacities(Model):
    """The sweep (the range of loads and the limit on latency), and the latencies of each arm.

    The capacities themselves are in the core result, as values of a metric.
    """

    load: Load
    sweep: Sweep
    arms: list[ArmCapacity]


class CapacitySection(Section[None, Capacities]):
    name, title, order = "capacity", "Capacity within the limit", 3
    data = Capacities

    def compute(self, run: Run, core: Core, spec: None) -> Capacities | None:
        sweep, load = run.plan.sweep, run.plan.load
        if sweep is None or load is None:
            return None
        shown = [arm for arm in run.plan.arms if not arm.replicate]
        return Capacities(load=load, sweep=sweep, arms=[_arm(run, sweep, arm) for arm in shown])

    def lead(self, index: Index, data: Capacities) -> Lead:
        return Lead(leads=True, follow=frozenset((CAPACITY, arm.name) for arm in index.answered))

    def answer(self, index: Index, data: Capacities) -> list[Sentence]:
        texts = [text for arm in index.answered if (text := _sentence(index, data, arm))]
        outside = [text for arm in index.answered if (text := _outside(index, data, arm))]
        return [*sentences("answer", texts), *sentences("verdict", [*texts, *outside][:1])]

    def key_figures(self, index: Index, data: Capacities) -> Sequence[KeyFigure]:
        metric = index.metrics.get(CAPACITY)
        effects = [(arm, index.effect(CAPACITY, arm.name)) for arm in index.answered]
        label = f"{data.load.operation[1]} a second within the limit"
        return [
            of_effect(index, metric, effect).model_copy(
                update={"label": f"{label}{arm.at}", "words": f"{label}{arm.at}"}
            )
            for arm, effect in effects
            if effect is not None and metric is not None
        ]

    def brief(self, index: Index, data: Capacities) -> Iterator[Block]:
        context = index.nearest
        if any(_curve(data, each.name) for each in context.shown_arms):
            yield _plot(index, data, context.shown_arms, context.title)

    def blocks(self, index: Index, data: Capacities) -> Iterator[Block]:
        sweep, several = data.sweep, data.load.operation[1]
        least, most = rate_in_words(sweep.least), rate_in_words(sweep.most)
        yield Paragraph(f"{least} to {most} {several} a second; {sweep.limit.in_words}.", label="Sweep.")
        rows = [row for arm in index.answered if (row := _row(index, arm)) is not None]
        if rows:
            yield Table.of(HEAD, rows, title=f"{fmt.capital(several)} a second within the limit")
        near, fit = ("7 %", FIT) if sweep.limit.figure is None else ("12 %", FIT_OF_COMMANDS)
        fit = fit.format(what=sweep.limit.label, percentile=f"p{sweep.limit.percentile:g}")
        yield Paragraph(METHOD.format(near=near, fit=fit), "note")
        for context in index.contexts:
            arms = [each for each in context.shown_arms if _curve(data, each.name)]
            if arms:
                yield _figure(index, data, arms, context.title)
                yield _plot(index, data, arms, context.title)
                yield _table(index, data, arms, context.title)


def _arm(run: Run, sweep: Sweep, arm: PlannedArm) -> ArmCapacity:
    records = [
        each
        for each in run.all_slices(arm.name)
        if each.workload == sweep.workload and each.mismatch is None and each.per_second is not None
    ]
    observed = [
        (record, each)
        for record in records
        if (each := observation(sweep, record.round, record.per_second or 0.0, record.answer)) is not None
    ]
    by_rate: list[list[int]] = []
    for number in sorted(range(len(observed)), key=lambda each: observed[each][1].per_second):
        rate = observed[number][1].per_second
        if by_rate and rate < SAME_RATE * observed[by_rate[-1][0]][1].per_second:
            by_rate[-1].append(number)
        else:
            by_rate.append([number])
    curve = []
    for numbers in by_rate:
        slices = [observed[number] for number in numbers]
        milliseconds = _percentiles(run, sweep, [record.answer for record, _ in slices])
        limited = milliseconds.get(sweep.limit.percentile)
        if limited is None:
            continue
        p50, p95, p99 = map(milliseconds.get, PERCENTILES)
        curve.append(
            Curve(
                per_second=fmean(each.per_second for _, each in slices),
                p50_ms=p50,
                p95_ms=p95,
                p99_ms=p99,
                limited_ms=limited,
                slices=len(slices),
                unserved=_unserved(sweep, [(record.answer.operations, each) for record, each in slices]),
            )
        )
    kept = [keeps_limit(sweep, each) for _, each in observed if each.per_second > sweep.most / SAME_RATE]
    broken = [not keeps_limit(sweep, each) for _, each in observed if each.per_second < sweep.least * SAME_RATE]
    found = bool(run.samples.by_round(CAPACITY, arm.name))
    return ArmCapacity(
        arm=arm.name,
        found=found,
        carries_all=not found and _mostly(kept),
        carries_none=not found and _mostly(broken),
        curve=curve,
    )


def _percentiles(run: Run, sweep: Sweep, answers: Sequence[SliceAnswer]) -> dict[float, float]:
    """Return percentiles of the latency in ms over all operations of these slices.

    A command reports only the percentiles of each slice. For commands, return the means of these percentiles.
    """
    limit = sweep.limit
    if limit.figure is None:
        histograms = [each.phases[limit.phase].histogram for each in answers if limit.phase in each.phases]
        wanted = [*PERCENTILES, limit.percentile]
        values = merged(histograms).at_percentiles(wanted) if histograms else []
        return {percentile: value / 1e6 for percentile, value in zip(wanted, values, strict=False)}
    program = run.plan.study.workloads[sweep.workload].command
    assert program is not None
    reported = percentile_figures(program.all_figures)
    of = next(of for (of, _), name in reported.items() if name == limit.figure)
    names = {percentile: name for (each, percentile), name in reported.items() if each == of}
    known = {key: [each.figures[name] for each in answers if name in each.figures] for key, name in names.items()}
    return {key: fmean(values) * limit.milliseconds_per_unit for key, values in known.items() if values}


def _mostly(answers: Sequence[bool]) -> bool:
    return sum(answers) > len(answers) / 2


def _unserved(sweep: Sweep, slices: Sequence[tuple[int, Observation]]) -> float:
    operations = sum(each.operations for _, each in slices)
    served = sum(count * sweep.operations_per_arrival for count, _ in slices)
    return max(0.0, 1 - served / operations) if operations else 0.0


def _curve(data: Capacities, arm: str) -> list[Curve]:
    found = _of(data, arm)
    return found.curve if found is not None else []


def _of(data: Capacities, arm: str) -> ArmCapacity | None:
    return next((each for each in data.arms if each.arm == arm), None)


def _sentence(index: Index, data: Capacities, arm: Arm) -> str | None:
    """Return the sentence about an arm's capacity and its loss; None if the arm cannot be compared.

    For example: 'With TLS, 1,910 [1,850, 1,970] connections a second keep the p99 of a query within 10 ms, instead of
    2,340 with plain: 18 % [16, 21] fewer.'
    """
    effect = index.effect(CAPACITY, arm.name)
    value = index.value(CAPACITY, arm.name)
    if effect is None or value is None or effect.ratio is None:
        return None
    several, limit = data.load.operation[1], data.sweep.limit.in_words
    carried = fmt.absolute(value.mean, "")
    control = fmt.number(effect.control_value or 0.0, fmt.estimate_decimals(value.mean))
    what = f"With {arm.label}{arm.at}, {carried} {several} a second keep the {limit}, instead of {control}"
    what += f" with {index.control_label}"
    return f"{what}: {_difference(index, effect.verdict, effect.ratio)}."


def _difference(index: Index, verdict: Verdict, ratio: Estimate) -> str:
    match verdict:
        case Verdict.COSTS:
            return f"{fmt.loss(ratio)} fewer"
        case Verdict.SAVES:
            return f"{fmt.gain(ratio)} more"
        case Verdict.UNRESOLVED:
            return f"an unresolved difference of {fmt.relative(ratio)}"
    what = "difference" if verdict is Verdict.NO_DIFFERENCE else "cost"
    return f"no {what} above {fmt.share(index.metrics[CAPACITY].margin)}"


def _outside(index: Index, data: Capacities, arm: Arm) -> str | None:
    """Return why an arm cannot be compared with its control, and advice; None if it can.

    The reason is that the capacity of the arm or of its control is unknown. Either it is outside the sweep's range of
    loads, or the run has too few or too disturbed rounds.
    """
    if index.effect(CAPACITY, arm.name) is not None:
        return None
    texts: list[str] = []
    advice: list[str] = []
    for name in (arm.name, arm.control_arm or ""):
        each = _of(data, name)
        if each is None or each.found:
            continue
        several, limit, label = data.load.operation[1], data.sweep.limit.in_words, index.label_at(name)
        least, most = rate_in_words(data.sweep.least), rate_in_words(data.sweep.most)
        if each.carries_all:
            texts.append(f"{label} keeps the {limit} even at {most} {several} a second")
            advice.append("raise the upper end of --load")
        elif each.carries_none:
            texts.append(f"{label} does not keep the {limit} even at {least} {several} a second")
            advice.append("lower the lower end of --load")
        else:
            texts.append(f"this run was too short or too disturbed to find the capacity of {label}")
            advice.append("measure longer (--budget)")
    if not texts:
        return None
    return f"{fmt.capital('. '.join(map(fmt.capital, texts)))}: {fmt.listed([*dict.fromkeys(advice)])}."


def _row(index: Index, arm: Arm) -> list[str | fmt.Text] | None:
    effect = index.effect(CAPACITY, arm.name)
    if effect is None or effect.ratio is None:
        return None
    before, after = (fmt.number(each) for each in (effect.control_value, effect.value))
    return [
        f"{arm.label}{arm.at}",
        before,
        after,
        fmt.absolute(effect.difference, signed=True),
        fmt.relative(effect.ratio),
    ]


def _table(index: Index, data: Capacities, arms: Sequence[Arm], context: str) -> Table:
    label = data.sweep.limit.label
    rows: list[list[str | fmt.Text]] = []
    for arm in arms:
        for each in _curve(data, arm.name):
            percentiles = (each.p50_ms, each.p95_ms, each.p99_ms)
            times = [fmt.NONE if value is None else fmt.number(value) for value in percentiles]
            unserved = fmt.percent(each.unserved) if each.unserved >= 0.005 else ""
            rows.append([arm.label, fmt.number(each.per_second), *times, str(each.slices), unserved])
    head = ["variant", f"{data.load.operation[1]}/s", "p50, ms", "p95, ms", "p99, ms", "slices", "not served"]
    return Table.of(head, rows, title=f"Latency of a {label} over the load{f', {context}' if context else ''}")


def _figure(index: Index, data: Capacities, arms: Sequence[Arm], context: str) -> Figure:
    limit = data.sweep.limit
    shown = f"p{limit.percentile:g}"
    times = [each.limited_ms for arm in arms for each in _curve(data, arm.name)]
    rates = [each.per_second for arm in arms for each in _curve(data, arm.name)]
    lowest, highest = min([*times, limit.milliseconds]) / 1.3, max([*times, limit.milliseconds]) * 1.3

    def draw(width: int) -> Sheet:
        panel = Panel(
            title=f"{shown} of a {limit.label}, ms{f': {context}' if context else ''}",
            x=Scale(min(rates) / 1.05, max(rates) * 1.05, log),
            y=Scale(lowest, highest, log),
            x_label=f"{data.load.operation[1]} a second",
            x_ticks=decades(min(rates), max(rates)),
            y_ticks={value: fmt.number(value) for value in decades(lowest, highest)},
            grid="y",
        )
        panel.across(limit.milliseconds, "error", 1.2, dashes="5 3")
        for arm in arms:
            curve, colour = _curve(data, arm.name), colour_of(index, arm)
            value = index.value(CAPACITY, arm.name)
            if value is not None:
                ends = [(value.mean.low, lowest), (value.mean.high, lowest), (value.mean.high, highest)]
                panel.area([*ends, (value.mean.low, highest)], colour, 0.14)
                panel.upright(value.mean.value, colour, 1.6)
            panel.line([(each.per_second, each.limited_ms) for each in curve], colour, 1.4)
            for each in curve:
                panel.dot(each.per_second, each.limited_ms, colour, 6)
        return Sheet(width, [panel], [300])

    caption = [
        f"{fmt.capital(arm.label)}: {fmt.absolute(value.mean, '')} {data.load.operation[1]} a second within the limit."
        for arm in arms
        if (value := index.value(CAPACITY, arm.name)) is not None
    ]
    legend = [Legend(colour_of(index, arm), arm.label) for arm in arms]
    title = f"{shown} of a {limit.label} over the load"
    reading = HOW_TO_READ.format(percentile=shown)
    return Figure("capacity", title, caption, draw, legend, reading=reading, rank=10, media=HTML)


def _plot(index: Index, data: Capacities, arms: Sequence[Arm], context: str) -> Plot:
    limit = data.sweep.limit
    title = f"p{limit.percentile:g} of a {limit.label}, ms, over {data.load.operation[1]} a second"
    series = [Series(arm.label, [(e.per_second, e.limited_ms) for e in _curve(data, arm.name)]) for arm in arms]
    return Plot(f"{title}{f', {context}' if context else ''} (dashed: the limit)", series, limit.milliseconds)


SECTION = CapacitySection()
