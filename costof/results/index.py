"""Look-ups by name in a core result, for the sections of a report.

This module also decides what all sections must agree on, such as which arms are rows of tables and which context (such
as a distance) comes first. It computes no estimates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from costof import format as fmt
from costof.results.models import Arm, Core, Effect, Metric, NoiseFloor, Sentence, Value
from costof.statistics.estimate import Verdict

VIEWS = {"app": "in the application", "wire": "on the wire", "command": ""}
"""The views (on the wire, in the application, of a command) and their words in a sentence.

Sentences about the figures of a command do not mention the view.
"""
SAME_SET_UP = "no difference: same tree"
"""Text instead of a verdict if arm and control had the same set-up: each member of the replica set replicated from the
same member in both."""


@dataclass(frozen=True)
class Lead:
    """The changes that a section makes to the sentences at the top of the report.

    - `leads`: the section's sentences begin the report, and all sentences about costs are details below them.
    - `reference`: the only arm whose costs are main sentences; None if all arms may have main sentences.
    - `fills_summary`: the summary has only the section's figures and reasons, because they answer what the run asks.
    """

    leads: bool = False
    reference: str | None = None
    beside: frozenset[str] = frozenset()
    """Arms beside the reference that are protections of their own. The summary has key figures of them too."""
    fills_summary: bool = False
    without: frozenset[str] = frozenset()
    """Arms that the sentences leave out because they are not protections, such as an arm without the gateway."""
    follow: frozenset[tuple[str, str]] = frozenset()
    """Effects, as (metric, arm), that have no sentence because they follow from other sentences."""
    computed_away: bool = False
    """Whether the section computes its key figures for a longer distance, because the run measured on one machine."""
    words: Mapping[str, str] = field(default_factory=dict)
    """By metric, its name in the section's sentences, such as 'a new connection'."""
    judged_by: str = ""
    """The metric by which the section judges mitigations."""
    in_figures: frozenset[tuple[str, str]] = frozenset()
    """Effects, as (metric, arm), that the section shows as key figures. Other sections do not show them again."""


@dataclass(frozen=True)
class Context:
    """A context of the run, such as a distance, with its arms. A run without contexts has a single unnamed one."""

    name: str
    title: str
    control: Arm | None
    arms: list[Arm]
    shown_arms: list[Arm]
    at: str = ""
    """The context (such as a distance) as words to append to a sentence: ' at us-us', ' with keep-alive'."""

    @property
    def suffix(self) -> str:
        """Return the context to append to a title, such as ', us-us (45 ms)'; '' for an unnamed context."""
        return f", {self.title}" if self.title else ""


def find_contexts(core: Core) -> list[Context]:
    """Return the contexts of a run, the nearest first. Contexts without a distance come last, in the run's order."""
    contexts = dict.fromkeys(arm.context for arm in core.arms)
    measured = {value.arm for value in core.values} | {effect.arm for effect in core.effects}
    ordered = []
    for context in sorted(contexts, key=lambda each: core.distances.get(each, float("inf"))):
        members = [arm for arm in core.arms if arm.context == context]
        control = next((arm for arm in members if arm.control and not arm.replicate), None)
        arms = [arm for arm in members if not arm.control and not arm.replicate]
        shown = [arm for arm in ([control, *arms] if control else arms) if arm.name in measured]
        words, away = members[0].context_in_words, core.distances.get(context)
        title = words.removeprefix("with ") or context
        if context and away is not None and len(set(core.distances.values())) > 1 and "," not in context:
            title = distance = fmt.milliseconds(away)
            # A context whose name is its distance in milliseconds needs no second number.
            if context not in (distance.split(fmt.NBSP)[0], f"{away}"):
                title = f"{context} ({fmt.away(away)})"
        ordered.append(Context(context, title, control, arms, shown, members[0].at))
    return ordered


class Index:
    def __init__(self, core: Core, leads: Sequence[Lead] = (), answer: Sequence[Sentence] = ()) -> None:
        self.core = core
        self.leads = leads
        self.answer = answer
        self.contexts = find_contexts(core)
        self.arms = [arm for arm in core.arms if not arm.control and not arm.replicate]
        """All arms of all contexts (such as distances), including arms in error, without controls and their copies."""
        self.protections = {arm.protection: arm.label for arm in self.arms}
        """Labels of the protections by name; a protection is the same at every distance."""
        self.replicates = {arm.name for arm in core.arms if arm.replicate}
        self._arms = {arm.name: arm for arm in core.arms}
        self._measured = {value.arm for value in core.values} | {effect.arm for effect in core.effects}
        self.metrics = {metric.name: metric for metric in core.metrics}
        self._values = {(value.metric, value.arm): value for value in core.values}
        self._effects = {(effect.metric, effect.arm): effect for effect in core.effects}

    @property
    def nearest(self) -> Context:
        """Return the context with the smallest distance; an empty one if the run has no arms."""
        return self.contexts[0] if self.contexts else Context("", "", None, [], [])

    @property
    def many_contexts(self) -> bool:
        """Return whether there are several contexts, such as distances. If so, each table has to name its context."""
        return len(self.contexts) > 1

    @property
    def reference(self) -> str | None:
        """Return the only arm whose costs are main sentences of the report; None if no section chooses such an arm."""
        return next((lead.reference for lead in self.leads if lead.reference), None)

    def has_key_figures(self, arm: str) -> bool:
        """Return whether the summary shows the arm: False if sections choose other arms (`reference` or `beside`)."""
        shown = {name for lead in self.leads if lead.reference for name in (lead.reference, *lead.beside)}
        return not shown or arm in shown

    @property
    def summary_is_filled(self) -> bool:
        """Return whether the summary has figures and reasons of only one section (`Lead.fills_summary`)."""
        return any(lead.fills_summary for lead in self.leads)

    @property
    def computed_away(self) -> bool:
        """Return whether a section computes key figures for a longer distance than the distance of the measurements."""
        return any(lead.computed_away for lead in self.leads)

    @property
    def judged_by(self) -> list[str]:
        """Return the metrics by which sections judge mitigations."""
        return [lead.judged_by for lead in self.leads if lead.judged_by]

    def arm(self, name: str) -> Arm | None:
        return self._arms.get(name)

    def context(self, arm: str) -> str:
        return self._arms[arm].context if arm in self._arms else ""

    def short(self, name: str) -> str:
        """Return the arm's name without its context (such as a distance).

        If the name of any protection is a number, return the arm's label instead.
        """
        arm = self._arms.get(name)
        if arm is None:
            return name
        return arm.label if any(each.isdigit() for each in self.protections) else arm.protection

    @property
    def shown_arms(self) -> list[Arm]:
        """Return the controls and protected arms that have figures."""
        return [arm for context in self.contexts for arm in context.shown_arms]

    @property
    def answered(self) -> list[Arm]:
        """Return the arms that the sentences at the top of the report cover, those at the nearest distance first.

        They are the protected arms that are not in error and that no section leaves out (`Lead.without`).
        """
        without = {name for lead in self.leads for name in lead.without}
        arms = [arm for context in self.contexts for arm in context.arms]
        return [arm for arm in arms if arm.error is None and arm.name not in without]

    def effect_to_report(self, metric: str, arm: str) -> Effect | None:
        """Return the arm's effect in the metric; None if another sentence already reports it."""
        follows = any((metric, arm) in lead.follow for lead in self.leads)
        return None if follows else self.effect(metric, arm)

    @property
    def arms_in_error(self) -> list[Arm]:
        return [arm for arm in self.core.arms if arm.error]

    def failure(self, arm: Arm) -> str:
        """Return a sentence about an arm in error, which has no figures, or figures in only one view."""
        extent = "was only partly measured" if arm.name in self._measured else "has no figures"
        return f"{arm.label}{arm.at} {extent}: {arm.error}"

    @property
    def control_label(self) -> str:
        """Return the label of the first control, such as 'plain'; 'control' if the run has no control."""
        return next((arm.label for arm in self.core.arms if arm.control and not arm.replicate), "control")

    @property
    def control_heading(self) -> str:
        return "control" if self.control_label == "control" else f"control: {self.control_label}"

    def label(self, arm: str) -> str:
        """Return the arm's label, or its name if the result does not have the arm."""
        return self._arms[arm].label if arm in self._arms else arm

    def label_at(self, arm: str) -> str:
        """Return the arm's label with its context, such as 'TLS 1.3 at us-us'; its name if the result lacks the arm."""
        entry = self._arms.get(arm)
        return entry.label + entry.where if entry else arm

    def subject(self, arm: str) -> str:
        """Return the arm as the subject of a sentence, with its context before it: 'with one client, a flush'."""
        entry = self._arms.get(arm)
        if entry is None:
            return arm
        return f"{entry.where.strip()}, {entry.label}" if entry.where else entry.label

    def quoted(self, arm: str) -> str:
        """Return the arm's label, in quotes if needed, with its context behind it: "'plain' at us-us"."""
        entry = self._arms.get(arm)
        return f"{fmt.in_quotes(entry.label)}{entry.where}" if entry else f"'{arm}'"

    def metric_label(self, name: str) -> str:
        metric = self.metrics.get(name)
        return metric.label if metric else name

    def workload_label(self, name: str) -> str:
        return self.core.workloads.get(name, name)

    def metric_in_view(self, name: str) -> str:
        """Return the metric's label in quotes with its view, if that needs naming: "'SCRAM' on the wire"."""
        return f"'{self.metric_label(name)}' {self.view_words(name)}".rstrip()

    def view_words(self, name: str) -> str:
        """Return the metric's view, such as 'on the wire'; '' if it is the only view of headline metrics."""
        view = self.metrics[name].view if name in self.metrics else ""
        known = self.many_views or view not in {metric.view for metric in self.headline_metrics}
        return VIEWS.get(view, "") if known else ""

    def metric_words(self, name: str) -> str:
        """Return the metric as the summary names it: 'a new connection', or its label in quotes."""
        words = next((lead.words[name] for lead in self.leads if name in lead.words), "")
        return words or f"'{self.metric_label(name)}'"

    def metric_title(self, name: str) -> str:
        """Return the label as a title, with the view if that needs naming: 'query on open connection, on the wire'."""
        return ", ".join(filter(None, [self.metric_label(name), self.view_words(name)]))

    def value(self, metric: str, arm: str) -> Value | None:
        return self._values.get((metric, arm))

    def effect(self, metric: str, arm: str) -> Effect | None:
        return self._effects.get((metric, arm))

    def noise(self, metric: str, context: str) -> NoiseFloor | None:
        floors = self.core.noise_floor
        return next((floor for floor in floors if (floor.metric, floor.context) == (metric, context)), None)

    @property
    def unit(self) -> str:
        """Return the unit over which intervals are computed: 'round', or 'start' if the servers were restarted."""
        return "start" if self.core.starts else "round"

    @property
    def extent(self) -> str:
        """Return the size of the run, such as '12 rounds' or '5 starts of 3 to 4 rounds'."""
        starts = self.core.starts
        if not starts:
            return fmt.plural(self.core.rounds, "round")
        least, most = min(starts), max(starts)
        rounds = fmt.plural(most, "round")
        return f"{fmt.plural(len(starts), 'start')} of {rounds if least == most else f'{least:,} to {rounds}'}"

    def noise_lines(self) -> list[str]:
        """Return sentences about the largest noise between identical arms and between server starts."""
        lines = []
        headline = {metric.name for metric in self.headline_metrics}
        of_headline = [floor for floor in self.core.noise_floor if floor.metric in headline]
        floors, scope = (of_headline, "main metrics") if of_headline else (self.core.noise_floor, "metrics")
        if floors:
            worst = max(floors, key=lambda floor: floor.relative)
            unit = self.metrics[worst.metric].unit if worst.metric in self.metrics else ""
            amount = fmt.with_unit(fmt.number(worst.absolute, fmt.significant_decimals(worst.absolute, 2)), unit)
            place = next((arm.where for arm in self.core.arms if arm.context == worst.context), "")
            where = self.metric_in_view(worst.metric) + place
            lines.append(
                f"The control ('{self.control_label}') was measured as two identical copies. Among the {scope}, these "
                f"copies differ most in {where}: by {fmt.percent(worst.relative)} ({amount}). An effect of "
                f"{fmt.percent(worst.relative)} or less in {where} may be noise."
            )
        if self.core.between_starts:
            most = max(self.core.between_starts, key=lambda each: each.share.value)
            share = f"{fmt.percentage(most.share)} of the variance between starts of the servers"
            where = f"('{self.metric_label(most.metric)}', the largest share)"
            lines.append(
                f"The differences between rounds do not explain {share} {where}. Intervals over rounds would be too "
                "narrow."
                if most.share.low > 0
                else f"The differences between rounds may explain all differences between starts of the servers: they "
                f"leave {share} unexplained {where}."
            )
        return lines

    def sentences(self, *kinds: str) -> list[Sentence]:
        return [sentence for sentence in self.answer if sentence.kind in kinds]

    @property
    def headline_metrics(self) -> list[Metric]:
        return [metric for metric in self.core.metrics if metric.headline]

    @property
    def many_views(self) -> bool:
        """Return whether headline metrics are measured in several views (on the wire, in an application).

        If so, each figure has to name its view. CPU time and figures of servers have no view to name.
        """
        return len({metric.view for metric in self.headline_metrics if VIEWS.get(metric.view)}) > 1

    @property
    def many_arms(self) -> bool:
        """Return whether the run has several protections. If so, each row of a table has to name its arm."""
        return len(self.protections) > 1

    @property
    def arm_heading(self) -> str:
        """Return the heading of the column with the figures of protected arms: the arm's label if there is only one."""
        return "this arm" if self.many_arms else next(iter(self.protections.values()), "arm")


def in_view(label: str, view: str) -> str:
    """Return a metric's label with its view, such as "'query on open connection' on the wire"."""
    return f"'{label}' {VIEWS.get(view, '')}".rstrip()


def verdict_words(effect: Effect, metric: Metric) -> str:
    """Return the verdict in words, with its margin.

    If the effect is unresolved, add the reason or the further time that would resolve it.
    """
    if effect.verdict in (Verdict.NO_DIFFERENCE, Verdict.NO_COST):
        return effect.verdict.replace("the margin", fmt.share(metric.margin))
    if hidden_by_noise(effect):
        return "unresolved; within the noise"
    if effect.needed_seconds:
        return f"unresolved; about {fmt.roughly(effect.needed_seconds)} more"
    return "unresolved; too noisy" if effect.too_noisy else effect.verdict.words(metric.better)


def hidden_by_noise(effect: Effect) -> bool:
    """Return whether the effect is unresolved only because identical copies of the control differ by as much."""
    within = effect.unresolved is not None and effect.unresolved.within_noise
    return within and effect.ratio is not None and not effect.ratio.low <= 1 <= effect.ratio.high


def unresolved_by_correction(effect: Effect) -> bool:
    """Return whether the effect is unresolved only because verdicts are corrected for several effects."""
    if effect.verdict is not Verdict.UNRESOLVED or effect.unresolved is None or effect.unresolved.within_noise:
        return False
    ratio, difference = effect.ratio, effect.difference
    outside = difference.low > 0 or difference.high < 0
    return outside and (ratio is None or not ratio.low <= 1 <= ratio.high)
