"""Latency over load: the cost at each of several loads, and the highest load that every variant carries.

Only runs with several loads (`--load 100/s,300/s,1000/s`, or a range without a limit on latency) have this section.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import HTML, Block, Figure, Paragraph, Plot, Table
from costof.report.canvas import Legend, Panel, Scale, Sheet, decades, grid, log
from costof.report.key_figures import KeyFigure, of_effect
from costof.report.palette import colour_of
from costof.report.plots import Series
from costof.report.sections import Section, sentences
from costof.report.verdict_sentence import verdict_sentence
from costof.results.index import Index, Lead
from costof.results.load import carried_loads
from costof.results.metrics import NS_PER_UNIT
from costof.results.models import Arm, Carried, Core, Metric, Sentence
from costof.results.run import Run
from costof.statistics.histogram import merged
from costof.study.arms import PlannedArm
from costof.study.load import Load
from costof.study.several_loads import LOAD, in_words, rate_in_words, unit_in_words
from costof.study.sweep import percentile_figures

PERCENTILES = (50.0, 95.0, 99.0)
#: A percentile is shown if at least this many operations took longer. Five are enough here, although the percentile is
#: then uncertain: readers can compare it with the percentiles at the neighbouring loads.
FEWEST_BEYOND = 5
METHOD = (
    "Each round measures each variant at each load, in random order. A cost is the difference between a variant and "
    "the control at the same load. Percentiles are computed over all operations of all rounds; percentiles that "
    "commands print are averaged over rounds."
)
HOW_TO_READ = (
    "Each dot is a load at which the run measured. A line ends at the highest load that its variant carried: at higher "
    "loads, operations queue up, and times only depend on how long the run lasts."
)


class LatencyAtLoad(Model):
    """Percentiles of an operation's latency on an arm, at the arm's load, in the metric's unit."""

    arm: str
    metric: str
    percentiles: dict[str, Finite] = Field(description="By name: p50, p95 and p99, as far as they are known.")


class Group(Model):
    """Arms that differ only in their protection and their load."""

    title: str = Field(description="What distinguishes the group from others, such as a distance; '' if it is alone.")
    arms: list[str] = Field(description="In ascending order of their loads, each control before its arms.")


class LatencyOverLoad(Model):
    """The loads of the run, how much of its load each arm served, and the latency of each arm at its load."""

    load: Load = Field(description="The lowest load.")
    rates: list[Finite]
    metrics: list[str] = Field(description="The times that answer the question, the most important one last.")
    carried: list[Carried] = Field(description="Empty if the rate at which commands were served is unknown.")
    latencies: list[LatencyAtLoad]
    groups: list[Group]


class LatencyOverLoadSection(Section[None, LatencyOverLoad]):
    name, title, order = "latency_over_load", "Latency over load", 7
    data = LatencyOverLoad

    def compute(self, run: Run, core: Core, spec: None) -> LatencyOverLoad | None:
        if run.plan.load is None or not run.plan.rates:
            return None
        metrics = [each for each in core.metrics if each.headline and each.unit in NS_PER_UNIT]
        arms = [arm for arm in run.plan.arms if not arm.replicate]
        if not metrics:
            return None
        return LatencyOverLoad(
            load=run.plan.load,
            rates=run.plan.rates,
            metrics=[each.name for each in metrics],
            carried=carried_loads(run),
            latencies=[
                LatencyAtLoad(arm=arm.name, metric=each.name, percentiles=_percentiles(run, each, arm))
                for each in metrics
                for arm in arms
            ],
            groups=_groups(run, arms),
        )

    def lead(self, index: Index, data: LatencyOverLoad) -> Lead:
        headline = [metric.name for metric in index.headline_metrics]
        return Lead(leads=True, follow=frozenset((name, arm.name) for name in headline for arm in index.answered))

    def answer(self, index: Index, data: LatencyOverLoad) -> list[Sentence]:
        highest, overloaded = _highest(index, data), _overloaded(index, data)
        texts = [text for text in (_cost(index, data, highest), overloaded) if text]
        if highest is None and overloaded:
            texts = [
                f"At least one variant cannot carry {in_words(data.load, data.rates[0])}, the lowest load: list lower "
                "loads.",
                overloaded,
            ]
        return [*sentences("answer", texts), *sentences("verdict", texts)]

    def key_figures(self, index: Index, data: LatencyOverLoad) -> Sequence[KeyFigure]:
        """Return the effects on the most important operation at each load."""
        figures = []
        for arm in index.answered:
            for name in data.metrics[-1:]:
                effect, words = index.effect(name, arm.name), _words(index.metrics[name])
                if effect is not None:
                    title = next((each.title for each in data.groups if arm.name in each.arms and each.title), "")
                    label = f"{words}, {rate_in_words(_rate(arm))}/s{f', {title}' if title else ''}"
                    figure = of_effect(index, index.metrics[name], effect)
                    figures.append(figure.model_copy(update={"label": label, "words": f"{words}{arm.at}"}))
        return figures

    def brief(self, index: Index, data: LatencyOverLoad) -> Iterator[Block]:
        """Return a plot of the most important operation's latency over load, in the first context (such as a distance).

        The plot shows the highest percentile that has enough operations, such as p99.
        """
        for name in data.metrics[-1:]:
            yield from _plots(index, data, index.metrics[name], data.groups[0])

    def blocks(self, index: Index, data: LatencyOverLoad) -> Iterator[Block]:
        rates = fmt.listed([*map(rate_in_words, data.rates)])
        yield Paragraph(f"{rates} {unit_in_words(data.load)}.", label="Loads.")
        yield Paragraph(METHOD, "note")
        for name in reversed(data.metrics):
            metric = index.metrics[name]
            for group in data.groups:
                if any(index.value(name, arm) for arm in group.arms):
                    yield _figure(index, data, metric, group)
                    yield from _plots(index, data, metric, group)
                    yield _table(index, data, metric, group)


def _percentiles(run: Run, metric: Metric, arm: PlannedArm) -> dict[str, float]:
    study = run.plan.study
    figure = study.metrics[metric.name].command_figure
    if figure is None:
        histograms = [each for by_round in run.histograms(metric.name, arm.name).values() for each in by_round]
        if not histograms:
            return {}
        counts = merged(histograms)
        known = [each for each in PERCENTILES if counts.total * (1 - each / 100) >= FEWEST_BEYOND]
        values = counts.at_percentiles(known) if known else []
        return {f"p{each:g}": value / NS_PER_UNIT[metric.unit] for each, value in zip(known, values, strict=True)}
    program = study.workloads[metric.workload].command
    assert program is not None
    percentiles = {}
    for (of, percentile), name in percentile_figures(program.all_figures).items():
        full = f"{metric.workload}.{name}"
        belongs = of in ("", figure.partition("_")[0]) and study.metrics[full].unit == metric.unit
        values = run.samples.means(full, arm.name)
        if percentile in PERCENTILES and belongs and values:
            percentiles[f"p{percentile:g}"] = sum(values) / len(values)
    return percentiles


def _rate(arm: Arm) -> float:
    return float(arm.levels[LOAD])


def _groups(run: Run, arms: Sequence[PlannedArm]) -> list[Group]:
    factors = run.plan.study.factors
    contexts = [
        name
        for name, factor in factors.items()
        if factor.context and name != LOAD and len({arm.levels.get(name) for arm in arms}) > 1
    ]
    groups: dict[str, list[PlannedArm]] = {}
    for arm in sorted(arms, key=lambda arm: float(arm.levels[LOAD])):
        title = fmt.listed([factors[name].phrase(arm.levels[name]) for name in contexts])
        groups.setdefault(title, []).append(arm)
    return [Group(title=title, arms=[arm.name for arm in each]) for title, each in groups.items()]


def _not_carried(data: LatencyOverLoad) -> dict[str, Carried]:
    return {each.arm: each for each in data.carried if not each.complete}


def _highest(index: Index, data: LatencyOverLoad) -> float | None:
    """Return the highest load up to which no arm is overloaded; None if an arm is overloaded at the lowest load."""
    overloaded, highest = _not_carried(data), None
    for rate in data.rates:
        arms = [arm for arm in index.shown_arms if _rate(arm) == rate]
        if not arms or any(arm.name in overloaded for arm in arms):
            break
        highest = rate
    return highest


def _cost(index: Index, data: LatencyOverLoad, highest: float | None) -> str | None:
    """Return the sentence about the costs at the highest load that every variant carries; None if there is none.

    For example: 'TLS adds 0.03 ms (+16 %) to a query at 1,000 queries a second, the highest load of this run.'
    """
    figures, group = [], data.groups[0]
    for arm in index.answered:
        for name in data.metrics if _rate(arm) == highest and arm.name in group.arms else []:
            effect, words = index.effect(name, arm.name), _words(index.metrics[name])
            if effect is not None:
                figures.append(of_effect(index, index.metrics[name], effect).model_copy(update={"words": words}))
    if highest is None or not figures:
        return None
    which = "the highest load" + (" of this run" if highest == data.rates[-1] else " that every variant carries")
    place = f" ({group.title})" if group.title else ""
    return f"{verdict_sentence(figures).rstrip('.')} at {in_words(data.load, highest)}{place}, {which}."


def _overloaded(index: Index, data: LatencyOverLoad) -> str | None:
    """Return the sentence with the lowest load that each overloaded variant cannot carry; None if all carry all loads.

    For example: 'TLS cannot carry 3,000 queries a second (it served 2,510).'
    """
    overloaded = _not_carried(data)
    first: dict[str, Arm] = {}
    for arm in sorted((arm for arm in index.shown_arms if arm.name in overloaded), key=_rate):
        first.setdefault(arm.protection, arm)
    texts = [
        f"{arm.label} cannot carry {in_words(data.load, _rate(arm))} ({_reason(each)})"
        for arm in first.values()
        for each in [overloaded[arm.name]]
    ]
    return f"{fmt.capital(fmt.listed(texts))}." if texts else None


def _reason(carried: Carried) -> str:
    if not carried.serves_all:
        return f"it served {fmt.number(carried.served)}"
    return "its queue grew" if carried.queue_grows else "it needs more cores than this machine has"


def _of(data: LatencyOverLoad, metric: str, arm: str) -> dict[str, float]:
    found = (each.percentiles for each in data.latencies if (each.metric, each.arm) == (metric, arm))
    return dict(next(found, {}))


def _series(index: Index, data: LatencyOverLoad, metric: Metric, group: Group, what: str) -> list[tuple[Arm, Series]]:
    """Return the curve of each protection over the load. `what` is the figure to show, such as 'p99' or 'mean'."""
    curves: dict[str, tuple[Arm, list[tuple[float, float]]]] = {}
    for arm in (index.arm(name) for name in group.arms):
        if arm is None:
            continue
        value = index.value(metric.name, arm.name)
        times = {**_of(data, metric.name, arm.name), **({"mean": value.mean.value} if value is not None else {})}
        curves.setdefault(arm.protection, (arm, []))[1].extend([(_rate(arm), times[what])] if what in times else [])
    return [(arm, Series(arm.label, points)) for arm, points in curves.values()]


def _known(data: LatencyOverLoad, metric: Metric, group: Group) -> list[str]:
    """Return the names of the known percentiles, such as ['p50', 'p99']; ['mean'] if no percentile is known."""
    names = dict.fromkeys(name for arm in group.arms for name in _of(data, metric.name, arm))
    return sorted(names, key=lambda name: float(name[1:])) or ["mean"]


def _words(metric: Metric) -> str:
    """Return the operation, such as 'a query', or the label of a command's figure in quotes."""
    return fmt.with_article(metric.label) if metric.view == "wire" else f"'{metric.label}'"


def _heading(metric: Metric, what: str) -> str:
    return f"{what} of {_words(metric)}, {fmt.UNITS.get(metric.unit, metric.unit)}"


def _plots(index: Index, data: LatencyOverLoad, metric: Metric, group: Group) -> Iterator[Block]:
    what = _known(data, metric, group)[-1]
    series = [each for _, each in _series(index, data, metric, group, what)]
    if any(each.points for each in series):
        place = f", {group.title}" if group.title else ""
        yield Plot(f"{_heading(metric, what)}, over {unit_in_words(data.load)}{place}", series)


def _figure(index: Index, data: LatencyOverLoad, metric: Metric, group: Group) -> Figure:
    # The first panel may be at the top of a page, so it shows the highest percentile, which the load changes most.
    curves = {what: _series(index, data, metric, group, what) for what in reversed(_known(data, metric, group))}
    points = [point for each in curves.values() for _, series in each for point in series.points]
    times = [time for _, time in points]
    lowest, highest = min(times) / 1.3, max(times) * 1.3

    def draw(width: int) -> Sheet:
        panels = []
        for what, each in curves.items():
            panel = Panel(
                title=_heading(metric, what),
                x=Scale(data.rates[0] / 1.1, data.rates[-1] * 1.1, log),
                y=Scale(lowest, highest, log),
                x_label="a second",
                x_ticks=decades(data.rates[0] / 1.1, data.rates[-1] * 1.1),
                y_ticks={value: fmt.number(value) for value in decades(lowest, highest)},
                grid="y",
            )
            for arm, series in each:
                colour = colour_of(index, arm)
                panel.line(series.points, colour, 1.4)
                for load, time in series.points:
                    panel.dot(load, time, colour, 6)
            panels.append(panel)
        return grid(width, panels, 260, columns=len(panels))

    caption = [text for text in (_overloaded(index, data),) if text]
    legend = [Legend(colour_of(index, arm), arm.label) for arm, _ in next(iter(curves.values()))]
    title = f"{fmt.capital(metric.label)} over the load{f', {group.title}' if group.title else ''}"
    name = f"load-{metric.name.replace('.', '-')}-{data.groups.index(group)}"
    return Figure(name, title, caption, draw, legend, reading=HOW_TO_READ, rank=10, media=HTML)


def _table(index: Index, data: LatencyOverLoad, metric: Metric, group: Group) -> Table:
    overloaded, known = _not_carried(data), [each for each in _known(data, metric, group) if each != "mean"]
    rows: list[list[str | fmt.Text]] = []
    for arm in (index.arm(name) for name in group.arms):
        if arm is None:
            continue
        rate = rate_in_words(_rate(arm))
        if arm.name in overloaded:
            rows.append([rate, arm.label, "not carried", *[fmt.NONE] * (len(known) + 2)])
            continue
        value, effect = index.value(metric.name, arm.name), index.effect(metric.name, arm.name)
        if value is None:
            continue
        added = fmt.absolute(effect.difference, signed=True) if effect is not None else fmt.NONE
        relative = effect.printed_ratio if effect is not None else None
        percentiles = _of(data, metric.name, arm.name)
        shown = [fmt.number(percentiles[each]) if each in percentiles else fmt.NONE for each in known]
        share = fmt.relative(relative) if relative else fmt.NONE
        rows.append([rate, arm.label, fmt.number(value.mean.value), added, share, *shown])
    unit = fmt.UNITS.get(metric.unit, metric.unit)
    head = [
        "load, /s",
        "variant",
        f"mean, {unit}",
        f"added, {unit}",
        "relative",
        *(f"{each}, {unit}" for each in known),
    ]
    place = f", {group.title}" if group.title else ""
    return Table.of(head, rows, title=f"{fmt.capital(metric.label)} over the load{place}", texts=(1,))


SECTION = LatencyOverLoadSection()
