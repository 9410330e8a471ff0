"""Recommendations by setting: what to do at each size and under each condition, from this run's effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.blocks import Block, Cell, Table
from costof.report.section import Section, sentences
from costof.results.index import SAME_SET_UP, Index, Lead
from costof.results.models import Arm, Core, Effect, Metric, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Verdict
from costof.study.schema import PublishedFigure, Study

COLUMNS = ["figure", "control", "with it", "relative", "verdict", "published without", "published with"]
VERDICT = COLUMNS.index("verdict")


class Spec(Model):
    """A table for each setting, and a sentence for each combination of the levels in `by`."""

    metric: str = Field(description="Decides.")
    also: list[str] = Field(default=[], description="Metrics that stand beside it in the tables.")
    sizes: str = Field(description="A context with numbers for levels, such as the nodes: from which one on it pays.")
    by: list[str] = Field(description="Contexts that recommendations differ by.")
    scale: list[str] = Field(default=[], description="Factors of the lab's own scale, said only where a run varies it.")


class Recommended(Model):
    """One setting: its size, its other conditions in words, and its control."""

    control: str
    size: str
    conditions: list[str]


class Recommendations(Model):
    metric: str
    also: list[str]
    unit: str = Field(description="What a size is a number of.")
    settings: list[Recommended]


@dataclass(frozen=True)
class Finding:
    """What an arm does in one setting."""

    size: str
    arm: Arm
    effect: Effect

    @property
    def same(self) -> bool:
        """Whether the arm's servers were set up as its control's all the time, so that the two are one."""
        return self.arm.baseline in self.arm.same_set_up


class RecommendationsSection(Section[Spec, Recommendations]):
    name, title, order = "recommendations", "Figures", 10
    spec, data = Spec, Recommendations

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric, *spec.also]

    def compute(self, run: Run, core: Core, spec: Spec) -> Recommendations | None:
        """None where nobody said the sizes: a target's servers are what they are, and there is no other size."""
        if not all(arm.levels.get(spec.sizes, "").isdigit() for arm in core.arms):
            return None
        study = run.plan.study
        return Recommendations(
            metric=spec.metric,
            also=spec.also,
            unit=study.factors[spec.sizes].label,
            settings=[
                Recommended(
                    control=arm.name, size=arm.levels[spec.sizes], conditions=_conditions(core, study, spec, arm)
                )
                for arm in core.arms
                if arm.control
            ],
        )

    def lead(self, index: Index, data: Recommendations) -> Lead:
        return Lead(leads=True)

    def answer(self, index: Index, data: Recommendations) -> list[Sentence]:
        """One for each protection and condition, such as 'With w:1, use … from 7 nodes on'."""
        metric = index.metrics[data.metric]
        texts = [
            f"With {', '.join(conditions)}, {_advice(metric, data.unit, found)}."
            for conditions, found in _groups(index, data)
        ]
        return sentences("answer", texts)

    def blocks(self, index: Index, data: Recommendations) -> Iterator[Block]:
        """A table for each setting, with the published figures beside ours."""
        found = []
        for setting in data.settings:
            arms = [arm for arm in index.arms if arm.baseline == setting.control]
            rows = [row for arm in arms for name in (data.metric, *data.also) for row in _rows(index, arm, name)]
            if rows:
                found.append((", ".join([f"{setting.size} {data.unit}", *setting.conditions]), rows))
        for title, rows in found:
            note = _note(index) if title == found[-1][0] else ""
            yield Table.of(COLUMNS, rows, title=title, note=note, texts=(0, VERDICT))


def _conditions(core: Core, study: Study, spec: Spec, arm: Arm) -> list[str]:
    """'w:1', and whatever else is not as the study has it first; the lab's own scale only where the run varies it."""
    levels = arm.levels
    scale = {name for name in spec.scale if len({each.levels.get(name) for each in core.arms}) == 1}
    others = [
        factor.phrase(levels[name])
        for name, factor in study.factors.items()
        if factor.context and name not in (spec.sizes, *spec.by, *scale)
        if levels[name] in factor.levels and levels[name] != factor.default[0]
    ]
    return [*(study.factors[name].phrase(levels[name]) for name in spec.by), *others]


def _rows(index: Index, arm: Arm, name: str) -> list[list[str | Cell]]:
    effect = index.effect(name, arm.name)
    if effect is None:
        return []
    ours: list[str | Cell] = [
        f"{index.metric_label(name)}, {arm.label}",
        fmt.with_unit(fmt.number(effect.control_value), effect.unit),
        fmt.with_unit(fmt.number(effect.value), effect.unit),
        Cell.of(fmt.relative(effect.ratio)) if effect.ratio else fmt.NONE,
        SAME_SET_UP if Finding("", arm, effect).same else effect.verdict.value,
    ]
    first, *others = [_published(each) for each in index.core.published_for(name, arm)] or [[fmt.NONE, fmt.NONE]]
    blank: list[str | Cell] = [""] * len(ours)
    return [[*ours, *first], *([*blank, *other] for other in others)]


def _published(figure: PublishedFigure) -> list[str]:
    if figure.control_value is None or figure.value is None:
        return [fmt.NONE, fmt.bare_ratio(figure.ratio) if figure.ratio else fmt.NONE]
    return [fmt.number(figure.control_value), fmt.number(figure.value)]


def _note(index: Index) -> str:
    """Where the published figures are from, and which of their series stands beside which of our arms."""
    published = index.core.published
    if published is None:
        return ""
    beside = {
        arm.label: figure.series
        for arm in index.core.arms
        for figure in published.figures
        if figure.fits(arm.levels) and figure.series
    }
    return published.cited + "".join(f" The series beside '{label}' is '{series}'." for label, series in beside.items())


def _groups(index: Index, data: Recommendations) -> Iterator[tuple[list[str], list[Finding]]]:
    """Findings of one protection under one condition, by size."""
    settings = {setting.control: setting for setting in data.settings}
    groups: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for arm in index.arms:
        effect, setting = index.effect(data.metric, arm.name), settings.get(arm.baseline or "")
        if effect is not None and setting is not None and arm.error is None:
            key = (tuple(setting.conditions), arm.label)
            groups.setdefault(key, []).append(Finding(setting.size, arm, effect))
    for (conditions, _), found in groups.items():
        yield list(conditions), sorted(found, key=lambda each: float(each.size))


def _advice(metric: Metric, unit: str, found: list[Finding]) -> str:
    label = f"'{found[0].arm.label}'"
    same = [each for each in found if each.same]
    of = {verdict: [e for e in found if not e.same and e.effect.verdict is verdict] for verdict in Verdict}
    parts = []
    if saving := of[Verdict.SAVES]:
        parts.append(f"use {label} {_where(saving, found, unit)}: {_amounts(metric, saving)}")
    if costing := of[Verdict.COSTS]:
        parts.append(f"do not use {label} {_where(costing, found, unit)}: {_amounts(metric, costing)}")
    if none := of[Verdict.NO_DIFFERENCE]:
        it = "it" if parts else label
        parts.append(f"{it} makes no difference above {fmt.share(metric.margin)} {_at(none, unit)}")
    if little := of[Verdict.NO_COST]:
        it = "it" if parts else label
        parts.append(f"{it} costs at most {fmt.share(metric.margin)} {_at(little, unit)}")
    if same:
        it = "it" if parts else label
        parts.append(f"{it} makes no difference {_at(same, unit)}, where its tree was the control's own")
    if open_ := of[Verdict.UNRESOLVED]:
        its = "its effect" if parts else f"the effect of {label}"
        parts.append(f"{its} {_at(open_, unit)} is unresolved ({_amounts(metric, open_)})")
    return "; ".join(parts)


def _where(some: Sequence[Finding], all_: Sequence[Finding], unit: str) -> str:
    """'from 7 nodes on' where it holds for every larger size that was measured and for no smaller one."""
    upwards = 0 < len(some) < len(all_) and all_[-len(some) :] == some
    return f"from {some[0].size} {unit} on" if upwards else _at(some, unit)


def _at(some: Sequence[Finding], unit: str) -> str:
    return f"at {fmt.listed([each.size for each in some])} {unit}"


def _amounts(metric: Metric, some: Sequence[Finding]) -> str:
    """'operations a second' +38 % [35, 41] at 7 and …; the size is said already where there is but one."""
    parts = []
    for each in some:
        ratio = each.effect.ratio
        amount = fmt.relative(ratio) if ratio else fmt.absolute(each.effect.difference, each.effect.unit, signed=True)
        parts.append(f"{amount} at {each.size}" if len(some) > 1 else str(amount))
    return f"'{metric.label}' {fmt.listed(parts)}"


SECTION = RecommendationsSection()
