"""A run's core result as the sections read it: looked up by name, in the order of the study.

Nothing is estimated here. What several sections share (which arm is a row, which context comes first) is decided once,
so that they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.results.models import Arm, Core, Effect, Metric, NoiseFloor, Sentence, Value
from costof.statistics.estimate import Verdict

VIEWS = {"app": "in the application", "wire": "on the wire", "command": ""}
"""The views that the answer speaks of, in its words: a command's figures speak for themselves."""
SAME_SET_UP = "no difference: same tree"
"""Instead of a verdict, where the servers were set up as the control's were."""


@dataclass(frozen=True)
class Lead:
    """How a section changes the answer: where it leads, all costs are details but those of `reference`."""

    leads: bool = False
    reference: str | None = None
    without: frozenset[str] = frozenset()
    """Arms that are no protection, but what a step starts from."""
    follow: frozenset[tuple[str, str]] = frozenset()
    """Effects, by metric and arm, that another one says already: the answer does not tell them a second time."""


@dataclass(frozen=True)
class Context:
    """A context of the run, such as a distance, with what was measured in it; a run without contexts has one."""

    name: str
    title: str
    control: Arm | None
    arms: list[Arm]
    shown_arms: list[Arm]
    at: str = ""
    """' at us-us', ' with keep-alive, …' within a sentence."""

    @property
    def suffix(self) -> str:
        """', us-us (44.648 ms)', to be put after a title; '' where there is one alone."""
        return f", {self.title}" if self.title else ""


def find_contexts(core: Core) -> list[Context]:
    """Return the contexts of a run from near to far; those of unknown distance keep their order, behind."""
    contexts = dict.fromkeys(arm.context for arm in core.arms)
    measured = {value.arm for value in core.values} | {effect.arm for effect in core.effects}
    found = []
    for context in sorted(contexts, key=lambda each: core.distances.get(each, float("inf"))):
        of = [arm for arm in core.arms if arm.context == context]
        control = next((arm for arm in of if arm.control and not arm.replicate), None)
        arms = [arm for arm in of if not arm.control and not arm.replicate]
        shown = [arm for arm in ([control, *arms] if control else arms) if arm.name in measured]
        title, away = of[0].where.removeprefix("with ") or context, core.distances.get(context)
        if context and away is not None:
            title = distance = fmt.milliseconds(away)
            # A distance may be asked for by its milliseconds alone.
            if context not in (distance.split(fmt.NBSP)[0], f"{away}"):
                title = f"{context} ({distance})"
        found.append(Context(context, title, control, arms, shown, of[0].at))
    return found


class Index:
    """Look-ups over one result, which may hold several contexts; `nearest` is the first of them."""

    def __init__(self, core: Core, leads: Sequence[Lead] = (), answer: Sequence[Sentence] = ()) -> None:
        self.core = core
        self.leads = leads
        self.answer = answer
        self.contexts = find_contexts(core)
        self.arms = [arm for arm in core.arms if not arm.control and not arm.replicate]
        """The arms with the protection in all contexts, those in error included."""
        self.protections = {arm.protection: arm.label for arm in self.arms}
        """Name -> label of what is protected with, whatever the distance."""
        self.replicates = {arm.name for arm in core.arms if arm.replicate}
        self._arms = {arm.name: arm for arm in core.arms}
        self._measured = {value.arm for value in core.values} | {effect.arm for effect in core.effects}
        self.metrics = {metric.name: metric for metric in core.metrics}
        self._values = {(value.metric, value.arm): value for value in core.values}
        self._effects = {(effect.metric, effect.arm): effect for effect in core.effects}

    @property
    def nearest(self) -> Context:
        """The context with the least distance; an empty one where the run has no arms."""
        return self.contexts[0] if self.contexts else Context("", "", None, [], [])

    @property
    def many_contexts(self) -> bool:
        """Whether a table has to name its context."""
        return len(self.contexts) > 1

    def arm(self, name: str) -> Arm | None:
        return self._arms.get(name)

    def context(self, arm: str) -> str:
        return self._arms[arm].context if arm in self._arms else ""

    def short(self, name: str) -> str:
        """The arm's name without its context, for where the context is said already."""
        arm = self._arms.get(name)
        return arm.protection if arm else name

    @property
    def shown_arms(self) -> list[Arm]:
        """Controls and protected arms that have figures, without control replicates."""
        return [arm for context in self.contexts for arm in context.shown_arms]

    @property
    def answered(self) -> list[Arm]:
        """The protected arms that the answer is about, from near to far."""
        without = {name for lead in self.leads for name in lead.without}
        arms = [arm for context in self.contexts for arm in context.arms]
        return [arm for arm in arms if arm.error is None and arm.name not in without]

    def told(self, metric: str, arm: str) -> Effect | None:
        """Return the arm's effect in the metric unless another sentence already tells it."""
        follows = any((metric, arm) in lead.follow for lead in self.leads)
        return None if follows else self.effect(metric, arm)

    @property
    def arms_in_error(self) -> list[Arm]:
        return [arm for arm in self.core.arms if arm.error]

    def failure(self, arm: Arm) -> str:
        """Describe an arm in error: it may fail in one view and still have figures in the other."""
        extent = "was measured in part only" if arm.name in self._measured else "has no figures"
        return f"{arm.label}{arm.at} {extent}: {arm.error}"

    @property
    def control_name(self) -> str:
        """The control's name, without its context; 'control' where the run has none."""
        return next((arm.protection for arm in self.core.arms if arm.control and not arm.replicate), "control")

    @property
    def control_label(self) -> str:
        """The control's label for people; 'control' where the run has none."""
        return next((arm.label for arm in self.core.arms if arm.control and not arm.replicate), "control")

    def label(self, arm: str) -> str:
        """Return the arm's label, or its name where the result holds no such arm."""
        return self._arms[arm].label if arm in self._arms else arm

    def label_at(self, arm: str) -> str:
        """'TLS 1.3 at us-us': the label with its context, within a sentence."""
        found = self._arms[arm]
        return found.label + found.at

    def metric_label(self, name: str) -> str:
        """Return the metric's label, or its name where the result holds no such metric."""
        metric = self.metrics.get(name)
        return metric.label if metric else name

    def workload_label(self, name: str) -> str:
        """Return the workload's label, or its name if the result holds no such workload."""
        return self.core.workloads.get(name, name)

    def metric_in_view(self, name: str) -> str:
        """Return such as "'reused query' on the wire": the view tells metrics of one label apart."""
        return in_view(self.metric_label(name), self.metrics[name].view if name in self.metrics else "")

    def metric_title(self, name: str) -> str:
        """Return such as 'reused query, on the wire', to stand by itself."""
        view = self.metrics[name].view if name in self.metrics else ""
        return ", ".join(filter(None, [self.metric_label(name), VIEWS.get(view)]))

    def value(self, metric: str, arm: str) -> Value | None:
        return self._values.get((metric, arm))

    def effect(self, metric: str, arm: str) -> Effect | None:
        return self._effects.get((metric, arm))

    def noise(self, metric: str, context: str) -> NoiseFloor | None:
        floors = self.core.noise_floor
        return next((floor for floor in floors if (floor.metric, floor.context) == (metric, context)), None)

    @property
    def unit(self) -> str:
        """The unit of intervals: 'round', or 'start' of the servers."""
        return "start" if self.core.starts else "round"

    @property
    def extent(self) -> str:
        """'12 rounds', '5 starts of 4 rounds', '5 starts of 3 to 4 rounds'."""
        starts = self.core.starts
        if not starts:
            return fmt.plural(self.core.rounds, "round")
        least, most = min(starts), max(starts)
        rounds = fmt.plural(most, "round")
        return f"{fmt.plural(len(starts), 'start')} of {rounds if least == most else f'{least:,} to {rounds}'}"

    def noise_lines(self) -> list[str]:
        """Return what identical copies, and starts of the same servers, differ by, each where it is most."""
        lines = []
        headline = {metric.name for metric in self.headline_metrics}
        floors = [floor for floor in self.core.noise_floor if floor.metric in headline] or self.core.noise_floor
        if floors:
            worst = max(floors, key=lambda floor: floor.relative)
            unit = self.metrics[worst.metric].unit if worst.metric in self.metrics else ""
            amount = fmt.with_unit(fmt.number(worst.absolute, fmt.significant_decimals(worst.absolute, 2)), unit)
            where = f"{self.metric_in_view(worst.metric)}{self.at(worst.context)}"
            lines.append(
                f"Two identical copies of {self.control_label} differ by up to {fmt.percent(worst.relative)} "
                f"({amount}, {where}): a difference below that is this run's own noise."
            )
        if self.core.between_starts:
            most = max(self.core.between_starts, key=lambda each: each.share.value)
            share = f"{fmt.percentage(most.share)} of the variance between them"
            where = f"('{self.metric_label(most.metric)}', where it is most)"
            lines.append(
                f"Starts of the servers differ by more than their rounds explain: that is {share} {where}. Intervals "
                "over rounds would be too narrow."
                if most.share.low > 0
                else f"Starts of the servers may differ by no more than their rounds explain: {share} is beyond that "
                f"{where}."
            )
        return lines

    def sentences(self, *kinds: str) -> list[Sentence]:
        return [sentence for sentence in self.answer if sentence.kind in kinds]

    def at(self, context: str) -> str:
        """Return ' at us-us' of a context's name, within a sentence."""
        return next((each.at for each in self.contexts if each.name == context), "")

    @property
    def headline_metrics(self) -> list[Metric]:
        return [metric for metric in self.core.metrics if metric.headline]

    @property
    def many_arms(self) -> bool:
        """Whether a row has to name its arm."""
        return len(self.protections) > 1

    @property
    def arm_heading(self) -> str:
        """The heading of the column with the protected figures."""
        return "arm" if self.many_arms else next(iter(self.protections), "arm")


def in_view(label: str, view: str) -> str:
    """Return such as "'reused query' on the wire"."""
    return f"'{label}' {VIEWS.get(view, '')}".rstrip()


def verdict_words(effect: Effect, metric: Metric) -> str:
    """Return the verdict in words: with its margin, or the time that 'unresolved' still needs."""
    if effect.verdict in (Verdict.NO_DIFFERENCE, Verdict.NO_COST):
        return effect.verdict.replace("the margin", fmt.share(metric.margin))
    if hidden_by_noise(effect):
        return "unresolved; within the noise"
    if effect.needed_seconds:
        return f"unresolved; about {fmt.roughly(effect.needed_seconds)} more"
    return "unresolved; too noisy" if effect.too_noisy else effect.verdict.value


def hidden_by_noise(effect: Effect) -> bool:
    """Return whether the interval excludes no effect, yet two identical copies may differ by as much."""
    within = effect.open is not None and effect.open.within_noise
    return within and effect.ratio is not None and not effect.ratio.low <= 1 <= effect.ratio.high
