"""The tables that answer a study: one for each view, with our figures and the published ones in separate columns."""

from __future__ import annotations

from costof.analysis.result import Arm, Cell, Effect, Result, Table
from costof.document import format as fmt
from costof.report.reading import settings, view_title
from costof.study.published import PublishedFigure

COLUMNS = ["arm", "metric", "control", "with it", "difference", "ratio", "verdict", "published control", "published"]


def study_tables(result: Result) -> list[Table]:
    """Tables of a result that has its effects already: one a view and context."""
    views = {metric.name: metric.view for metric in result.metrics}
    arms = {arm.name: arm for arm in result.arms}
    tables = []
    for view in dict.fromkeys(views.values()):
        for setting in settings(result):
            effects = [e for e in result.effects if views[e.metric] == view and arms[e.arm].context == setting.context]
            rows = [row for effect in effects for row in _rows(result, arms[effect.arm], effect)]
            if rows:
                name = f"{view}@{setting.context}" if setting.context else view
                title = view_title(view) + setting.suffix
                tables.append(Table(name=name, title=title, columns=COLUMNS, rows=rows, note=_note(result)))
    return tables


def _rows(result: Result, arm: Arm, effect: Effect) -> list[list[Cell]]:
    """The effect's row; with several published series, one more row for each further one."""
    published: list[PublishedFigure | None] = [*result.published_for(effect.metric, arm)]
    first, *others = published or [None]
    ours = [
        Cell(text=effect.arm),
        Cell(text=effect.metric),
        Cell(text=fmt.with_unit(fmt.number(effect.control_value), effect.unit)),
        Cell(text=fmt.with_unit(fmt.number(effect.value), effect.unit)),
        Cell(text=str(fmt.absolute(effect.difference, effect.unit, signed=True)), estimate=effect.difference),
        Cell(text=str(fmt.relative(effect.ratio)) if effect.ratio else fmt.NONE, estimate=effect.ratio),
        Cell(text=effect.verdict.value),
    ]
    blank = [*ours[:2], *(Cell(text="") for _ in ours[2:])]
    return [[*ours, *_published(first)], *([*blank, *_published(other)] for other in others)]


def _published(figure: PublishedFigure | None) -> list[Cell]:
    """Control and value as published; where only their ratio was, that, with the series where there are several."""
    if figure is None:
        return [Cell(text=fmt.NONE), Cell(text=fmt.NONE)]
    series = f" ({figure.series})" if figure.series else ""
    if figure.control_value is None or figure.value is None:
        return [Cell(text=fmt.NONE), Cell(text=(fmt.bare_ratio(figure.ratio) if figure.ratio else fmt.NONE) + series)]
    return [Cell(text=fmt.number(figure.control_value)), Cell(text=fmt.number(figure.value) + series)]


def _note(result: Result) -> str | None:
    published = result.published
    return f"Published: {published.source}, {published.date}; {published.setting}." if published else None
