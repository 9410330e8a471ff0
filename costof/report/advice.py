"""Advice by setting, in words and tables: what to do at each size and under each condition, from this run's effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costof.analysis.result import Arm, Cell, Effect, Metric, Result, Table
from costof.document import format as fmt
from costof.report import trees
from costof.statistics.estimate import Verdict
from costof.study.published import PublishedFigure
from costof.study.schema import Advice, Study

TABLE = "advice"
COLUMNS = ["figure", "control", "with it", "relative", "verdict", "published without", "published with"]
SHORT = {"write_concern": "w:{level}"}


@dataclass(frozen=True)
class Finding:
    """What an arm does in one setting."""

    level: str
    arm: Arm
    effect: Effect
    same_tree: bool


def tables(result: Result, study: Study) -> list[Table]:
    """One for each setting, with the published figures beside ours."""
    asked = _asked(result, study)
    if asked is None:
        return []
    found = []
    for control in (arm for arm in result.arms if arm.control):
        arms = [arm for arm in result.arms if arm.baseline == control.name and not arm.twin]
        rows = [row for arm in arms for name in (asked.metric, *asked.also) for row in _rows(result, arm, name)]
        if rows:
            name = f"{TABLE}@{control.context}"
            found.append(Table(name=name, title=_title(result, study, asked, control), columns=COLUMNS, rows=rows))
    if found and result.published:
        told = result.published
        note = f"Published: {told.source}, {told.date}; {told.setting}.{_series(result)}"
        found[-1] = found[-1].model_copy(update={"note": note})
    return found


def _asked(result: Result, study: Study) -> Advice | None:
    """None where nobody told the sizes: a target's servers are what they are, and there is no other size to advise."""
    sizes = {arm.levels.get(study.advice.along, "") for arm in result.arms} if study.advice else set()
    return study.advice if sizes and all(size.isdigit() for size in sizes) else None


def _title(result: Result, study: Study, asked: Advice, control: Arm) -> str:
    """'7 nodes, w:majority'."""
    levels = control.levels
    told = [f"{levels[asked.along]} {study.factors[asked.along].label}", *_conditions(result, study, asked, control)]
    return ", ".join(told)


def _conditions(result: Result, study: Study, asked: Advice, arm: Arm) -> list[str]:
    """'w:1', and whatever else is not as the study has it first; the lab's own scale only where the run varies it."""
    levels = arm.levels
    scale = {name for name in asked.scale if len({each.levels.get(name) for each in result.arms}) == 1}
    others = {
        name: f"{factor.label} {levels[name]}"
        for name, factor in study.factors.items()
        if factor.context and name not in (asked.along, *asked.by, *scale)
        if levels[name] in factor.levels and levels[name] != factor.default[0]
    }
    return [*(SHORT.get(name, f"{name} {{level}}").format(level=levels[name]) for name in asked.by), *others.values()]


def _effect(result: Result, metric: str, arm: Arm) -> Effect | None:
    return next((each for each in result.effects if (each.metric, each.arm) == (metric, arm.name)), None)


def _rows(result: Result, arm: Arm, name: str) -> list[list[Cell]]:
    effect = _effect(result, name, arm)
    if effect is None:
        return []
    metric = next(metric for metric in result.metrics if metric.name == name)
    verdict = trees.SAME if _same_tree(result, arm) else effect.verdict.value
    ours = [
        Cell(text=f"{metric.label}, {arm.label}"),
        Cell(text=fmt.with_unit(fmt.number(effect.control_value), effect.unit)),
        Cell(text=fmt.with_unit(fmt.number(effect.value), effect.unit)),
        Cell(text=str(fmt.relative(effect.ratio)) if effect.ratio else fmt.NONE, estimate=effect.ratio),
        Cell(text=verdict),
    ]
    first, *others = [_published(each) for each in result.published_for(name, arm)] or [[fmt.NONE, fmt.NONE]]
    blank = [Cell(text="") for _ in ours]
    more = [[*blank, *(Cell(text=text) for text in other)] for other in others]
    return [[*ours, *(Cell(text=text) for text in first)], *more]


def _published(figure: PublishedFigure) -> list[str]:
    if figure.control_value is None or figure.value is None:
        return [fmt.NONE, fmt.bare_ratio(figure.ratio) if figure.ratio else fmt.NONE]
    return [fmt.number(figure.control_value), fmt.number(figure.value)]


def _series(result: Result) -> str:
    """Which of the published series stands beside which of our arms."""
    beside: dict[str, str] = {}
    for arm in result.arms:
        for figure in result.published.figures if result.published else []:
            if figure.fits(arm.levels) and figure.series:
                beside[arm.label] = figure.series
    return "".join(f" Beside {_quoted(label)} stands '{series}'." for label, series in beside.items())


def _same_tree(result: Result, arm: Arm) -> bool:
    """Whether the arm's tree was its control's all the time, so that the two are one set-up."""
    return any(tree.arm == arm.name and arm.baseline in tree.same_as for tree in result.trees)


def sentences(result: Result, study: Study) -> list[str]:
    """One for each protection and condition, such as 'With w:1, let … from 7 nodes on'."""
    asked = _asked(result, study)
    if asked is None:
        return []
    metric = next(metric for metric in result.metrics if metric.name == asked.metric)
    return [
        f"{_capital(', '.join(['with ' + conditions[0], *conditions[1:]]))}, {_advice(metric, asked, study, found)}."
        for conditions, found in _groups(result, study, asked)
    ]


def _groups(result: Result, study: Study, asked: Advice) -> Iterator[tuple[list[str], list[Finding]]]:
    """Findings of one protection under one condition, by size."""
    groups: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for arm in result.arms:
        effect = _effect(result, asked.metric, arm)
        if effect is not None and arm.error is None and not arm.twin:
            key = (tuple(_conditions(result, study, asked, arm)), arm.label)
            level = arm.levels[asked.along]
            groups.setdefault(key, []).append(Finding(level, arm, effect, _same_tree(result, arm)))
    for (conditions, _), found in groups.items():
        yield list(conditions), sorted(found, key=lambda each: float(each.level))


def _advice(metric: Metric, asked: Advice, study: Study, found: list[Finding]) -> str:
    label, unit = found[0].arm.label, study.factors[asked.along].label
    same = [each for each in found if each.same_tree]
    rest = [each for each in found if not each.same_tree]
    of = {verdict: [each for each in rest if each.effect.verdict is verdict] for verdict in Verdict}
    parts = []
    if saving := of[Verdict.SAVES]:
        parts.append(f"use {_quoted(label)} {_where(saving, found, unit)}: {_amounts(metric, saving)}")
    if costing := of[Verdict.COSTS]:
        parts.append(f"do not use {_quoted(label)} {_where(costing, found, unit)}: {_amounts(metric, costing)}")
    told = "it" if parts else _quoted(label)
    if none := of[Verdict.NO_COST]:
        parts.append(f"{told} makes no difference above {fmt.share(metric.margin)} {_at(none, unit)}")
        told = "it"
    if same:
        parts.append(f"{told} had the control's own tree {_at(same, unit)}, so there is no difference: same tree")
        told = "it"
    if open_ := of[Verdict.UNRESOLVED]:
        parts.append(f"what {told} does {_at(open_, unit)} is unresolved ({_amounts(metric, open_)})")
    return "; ".join(parts)


def _quoted(label: str) -> str:
    return f"'{label}'"


def _where(some: list[Finding], all_: list[Finding], unit: str) -> str:
    """'from 7 nodes on' where it holds for every larger size that was measured and for no smaller one."""
    upwards = len(some) < len(all_) and all_[-len(some) :] == some and len(some) > 0
    return f"from {some[0].level} {unit} on" if upwards else _at(some, unit)


def _at(some: list[Finding], unit: str) -> str:
    return f"at {fmt.listed([each.level for each in some])} {unit}"


def _amounts(metric: Metric, some: list[Finding]) -> str:
    """ "operations a second" +38 % [35, 41] at 7 and …; the size is said already where there is but one."""
    parts = []
    for each in some:
        ratio = each.effect.ratio
        amount = fmt.relative(ratio) if ratio else fmt.absolute(each.effect.difference, each.effect.unit, signed=True)
        parts.append(f"{amount} at {each.level}" if len(some) > 1 else str(amount))
    return f"'{metric.label}' {fmt.listed(parts)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
