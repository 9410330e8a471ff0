"""Recommendations: whether to use an arm at each size, such as 7 nodes, and under each condition of the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from costof import format as fmt
from costof.model import Model
from costof.report.blocks import FILES, MARKDOWN, Block, Cell, Heading, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import SAME_SET_UP, Index, Lead, verdict_words
from costof.results.models import Arm, Core, Effect, Metric, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Verdict
from costof.study.schema import Study

COLUMNS = ["metric, arm", "control", "this arm", "relative", "verdict", "published control", "published arm"]
CONTROL, VERDICT = COLUMNS.index("control"), COLUMNS.index("verdict")


class Spec(Model):
    """The metric by which a study recommends an arm, and the factors whose levels get separate recommendations."""

    metric: str = Field(description="The metric that decides.")
    also: list[str] = Field(default=[], description="Further metrics in the tables.")
    sizes: str = Field(description="A context whose levels are sizes, such as the number of nodes.")
    by: list[str] = Field(description="Contexts that get separate recommendations.")
    scale: list[str] = Field(
        default=[], description="Factors for the scale of the lab, mentioned only if a run varies them."
    )


class Recommended(Model):
    """A context for which the report gives a recommendation: its control, its size and its other conditions.

    `control` is the name of an arm. `size` is a number of nodes or of whatever `unit` names.
    """

    control: str
    size: str
    conditions: list[str]


class Recommendations(Model):
    metric: str
    also: list[str]
    unit: str = Field(description="Unit of the sizes, such as 'nodes'.")
    contexts: list[Recommended]


@dataclass(frozen=True)
class Finding:
    """The effect of an arm at one size, such as 7 nodes."""

    size: str
    arm: Arm
    effect: Effect

    @property
    def same(self) -> bool:
        """Return whether the arm's servers had the same set-up as the control's in all slices.

        The set-up is, for example, which member of a replica set replicates from which.
        """
        return self.arm.control_arm in self.arm.same_set_up


class RecommendationsSection(Section[Spec, Recommendations]):
    name, title, order = "recommendations", "Recommendations", 10
    spec, data = Spec, Recommendations

    def metrics(self, spec: Spec) -> list[str]:
        return [spec.metric, *spec.also]

    def compute(self, run: Run, core: Core, spec: Spec) -> Recommendations | None:
        """Return the cases to advise on, such as each number of nodes; None if an arm's number of nodes is unknown."""
        if not all(arm.levels.get(spec.sizes, "").isdigit() for arm in core.arms):
            return None
        study = run.plan.study
        return Recommendations(
            metric=spec.metric,
            also=spec.also,
            unit=study.factors[spec.sizes].label,
            contexts=[
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
        metric = index.metrics[data.metric]
        texts = [
            " ".join(f"With {', '.join(conditions)}, {each}." for each in _advice(index, metric, data.unit, findings))
            for conditions, findings in _groups(index, data)
        ]
        return [*sentences("answer", texts), *sentences("verdict", [" ".join(texts)] if texts else [])]

    def blocks(self, index: Index, data: Recommendations) -> Iterator[Block]:
        tables = []
        for context in data.contexts:
            arms = [arm for arm in index.arms if arm.control_arm == context.control]
            rows = [row for arm in arms for name in (data.metric, *data.also) for row in _rows(index, arm, name)]
            if rows:
                tables.append((", ".join([f"{context.size} {data.unit}", *context.conditions]), rows))
        note, published = "", index.core.published
        if published is not None:
            series = {
                arm.label: figure.series
                for arm in index.core.arms
                for figure in published.figures
                if figure.fits(arm.levels) and figure.series
            }
            note = published.cited + "".join(
                f" The published figures beside '{label}' were measured with {name}." for label, name in series.items()
            )
        head = [*COLUMNS[:CONTROL], index.control_heading, *COLUMNS[CONTROL + 1 :]]
        for title, rows in tables:
            yield Table.of(head, rows, title=title, texts=(0, VERDICT))
        if note and tables:
            yield Heading("Published figures", media=MARKDOWN)
            yield Paragraph(note, "note", media=FILES)


def _conditions(core: Core, study: Study, spec: Spec, arm: Arm) -> list[str]:
    """Return an arm's conditions in words, such as ['w:1'].

    The conditions are the arm's levels of the factors in `spec.by`. Levels of other context factors are added if they
    differ from the default. A factor in `spec.scale` is left out if all arms of the run have the same level.
    """
    levels = arm.levels
    scale = {name for name in spec.scale if len({each.levels.get(name) for each in core.arms}) == 1}
    differing = [
        factor.phrase(levels[name])
        for name, factor in study.factors.items()
        if factor.context and name not in (spec.sizes, *spec.by, *scale)
        if levels[name] in factor.levels and levels[name] != factor.default[0]
    ]
    return [*(study.factors[name].phrase(levels[name]) for name in spec.by), *differing]


def _rows(index: Index, arm: Arm, name: str) -> list[list[str | Cell]]:
    effect = index.effect(name, arm.name)
    if effect is None:
        return []
    measured: list[str | Cell] = [
        f"{index.metric_label(name)}, {arm.label}",
        fmt.with_unit(fmt.number(effect.control_value), effect.unit),
        fmt.with_unit(fmt.number(effect.value), effect.unit),
        Cell.of(fmt.relative(effect.printed_ratio)) if effect.printed_ratio else fmt.NONE,
        SAME_SET_UP if Finding("", arm, effect).same else verdict_words(effect, index.metrics[name]),
    ]
    published = []
    for figure in index.core.published_for(name, arm):
        if figure.control_value is None or figure.value is None:
            published.append([fmt.NONE, fmt.bare_ratio(figure.ratio) if figure.ratio else fmt.NONE])
        else:
            published.append([fmt.number(figure.control_value), fmt.number(figure.value)])
    first, *rest = published or [[fmt.NONE, fmt.NONE]]
    blank: list[str | Cell] = [""] * len(measured)
    return [[*measured, *first], *([*blank, *each] for each in rest)]


def _groups(index: Index, data: Recommendations) -> Iterator[tuple[list[str], list[Finding]]]:
    contexts = {context.control: context for context in data.contexts}
    groups: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for arm in index.arms:
        effect, context = index.effect(data.metric, arm.name), contexts.get(arm.control_arm or "")
        if effect is not None and context is not None and arm.error is None:
            key = (tuple(context.conditions), arm.label)
            groups.setdefault(key, []).append(Finding(context.size, arm, effect))
    for (conditions, _), findings in groups.items():
        yield list(conditions), sorted(findings, key=lambda each: float(each.size))


def _advice(index: Index, metric: Metric, unit: str, findings: list[Finding]) -> list[str]:
    """Return clauses about an arm: at which sizes to use it, and at which sizes not, or that it makes no difference."""
    label, control = (
        fmt.in_quotes(each) for each in (findings[0].arm.label, index.label(findings[0].arm.control_arm or ""))
    )
    instead = f"{label} instead of {control}"
    same = [each for each in findings if each.same]
    by_verdict = {verdict: [e for e in findings if not e.same and e.effect.verdict is verdict] for verdict in Verdict}
    margin = fmt.share(metric.margin)
    parts: list[str] = []
    if saving := by_verdict[Verdict.SAVES]:
        parts.append(f"use {instead} {_sizes(saving, findings, unit)} ({_amounts(metric, saving, unit)})")
    if costing := by_verdict[Verdict.COSTS]:
        what = label if parts else instead
        parts.append(f"do not use {what} {_sizes(costing, findings, unit)} ({_amounts(metric, costing, unit)})")
    for some, words in (
        (by_verdict[Verdict.NO_DIFFERENCE], f"makes no difference above {margin} {{at}}"),
        (same, "makes no difference {at}, where its servers replicated in the same tree as the control's"),
    ):
        if some:
            parts.append(f"{label} {words.format(at=_at(some, unit))}")
    if no_cost := by_verdict[Verdict.NO_COST]:
        worse, at = "lower" if metric.better == "higher" else "raise", _at(no_cost, unit)
        amounts = _amounts_listed(no_cost, unit)
        parts.append(f"{label} does not {worse} '{metric.label}' by more than {margin} {at} (measured: {amounts})")
    if unresolved := by_verdict[Verdict.UNRESOLVED]:
        at, amounts = _at(unresolved, unit), _amounts(metric, unresolved, unit)
        parts.append(f"the effect of {label} {at} is unresolved ({amounts})")
    return parts


def _sizes(some: Sequence[Finding], all_: Sequence[Finding], unit: str) -> str:
    """Return sizes in words: 'from 7 nodes on' if `some` are the last of `all_`, otherwise 'at 3 and 7 nodes'."""
    upwards = 0 < len(some) < len(all_) and all_[-len(some) :] == some
    return f"from {some[0].size} {unit} on" if upwards else _at(some, unit)


def _at(some: Sequence[Finding], unit: str) -> str:
    return f"at {fmt.listed([each.size for each in some])} {unit}"


def _amounts(metric: Metric, some: Sequence[Finding], unit: str) -> str:
    """Return findings in words: "effect on 'operations a second': +38 % with 7 nodes and +44 % with 9 nodes"."""
    return f"effect on '{metric.label}': {_amounts_listed(some, unit)}"


def _amounts_listed(some: Sequence[Finding], unit: str) -> str:
    """Return relative effects in words. The size is left out if there is only one finding."""
    parts = []
    for each in some:
        ratio = each.effect.ratio
        amount = fmt.relative(ratio) if ratio else fmt.absolute(each.effect.difference, each.effect.unit, signed=True)
        parts.append(f"{amount} with {each.size} {unit}" if len(some) > 1 else str(amount))
    return fmt.listed(parts)


SECTION = RecommendationsSection()
