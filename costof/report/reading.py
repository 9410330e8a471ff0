"""A `Result` as the reports read it: looked up by name, in the order of the study, ready to print.

Nothing is estimated here. What the three reports share (which arm is a row, which figure stands beside which) is
decided once, so that they cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from costof.analysis.result import Arm, Effect, Metric, NoiseFloor, Result, Sentence, Table, Value
from costof.document import format as fmt
from costof.document.format import Shown
from costof.document.palette import arm_colour
from costof.statistics.estimate import Verdict
from costof.study.published import PublishedFigure

VIEW_TITLES = {
    "app": "As the application sees it",
    "wire": "On the wire",
    "server": "At the server",
    "cpu": "CPU time, by role",
}
CONNECTION_PHASES = ("tcp", "greeting", "tls", "hello", "auth", "first_operation")
"""A connection's phases in the order they happen; `resolve` is never part of a lab's connection."""


@dataclass(frozen=True)
class PublishedRow:
    """A figure from the literature in the same columns as ours; '' where it was not published."""

    name: str
    control: str
    value: str
    difference: str
    relative: str
    ratio: float | None = None


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
    published: list[PublishedRow]


@dataclass(frozen=True)
class Setting:
    """A context of the run, such as a distance, with what was measured in it; a run without contexts is one setting."""

    context: str
    title: str
    control: Arm | None
    twin: Arm | None
    arms: list[Arm]
    shown_arms: list[Arm]
    at: str = ""
    """' at us-us', ' with keep-alive, …' within a sentence."""

    @property
    def suffix(self) -> str:
        """', us-us (44.648 ms)', to be put after a title; '' where there is one setting alone."""
        return f", {self.title}" if self.title else ""


@dataclass(frozen=True)
class ViewRows:
    """The effects of one view in one setting, in the order of the study's metrics."""

    view: str
    title: str
    rows: list[EffectRow]
    setting: Setting

    @property
    def headline(self) -> list[EffectRow]:
        """The rows that answer the question; all of them where none does."""
        return [row for row in self.rows if row.metric.headline] or self.rows


def settings(result: Result) -> list[Setting]:
    """The contexts of a run from near to far; those whose distance is not known keep their order, behind."""
    distances = result.cost_model.distances if result.cost_model else {}
    contexts = sorted(
        dict.fromkeys(arm.context for arm in result.arms), key=lambda context: distances.get(context, float("inf"))
    )
    measured = {value.arm for value in result.values} | {effect.arm for effect in result.effects}
    return [_setting(result, context, measured, distances.get(context)) for context in contexts]


def _setting(result: Result, context: str, measured: set[str], round_trip_ms: float | None) -> Setting:
    of = [arm for arm in result.arms if arm.context == context]
    control = next((arm for arm in of if arm.control and not arm.twin), None)
    arms = [arm for arm in of if not arm.control and not arm.twin]
    shown = [arm for arm in ([control, *arms] if control else arms) if arm.name in measured]
    twin = next((arm for arm in of if arm.twin), None)
    at = next((arm.at for arm in of), "")
    title = _context_title(context, round_trip_ms, next((arm.where for arm in of), ""))
    return Setting(context, title, control, twin, arms, shown, at)


def _context_title(context: str, round_trip_ms: float | None, where: str) -> str:
    if not context or round_trip_ms is None:
        return where.removeprefix("with ") or context
    told = fmt.milliseconds(round_trip_ms)
    # A distance may be asked for by its milliseconds alone.
    return told if context in (told.split(fmt.NBSP)[0], f"{round_trip_ms}") else f"{context} ({told})"


class Reading:
    """Look-ups over one result, which may hold several settings; `nearest` is the first of them."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.settings = settings(result)
        self.arms = [arm for arm in result.arms if not arm.control and not arm.twin]
        """The arms with the protection in all settings, those in error included."""
        self.protections = {arm.protection: arm.label for arm in self.arms}
        """Name -> label of what is protected with, whatever the distance."""
        self.twins = {arm.name for arm in result.arms if arm.twin}
        self._arms = {arm.name: arm for arm in result.arms}
        self._measured = {value.arm for value in result.values} | {effect.arm for effect in result.effects}
        self.metrics = {metric.name: metric for metric in result.metrics}
        self._values = {(value.metric, value.arm): value for value in result.values}
        self._effects = {(effect.metric, effect.arm): effect for effect in result.effects}

    @property
    def nearest(self) -> Setting:
        """The setting without, or with the least, distance; an empty one where the run has no arms."""
        return self.settings[0] if self.settings else Setting("", "", None, None, [], [])

    @property
    def many_settings(self) -> bool:
        """Whether a table has to say where it was measured."""
        return len(self.settings) > 1

    def arm(self, name: str) -> Arm | None:
        """The arm of that name."""
        return self._arms.get(name)

    def short(self, name: str) -> str:
        """The arm's name without its context, for where the context is said already."""
        arm = self._arms.get(name)
        return arm.protection if arm else name

    def colour(self, arm: Arm) -> str:
        """Name of the arm's colour: a protection keeps its own at every distance."""
        if arm.control:
            return "control"
        return arm_colour(list(self.protections).index(arm.protection))

    @property
    def shown_arms(self) -> list[Arm]:
        """Controls and protected arms that have figures; a twin is noise and never stands among them."""
        return [arm for setting in self.settings for arm in setting.shown_arms]

    @property
    def arms_in_error(self) -> list[Arm]:
        """Arms that say why they have no figures, or not all."""
        return [arm for arm in self.result.arms if arm.error]

    def failure(self, arm: Arm) -> str:
        """What an arm in error is said to be: an arm may fail in one view and still have figures in the other."""
        extent = "was measured in part only" if arm.name in self._measured else "has no figures"
        return f"{arm.label}{arm.at} {extent}: {arm.error}"

    @property
    def tables(self) -> list[Table]:
        """The study's own tables, but for those named like a view: the effects say the same and more."""
        views = {view.view for view in self.views}
        return [table for table in self.result.tables if table.name.split("@")[0] not in views]

    @property
    def control_name(self) -> str:
        """The control's name, without its context; 'control' where the run has none."""
        return next((arm.protection for arm in self.result.arms if arm.control and not arm.twin), "control")

    def label(self, arm: str) -> str:
        """The arm's label for people; the name itself where the result holds no such arm."""
        return self._arms[arm].label if arm in self._arms else arm

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

    def noise(self, metric: str, context: str) -> NoiseFloor | None:
        """The twin's difference in the metric, in one setting."""
        floors = self.result.noise_floor
        return next((floor for floor in floors if (floor.metric, floor.context) == (metric, context)), None)

    def sentences(self, *kinds: str) -> list[Sentence]:
        """The statements of these kinds, in the order of the answer."""
        return [sentence for sentence in self.result.answer if sentence.kind in kinds]

    def published(self, metric: str, arm: Arm) -> list[PublishedFigure]:
        """The figures of the literature for this metric and arm, one for each series."""
        return self.result.published_for(metric, arm)

    def at(self, context: str) -> str:
        """' at us-us' of a context's name, within a sentence."""
        return next((setting.at for setting in self.settings if setting.context == context), "")

    @property
    def headline_metrics(self) -> list[Metric]:
        """The metrics that the question is answered by."""
        return [metric for metric in self.result.metrics if metric.headline]

    @cached_property
    def views(self) -> list[ViewRows]:
        """The effects by view and setting, in the order of the study's metrics; what has no effect is left out."""
        names = list(dict.fromkeys(metric.view for metric in self.result.metrics))
        views = [
            ViewRows(name, view_title(name) + setting.suffix, self._rows(name, setting), setting)
            for name in names
            for setting in self.settings
        ]
        return [view for view in views if view.rows]

    def _rows(self, view: str, setting: Setting) -> list[EffectRow]:
        metrics = [metric for metric in self.result.metrics if metric.view == view]
        pairs = [(metric, arm, self.effect(metric.name, arm.name)) for metric in metrics for arm in setting.arms]
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
            published=[_published_row(figure) for figure in self.published(metric.name, arm)],
        )

    @property
    def many_arms(self) -> bool:
        """Whether a row has to say which arm it is."""
        return len(self.protections) > 1

    @property
    def arm_heading(self) -> str:
        """The heading of the column with the protected figures."""
        return "arm" if self.many_arms else next(iter(self.protections), "arm")

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
    if effect.waits_for_rounds:
        return f"unresolved; about {fmt.roughly(effect.needed_seconds or 0)} more"
    if effect.too_noisy:
        return "unresolved; too noisy"
    return effect.verdict.value


def _at_least_two_digits(value: float, decimals: int) -> int:
    """A wide interval may earn no decimals at all; a value still shows two digits, or 0.75 would read as 1."""
    return max(decimals, fmt.significant_decimals(value, 2))


def view_title(view: str) -> str:
    """'On the wire'."""
    return VIEW_TITLES.get(view, f"View: {view}")


def _published_row(figure: PublishedFigure) -> PublishedRow:
    name = f"published, {figure.series}" if figure.series else "published"
    control, value = figure.control_value, figure.value
    if control is None or value is None:
        relative = fmt.bare_ratio(figure.ratio) if figure.ratio is not None else fmt.NONE
        return PublishedRow(name, "", "", "", relative, figure.ratio)
    decimals = max(fmt.significant_decimals(control), fmt.significant_decimals(value))
    return PublishedRow(
        name=name,
        control=fmt.number(control, decimals),
        value=fmt.number(value, decimals),
        difference=fmt.number(value - control, decimals, signed=True),
        relative=fmt.plain_ratio(control, value),
    )
