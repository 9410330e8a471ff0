"""The tables that answer a study: one for each view, with our figures and the published ones in separate columns."""

from __future__ import annotations

from costof.report import format as fmt
from costof.result import Cell, Effect, Result, Table

TITLES = {"app": "As the application sees it", "wire": "On the wire"}
COLUMNS = ["arm", "metric", "control", "with it", "difference", "ratio", "verdict", "published control", "published"]


def study_tables(result: Result) -> list[Table]:
    """Tables of a result that has its effects already."""
    tables = []
    views = {metric.name: metric.view for metric in result.metrics}
    for view in dict.fromkeys(views.values()):
        rows = [_row(result, effect) for effect in result.effects if views[effect.metric] == view]
        if rows:
            title = TITLES.get(view, view)
            tables.append(Table(name=view, title=title, columns=COLUMNS, rows=rows, note=_note(result)))
    return tables


def _row(result: Result, effect: Effect) -> list[Cell]:
    figures = result.published.figures if result.published else []
    levels = {factor.name: factor.level for arm in result.arms if arm.name == effect.arm for factor in arm.factors}
    published = next((f for f in figures if f.metric == effect.metric and f.levels.items() <= levels.items()), None)
    return [
        Cell(text=effect.arm),
        Cell(text=effect.metric),
        Cell(text=fmt.with_unit(fmt.number(effect.control_value), effect.unit)),
        Cell(text=fmt.with_unit(fmt.number(effect.value), effect.unit)),
        Cell(text=str(fmt.absolute(effect.difference, effect.unit, signed=True)), estimate=effect.difference),
        Cell(text=str(fmt.relative(effect.ratio)) if effect.ratio else fmt.NONE, estimate=effect.ratio),
        Cell(text=effect.verdict.value),
        Cell(text=fmt.number(published.control_value) if published and published.control_value else fmt.NONE),
        Cell(text=fmt.number(published.value) if published and published.value else fmt.NONE),
    ]


def _note(result: Result) -> str | None:
    published = result.published
    return f"Published: {published.source}, {published.date}; {published.setting}." if published else None
