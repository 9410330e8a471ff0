"""The effects as tables: one for each view and setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from costof import format as fmt
from costof.report.blocks import TERMINAL, Cell, Column, Media, Row, Table
from costof.results.index import Index, Setting, verdict_words
from costof.results.models import Arm, Effect, Metric
from costof.statistics.estimate import Verdict
from costof.study.commands import COMMAND
from costof.study.schema import PublishedFigure

TITLES = {
    "app": "As the application sees it",
    "wire": "On the wire",
    "command": "What the commands tell",
    "server": "At the server",
    "cpu": "CPU time, by role",
}


#: Phases of a connection that end before TLS begins, and the first one after it.
BEFORE_TLS, AFTER_TLS = ("resolve", "tcp", "greeting"), "hello"


@dataclass(frozen=True)
class View:
    """The effects of one view in one setting, in the order of the study's metrics."""

    title: str
    setting: Setting
    effects: list[tuple[Metric, Arm, Effect | None]]
    """None where a figure is missing: of commands that do not report it on the arm, or on its control."""


def views(index: Index) -> list[View]:
    """By view and setting; what has no effect is left out."""
    found = []
    for name in dict.fromkeys(metric.view for metric in index.core.metrics):
        metrics = [metric for metric in index.core.metrics if metric.view == name]
        for setting in index.settings:
            pairs = [(metric, arm, index.effect(metric.name, arm.name)) for metric in metrics for arm in setting.arms]
            missing = {(each.metric, each.arm) for each in index.core.missing}
            effects = [
                (metric, arm, effect)
                for metric, arm, effect in pairs
                if effect is not None or {(metric.name, arm.name), (metric.name, arm.baseline)} & missing
            ]
            title = TITLES.get(name, f"View: {name}") + setting.suffix
            found += [View(title, setting, effects)] if effects else []
    return found


def table(index: Index, view: View, media: Media) -> Table:
    """On a console one unit for all stands in the head, and of the farther settings only what answers the question."""
    console, effects, unit = media == TERMINAL, view.effects, ""
    if console and view.setting is not index.nearest:
        # Near the servers a cost is easiest to see; farther away the headlines are enough for a console.
        effects = [each for each in effects if each[0].headline] or effects
    if console and len(units := {metric.unit for metric, *_ in effects}) == 1:
        unit = next(iter(units))
    rows = []
    for _, group in groupby(effects, key=lambda each: each[0].name):
        of_metric = list(group)
        metric = of_metric[0][0]
        label = Cell(metric.label if unit else fmt.titled(metric.label, metric.unit), code=metric.name)
        rows += [Row([label], "group")] if index.many_arms else []
        for _, arm, effect in of_metric:
            name = Cell(arm.protection, full=arm.label) if index.many_arms else label
            rows.append(_row(metric, effect, arm, name) if effect else _missing_row(index, metric, arm, name))
            rows += _published(index.core.published_for(metric.name, arm), together=console)
    first = fmt.UNITS.get(unit, unit) if console else "metric"
    columns = [
        Column("with" if index.many_arms else first, "text", width=26),
        Column(index.control_name, width=9.5),
        Column(index.arm_heading, width=9.5),
        Column("difference", width=17),
        Column("relative", width=16),
        Column("verdict", "verdict", width=22),
    ]
    return Table(columns, rows, view.title, group=first, media=media)


def _row(metric: Metric, effect: Effect, arm: Arm, name: Cell) -> Row:
    """Control, value and difference carry the same decimals, so that the sum can be checked."""
    decimals = fmt.decimals_of(effect.difference)
    control = fmt.number(effect.control_value, _two_digits(effect.control_value, decimals))
    cells = [
        name,
        # A control without a phase has 0 of it; a command that reports 0 has measured it.
        Cell(control if effect.control_value or metric.view == COMMAND else fmt.NONE),
        Cell(fmt.number(effect.value, _two_digits(effect.value, decimals))),
        Cell.of(fmt.absolute(effect.difference, signed=True, decimals=decimals)),
        Cell.of(fmt.relative(effect.ratio)) if effect.ratio else Cell(fmt.NONE),
        Cell(_verdict(effect, metric, arm), verdict=effect.verdict),
    ]
    return Row(cells, "headline" if metric.headline else "plain")


def _verdict(effect: Effect, metric: Metric, arm: Arm) -> str:
    words = verdict_words(effect, metric)
    return f"{words}; side effect" if is_side_effect(effect, metric, arm) else words


def is_side_effect(effect: Effect, metric: Metric, arm: Arm) -> bool:
    """Whether a difference is in a phase that TLS cannot have changed, or that has only passed work to another one."""
    speaks_tls = any(each.view == metric.view and "protocol" in each.facts for each in arm.evidence)
    if effect.verdict not in (Verdict.COSTS, Verdict.SAVES) or metric.headline or not speaks_tls:
        return False
    return metric.phase in BEFORE_TLS or (metric.phase == AFTER_TLS and effect.verdict is Verdict.SAVES)


def _missing_row(index: Index, metric: Metric, arm: Arm, name: Cell) -> Row:
    """Without an effect, but with the one value that there may be."""
    values = [index.value(metric.name, each) if each else None for each in (arm.baseline, arm.name)]
    shown = [fmt.number(v.mean.value, fmt.significant_decimals(v.mean.value, 3)) if v else fmt.NONE for v in values]
    cells = [name, *map(Cell, [*shown, fmt.NONE, fmt.NONE, "missing: cannot be told"])]
    return Row(cells, "headline" if metric.headline else "plain")


def _two_digits(value: float, decimals: int) -> int:
    """A wide interval may earn no decimals at all; a value still shows two digits, or 0.75 would read as 1."""
    return max(decimals, fmt.significant_decimals(value, 2))


def _published(figures: list[PublishedFigure], *, together: bool) -> Iterator[Row]:
    """Figures of the literature; `together` makes one row of series whose ratio alone is known."""
    ratios = sorted(figure.ratio for figure in figures if figure.ratio is not None)
    if together and len(figures) > 1 and len(ratios) == len(figures):
        least, greatest = fmt.bare_ratio(ratios[0]), fmt.bare_ratio(ratios[-1])
        yield _published_row("published", ["", "", "", f"{least.removesuffix(f'{fmt.NBSP}%')} to {greatest}"], "")
        return
    for figure in figures:
        name = f"published, {figure.series}" if figure.series else "published"
        cells = _figures(figure)
        short = f"{cells[0]} → {cells[1]} ({cells[3]})" if cells[0] else cells[3]
        yield _published_row(name, cells, f"{figure.series}: {short}" if figure.series else short)


def _published_row(name: str, cells: list[str], aside: str) -> Row:
    return Row([*map(Cell, [name, *cells, ""])], "published", aside)


def _figures(figure: PublishedFigure) -> list[str]:
    """Control, value, difference and ratio; '' where they were not published."""
    control, value = figure.control_value, figure.value
    if control is None or value is None:
        return ["", "", "", fmt.bare_ratio(figure.ratio) if figure.ratio is not None else fmt.NONE]
    decimals = max(fmt.significant_decimals(control), fmt.significant_decimals(value))
    difference = fmt.number(value - control, decimals, signed=True)
    return [fmt.number(control, decimals), fmt.number(value, decimals), difference, fmt.plain_ratio(control, value)]
