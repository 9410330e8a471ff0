"""A study's tables along a context: what each protection costs at each of its levels, the published figures beside."""

from __future__ import annotations

from costof.analysis.result import Arm, Cell, Effect, Metric, Result, Table
from costof.document import format as fmt
from costof.document.format import Shown
from costof.statistics.estimate import Estimate
from costof.study.published import PublishedFigure
from costof.study.schema import Along, Study

TABLE = "along"
OURS = ["with it", "overhead"]
PUBLISHED = "published (overhead)"


def tables(result: Result, study: Study) -> list[Table]:
    """One for each protection and each setting of the other contexts; none where the study asks for none."""
    asked = study.along
    if asked is None:
        return []
    found = []
    for title, arms in _groups(result, study, asked).items():
        rows = [row for arm in arms if (row := _row(result, asked, arm))]
        if rows:
            control = next(arm for arm in result.arms if arm.name == arms[0].baseline)
            columns = [study.factors[asked.factor].label, control.label, *OURS, PUBLISHED]
            if all(row[-1].text == fmt.NONE for row in rows):
                columns, rows = columns[:-1], [row[:-1] for row in rows]
            found.append(Table(name=f"{TABLE}@{title}", title=title, columns=columns, rows=rows))
    if found and result.published:
        told = result.published
        note = f"Published: {told.source}, {told.date}; {told.setting}."
        found[-1] = found[-1].model_copy(update={"note": note})
    return found


def _groups(result: Result, study: Study, asked: Along) -> dict[str, list[Arm]]:
    """The arms of each table by its title, from the lowest level up."""
    groups: dict[str, list[Arm]] = {}
    arms = [arm for arm in result.arms if arm.baseline and not arm.twin]
    others = [name for name, factor in study.factors.items() if factor.context and name != asked.factor]
    varied = [name for name in others if len({_level(arm, name) for arm in arms}) > 1]
    metric = _metric(result, asked)
    for arm in sorted(arms, key=lambda arm: float(_level(arm, asked.factor))):
        told = [f"{study.factors[name].label} {_level(arm, name)}" for name in varied]
        title = ", ".join([arm.label, *told])
        groups.setdefault(f"{title}: {metric.label} by {study.factors[asked.factor].label}", []).append(arm)
    order = list(dict.fromkeys(arm.label for arm in arms))
    return dict(sorted(groups.items(), key=lambda group: order.index(group[1][0].label)))


def _row(result: Result, asked: Along, arm: Arm) -> list[Cell]:
    effect = next((each for each in result.effects if (each.metric, each.arm) == (asked.metric, arm.name)), None)
    means = [_mean(result, asked.metric, name) for name in (arm.baseline, arm.name)]
    if effect is None or None in means:
        return []
    published = next(iter(result.published_for(asked.metric, arm)), None)
    return [
        Cell(text=_level(arm, asked.factor)),
        *(Cell(text=str(fmt.absolute(mean)), estimate=mean) for mean in means if mean),
        Cell(text=str(_overhead(effect, _metric(result, asked))), estimate=effect.ratio),
        Cell(text=_published(published, _metric(result, asked))),
    ]


def _overhead(effect: Effect, metric: Metric) -> Shown:
    if effect.ratio is None:
        return Shown(fmt.NONE)
    return fmt.loss(effect.ratio) if metric.better == "higher" else fmt.relative(effect.ratio)


def _published(figure: PublishedFigure | None, metric: Metric) -> str:
    """Such as '260.55 → 237.64 (8.79 %)'."""
    if figure is None or not figure.control_value or not figure.value:
        return fmt.NONE
    more = figure.value / figure.control_value - 1
    overhead = fmt.number((-more if metric.better == "higher" else more) * 100, 2)
    # As published, to the last digit.
    change = f"{fmt.number(figure.control_value, 2)} → {fmt.number(figure.value, 2)}"
    return f"{change} ({fmt.with_unit(overhead, '%')})"


def _mean(result: Result, metric: str, arm: str | None) -> Estimate | None:
    return next((value.mean for value in result.values if (value.metric, value.arm) == (metric, arm)), None)


def _metric(result: Result, asked: Along) -> Metric:
    return next(metric for metric in result.metrics if metric.name == asked.metric)


def _level(arm: Arm, factor: str) -> str:
    return next((each.level for each in arm.factors if each.name == factor), "")
