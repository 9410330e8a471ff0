"""A `Result` as the reports read it: looked up by name, in the order of the study, ready to print.

Nothing is estimated here. What the three reports share (which arm is a row, which figure stands beside which) is
decided once, so that they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from costof.report import format as fmt
from costof.report.format import Shown
from costof.result import Arm, Effect, Metric, NoiseFloor, PublishedFigure, Result, Sentence, Table, Value, Verdict

VIEW_TITLES = {"app": "As the application sees it", "wire": "On the wire", "server": "At the server"}
CONNECTION_PHASES = ("tcp", "tls", "hello", "auth", "first_operation")
"""A connection's phases in the order they happen; `resolve` is never part of a lab's connection."""


@dataclass(frozen=True)
class PublishedRow:
    """A figure from the literature in the same columns as ours."""

    control: str
    value: str
    difference: str
    relative: str


@dataclass(frozen=True)
class EffectRow:
    """One effect ready to print; control, value and difference carry the same decimals so the sum can be checked."""

    metric: Metric
    arm: Arm
    effect: Effect
    control: str
    value: str
    difference: Shown
    relative: Shown
    verdict: str
    published: PublishedRow | None


@dataclass(frozen=True)
class ViewRows:
    """The effects of one view, headline metrics first as the study lists them."""

    view: str
    title: str
    rows: list[EffectRow]


class Reading:
    """Look-ups over one result. `control` and `twin` are None only where a run did not get that far."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.control: Arm | None = next((arm for arm in result.arms if arm.control and not arm.twin), None)
        self.twin: Arm | None = next((arm for arm in result.arms if arm.twin), None)
        self.arms = [arm for arm in result.arms if not arm.control and not arm.twin]
        """The arms with the protection, those in error included."""
        self._measured = {value.arm for value in result.values} | {effect.arm for effect in result.effects}
        self.metrics = {metric.name: metric for metric in result.metrics}
        self._values = {(value.metric, value.arm): value for value in result.values}
        self._effects = {(effect.metric, effect.arm): effect for effect in result.effects}

    @property
    def shown_arms(self) -> list[Arm]:
        """Control first, then the protected arms that have figures; the twin is noise and never stands among them."""
        arms = [self.control, *self.arms] if self.control else self.arms
        return [arm for arm in arms if arm.name in self._measured]

    @property
    def arms_in_error(self) -> list[Arm]:
        """Arms that say why they have no figures, or not all."""
        return [arm for arm in self.result.arms if arm.error]

    def failure(self, arm: Arm) -> str:
        """What an arm in error is said to be: an arm may fail in one view and still have figures in the other."""
        extent = "was measured in part only" if arm.name in self._measured else "has no figures"
        return f"{arm.label} {extent}: {arm.error}"

    @property
    def tables(self) -> list[Table]:
        """The study's own tables, but for those named like a view: the effects say the same and more."""
        views = {view.view for view in self.views}
        return [table for table in self.result.tables if table.name not in views]

    @property
    def control_name(self) -> str:
        """The control's name; 'control' where the run has none."""
        return self.control.name if self.control else "control"

    def label(self, arm: str) -> str:
        """The arm's label for people; the name itself where the result holds no such arm."""
        return next((each.label for each in self.result.arms if each.name == arm), arm)

    def metric_label(self, name: str) -> str:
        """The metric's label; its name where the result holds no such metric."""
        metric = self.metrics.get(name)
        return metric.label if metric else name

    def value(self, metric: str, arm: str) -> Value | None:
        """What the arm measured in the metric, if it did."""
        return self._values.get((metric, arm))

    def effect(self, metric: str, arm: str) -> Effect | None:
        """The arm's cost in the metric, if it could be compared."""
        return self._effects.get((metric, arm))

    def noise(self, metric: str) -> NoiseFloor | None:
        """The twin's difference in the metric."""
        return next((floor for floor in self.result.noise_floor if floor.metric == metric), None)

    def sentences(self, *kinds: str) -> list[Sentence]:
        """The statements of these kinds, in the order of the answer."""
        return [sentence for sentence in self.result.answer if sentence.kind in kinds]

    def published(self, metric: str, arm: str) -> PublishedFigure | None:
        """The figure of the literature for this metric and arm."""
        figures = self.result.published.figures if self.result.published else []
        return next((figure for figure in figures if figure.metric == metric and figure.arm == arm), None)

    @property
    def headline_metrics(self) -> list[Metric]:
        """The metrics that the question is answered by."""
        return [metric for metric in self.result.metrics if metric.headline]

    @cached_property
    def views(self) -> list[ViewRows]:
        """The effects by view, in the order of the study's metrics; views without an effect are left out."""
        names = list(dict.fromkeys(metric.view for metric in self.result.metrics))
        views = [ViewRows(name, VIEW_TITLES.get(name, f"View: {name}"), self._rows(name)) for name in names]
        return [view for view in views if view.rows]

    def _rows(self, view: str) -> list[EffectRow]:
        metrics = [metric for metric in self.result.metrics if metric.view == view]
        pairs = [(metric, arm, self.effect(metric.name, arm.name)) for metric in metrics for arm in self.arms]
        return [self._row(metric, arm, effect) for metric, arm, effect in pairs if effect is not None]

    def _row(self, metric: Metric, arm: Arm, effect: Effect) -> EffectRow:
        decimals = fmt.decimals_of(effect.difference)
        return EffectRow(
            metric=metric,
            arm=arm,
            effect=effect,
            control=fmt.number(effect.control_value, _at_least_two_digits(effect.control_value, decimals))
            if effect.control_value
            else fmt.NONE,
            value=fmt.number(effect.value, _at_least_two_digits(effect.value, decimals)),
            difference=fmt.absolute(effect.difference, signed=True, decimals=decimals),
            relative=fmt.relative(effect.ratio) if effect.ratio else Shown(fmt.NONE),
            verdict=verdict_words(effect, metric),
            published=_published_row(self.published(metric.name, arm.name)),
        )

    @property
    def many_arms(self) -> bool:
        """Whether a row has to say which arm it is."""
        return len(self.arms) > 1

    def phase_metrics(self) -> list[Metric]:
        """The metrics that are phases of a new connection, in the order they happen, of the view that has most."""
        best: list[Metric] = []
        for view in dict.fromkeys(metric.view for metric in self.result.metrics):
            of_view = [m for m in self.result.metrics if m.view == view and m.phase in CONNECTION_PHASES]
            ordered = sorted(of_view, key=lambda m: CONNECTION_PHASES.index(m.phase or ""))
            best = ordered if len(ordered) > len(best) else best
        return best if len(best) > 1 else []


def verdict_words(effect: Effect, metric: Metric) -> str:
    """The verdict as a person says it: the margin goes with 'no cost', the time still needed with 'unresolved'."""
    if effect.verdict is Verdict.NO_COST:
        return f"no cost above {fmt.share(metric.margin)}"
    if effect.verdict is Verdict.UNRESOLVED and effect.needed_seconds:
        return f"unresolved; about {fmt.roughly(effect.needed_seconds)} more"
    return effect.verdict.value


def _at_least_two_digits(value: float, decimals: int) -> int:
    """A wide interval may earn no decimals at all; a value still shows two digits, or 0.75 would read as 1."""
    return max(decimals, fmt.significant_decimals(value, 2))


def _published_row(figure: PublishedFigure | None) -> PublishedRow | None:
    if figure is None:
        return None
    decimals = max(fmt.significant_decimals(figure.control_value), fmt.significant_decimals(figure.value))
    return PublishedRow(
        control=fmt.number(figure.control_value, decimals),
        value=fmt.number(figure.value, decimals),
        difference=fmt.number(figure.value - figure.control_value, decimals, signed=True),
        relative=fmt.plain_ratio(figure.control_value, figure.value),
    )
