"""Costs: the sentences about each arm at the top of the report, and the tables of all effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import log
from operator import neg
from typing import Literal, NamedTuple

from costof import format as fmt
from costof.report.blocks import (
    FILES,
    HTML,
    MARKDOWN,
    TERMINAL,
    TEXT,
    Block,
    Bullets,
    Cell,
    Column,
    Heading,
    Media,
    Paragraph,
    Part,
    Row,
    Table,
)
from costof.report.key_figures import KeyFigure, of_effect, uneven_lines
from costof.report.sections import Section, sentences
from costof.report.verdict_sentence import predicate
from costof.results.index import VIEWS, Context, Index, hidden_by_noise, unresolved_by_correction, verdict_words
from costof.results.models import Arm, Effect, Metric, Sentence
from costof.statistics.estimate import Verdict
from costof.study.commands import COMMAND
from costof.study.schema import PublishedFigure

QUOTIENT = " If the ratio of a row's two figures clearly differs from this mean, the row shows their ratio instead."
BOTH_VIEWS = (
    " “On the wire” means measured by costof's own client, without an application's driver; “in the application” means "
    "measured through such a driver."
)
NO_ROUNDS = "No round was completed, so there are no figures."
SIDE_EFFECTS = "“Side effect” marks a difference in a phase that TLS itself does not change."
LONGER_BEFORE_TLS = (
    "The {phases} {come} before TLS, but {take} longer if the server is still closing the previous connection."
)
SHORTER_AFTER_TLS = (
    "The {phases} {come} after TLS, and {take} less time if the server has already done part of the work, such as "
    "forking a process for the connection."
)
ALONE = "The run has no variant to compare with the control, so there are no costs."
NO_EFFECTS = "No variant could be compared with the control, so there are no costs."


#: The position of the part "Noise floor" on the page. The section itself has position 20.
NOISE_FLOOR_ORDER = 90


class CostsSection(Section[None, None]):
    name, title, order = "costs", "What it costs", 20

    def answer(self, index: Index, data: None) -> list[Sentence]:
        return statements(index)

    def key_figures(self, index: Index, data: None) -> list[KeyFigure]:
        """Return the effects in headline metrics, except those that another section shows as its key figures."""
        return [
            of_effect(index, metric, effect)
            for arm in index.answered
            if index.has_key_figures(arm.name)
            for metric in index.headline_metrics
            if (effect := index.effect_to_report(metric.name, arm.name)) is not None
            if not any((metric.name, arm.name) in lead.in_figures for lead in index.leads)
        ]

    def parts(self, index: Index, data: None) -> list[Part]:
        """Return the part with the costs and, for terminals and Markdown, a separate part with the noise floor."""
        lines = index.noise_lines()
        noise: list[Block] = [Bullets(lines, label="Noise floor", loose=True, media=TEXT)] if lines else []
        return [*super().parts(index, data), Part("noise_floor", "Noise floor", noise, order=NOISE_FLOOR_ORDER)]

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        shown = views(index)
        if not shown:
            alone = all(arm.control or arm.replicate for arm in index.core.arms)
            yield Paragraph(NO_ROUNDS if not index.core.rounds else ALONE if alone else NO_EFFECTS, "empty")
        for view in shown:
            yield table(index, view, FILES)
            yield table(index, view, TERMINAL)
        if shown:
            published = index.core.published
            effects = [(metric, effect) for view in shown for metric, _, effect in view.effects if effect is not None]
            disagreeing = any(effect.ratio_disagrees for _, effect in effects)
            headline = [of_effect(index, metric, effect) for metric, effect in effects if metric.headline]
            if lines := uneven_lines(headline, index.unit):
                yield Paragraph(" ".join(lines))
            legend = " ".join(
                [
                    f"Brackets contain the 95 % confidence interval over {index.unit}s.",
                    f"A relative effect is the geometric mean over {index.unit}s of the ratio of a variant's figure to "
                    f"the control's."
                    f"{QUOTIENT if disagreeing else ''}{BOTH_VIEWS if index.many_views else ''}",
                ]
            )
            other = "at the farther distances" if index.core.distances else "under the other conditions"
            more = f" The full report has all metrics {other}." if index.many_contexts else ""
            yield Paragraph(legend, "note", media=FILES)
            cited = f" {published.cited}" if published else ""
            yield Paragraph(legend + cited + more, "note", media=TERMINAL)
        if note := side_effects_note(shown):
            yield Paragraph(note, "note")
        if shown and published:
            yield Heading("Published figures", media=MARKDOWN)
            yield Paragraph(f"{published.cited} Published figures are only for comparison.", "note", media=FILES)
        if lines := index.noise_lines():
            yield Paragraph(" ".join(lines), label="Noise floor.", media=HTML)
        if index.core.errors:
            classes: dict[str, int] = {}
            for error in index.core.errors:
                classes[error.error_class] = classes.get(error.error_class, 0) + error.count
            kinds = fmt.listed([f"{number:,} {name}" for name, number in classes.items()])
            failed = fmt.plural(sum(classes.values()), "operation")
            yield Paragraph(f"{failed} failed: {kinds}.", label="Errors.", media=HTML)


MOST_HEADLINES = 3
"""The maximum number of sentences about costs at the top of the report. The tables have the other figures."""


class Line(NamedTuple):
    """The effects of one protection on one metric, in all contexts (such as distances), the nearest first."""

    view: str
    metric: Metric
    effects: list[tuple[Arm, Effect]]

    @property
    def label(self) -> str:
        return self.effects[0][0].label

    @property
    def mean_cost(self) -> float:
        """Return the mean log ratio over all contexts, such as distances. A higher value is more expensive."""
        ratios = [effect.ratio.value for _, effect in self.effects if effect.ratio and effect.ratio.value > 0]
        sign = 1 if self.metric.better == "lower" else -1
        return sign * sum(log(each) for each in ratios) / len(ratios) if ratios else 0.0


def statements(index: Index) -> list[Sentence]:
    """Return the sentences about each arm's costs, on the wire and in the application.

    Each sentence is a main sentence (`answer`) or a detail:

    - If a section names a reference arm (`Lead.reference`), the main sentences are those about this arm.
    - If another section begins the answer (`Lead.leads`), all sentences are details.
    - Otherwise, the most important sentences are main sentences. If there are few sentences, all are main sentences.
    """
    arms, lines = index.answered, _lines(index)
    reference = index.reference
    if reference:
        costs = [text for arm in arms if arm.name == reference for text in _costs(index, arm)]
        rest = [line._replace(effects=[pair for pair in line.effects if pair[0].name != reference]) for line in lines]
        return [
            *sentences("answer", costs),
            *sentences("detail", [sentence(each, lines) for each in rest if each.effects]),
        ]
    if any(lead.leads for lead in index.leads):
        return sentences("detail", [sentence(line, lines) for line in lines])
    each = [text for arm in arms for text in _costs(index, arm)]
    if len({arm.context for arm in arms}) < 2 and len(each) <= MOST_HEADLINES:
        return sentences("answer", each)
    headlines = _headlines(lines)
    shown = [line for line, _ in headlines]
    rest = [line for line in lines if line not in shown]
    texts = [text for _, text in headlines]
    if len(texts) < MOST_HEADLINES and (largest := _largest_other_cost(lines, rest, shown)):
        texts.append(largest)
    return [*sentences("answer", texts), *sentences("detail", [sentence(line, lines) for line in rest])]


def _lines(index: Index) -> list[Line]:
    lines, arms = [], index.answered
    for view in VIEWS:
        for metric in (metric for metric in index.headline_metrics if metric.view == view):
            for protection in dict.fromkeys(arm.protection for arm in arms):
                pairs = [
                    (arm, index.effect_to_report(metric.name, arm.name)) for arm in arms if arm.protection == protection
                ]
                effects = [(arm, effect) for arm, effect in pairs if effect is not None]
                lines += [Line(view, metric, effects)] if effects else []
    return lines


def _headlines(lines: list[Line]) -> list[tuple[Line, str]]:
    """Return sentences about the first headline metric on the wire and about the first one in the application.

    There is a sentence for each protection. If there are more than `MOST_HEADLINES` sentences, return only those on the
    wire. If there are more than `MOST_HEADLINES` on the wire, return only those about the most expensive and the
    cheapest protection.
    """
    first = {line.view: line.metric.name for line in reversed(lines)}
    main = [line for line in lines if line.metric.name == first[line.view]]
    if len(main) > MOST_HEADLINES:
        main = [line for line in main if line.view == main[0].view]
    if len(main) <= MOST_HEADLINES:
        return [(line, sentence(line, lines)) for line in main]
    ranked = sorted(main, key=lambda line: line.mean_cost)
    most = "is one of the most expensive" if _overlap(ranked[-1], ranked[-2]) else "is the most expensive"
    least = "is one of the cheapest" if _overlap(ranked[0], ranked[1]) else "is the cheapest"
    return [
        (
            ranked[-1],
            f"{fmt.capital(ranked[-1].label)} {most} of {len(main)} protections. {sentence(ranked[-1], [])}",
        ),
        (ranked[0], f"{fmt.capital(ranked[0].label)} {least}. {sentence(ranked[0], [])}"),
    ]


def _overlap(one: Line, other: Line) -> bool:
    """Return whether the intervals of two protections overlap in all contexts, such as at all distances."""
    ratios = {arm.context: effect.ratio for arm, effect in other.effects}
    pairs = [(effect.ratio, ratios.get(arm.context)) for arm, effect in one.effects]
    return all(a is None or b is None or (a.low <= b.high and b.low <= a.high) for a, b in pairs)


def sentence(line: Line, lines: list[Line]) -> str:
    """Return the sentence about a line: the effects of one protection on one metric.

    `lines` has all lines of the answer. If some lines are measured on the wire and others in the application,
    the sentence begins with where this line was measured, such as 'on the wire'.
    """
    view = VIEWS[line.view] if len({each.view for each in lines}) > 1 else ""
    return " ".join(_in_view(f"{line.label} {each}", view) for each in _clauses(line)) + _noise(line)


def _in_view(text: str, view: str) -> str:
    """Return a sentence about an arm that begins with its view, such as 'on the wire', if that is not ''."""
    return fmt.capital(f"{view}, {text}." if view else f"{text}.")


def _noise(line: Line) -> str:
    """Return a sentence about resolved effects within the noise between identical copies; '' if there are none.

    The clauses about unresolved effects mention this noise themselves.
    """
    hidden = [
        (arm, effect)
        for arm, effect in line.effects
        if hidden_by_noise(effect) and effect.verdict is not Verdict.UNRESOLVED
    ]
    if not hidden:
        return ""
    return (
        f" Two identical copies of the control differ in '{line.metric.label}'{_places(hidden)} as much as "
        f"{line.label} and the control do."
    )


def _why_unresolved(effect: Effect) -> str:
    """Return why an effect is unresolved although its interval excludes 0; '' if the interval includes 0."""
    if hidden_by_noise(effect):
        return "; identical copies of the control differ as much"
    return "; not significant after the correction for several effects" if unresolved_by_correction(effect) else ""


def _clauses(line: Line) -> list[str]:
    """Return a predicate for each verdict of a line: "lowers 'connections a second' by 66.4 % on the LAN"."""
    found = dict.fromkeys(effect.verdict for _, effect in line.effects)
    by_verdict = [(each, [pair for pair in line.effects if pair[1].verdict is each]) for each in found]
    return [
        " ".join(_clause(line.metric, verdict, effects, f"'{line.metric.label}'", with_places=len(line.effects) > 1))
        for verdict, effects in by_verdict
    ]


def _clause(
    metric: Metric, verdict: Verdict, effects: list[tuple[Arm, Effect]], name: str, *, with_places: bool = False
) -> tuple[str, str]:
    """Return the verb and the object of a clause about effects with the same verdict.

    For example ('lowers', "'queries a second' by 12 % on the LAN"). `name` is the metric's label in quotes.
    """
    rate = metric.better == "higher"
    if verdict is Verdict.NO_DIFFERENCE:
        return f"makes no difference above {fmt.share(metric.margin)} to", f"{name}{_places(effects)}"
    if verdict is Verdict.NO_COST:
        return f"does not {'lower' if rate else fmt.verbs(metric.unit).more.removesuffix('s')}", (
            f"{name} by more than {fmt.share(metric.margin)}{_places(effects)}"
        )
    has_places = with_places or any(arm.place_in_words for arm, _ in effects)
    if verdict is Verdict.UNRESOLVED:
        parts = [
            fmt.with_aside(arm.place_in_words, f"{_amount(metric, effect)}{_why_unresolved(effect)}")
            for arm, effect in effects
        ]
        return "has an unresolved effect on", f"{name} {fmt.listed(parts)}"
    less, more = fmt.verbs(metric.unit)
    if has_places:
        verb = less if rate == (verdict is Verdict.COSTS) else more
        amounts = [f"by {_amount(metric, effect)} {arm.place_in_words}".rstrip() for arm, effect in effects]
        return verb, f"{name} {fmt.listed(amounts)}"
    amount = _amount(metric, effects[0][1])
    if verdict is Verdict.COSTS:
        return ("lowers", f"{name} by {amount}") if rate else ("adds", f"{amount} to {name}")
    return "raises" if rate else less, f"{name} by {amount}"


def cost_clause(index: Index, metric: Metric, effect: Effect) -> str:
    """Return what an arm costs as a predicate, such as "adds 0.5 ms [0.4, 0.6] (+86 %) to 'query' on the wire"."""
    arm = index.arm(effect.arm)
    assert arm is not None
    return " ".join(_clause(metric, Verdict.COSTS, [(arm, effect)], index.metric_in_view(metric.name)))


def _places(effects: list[tuple[Arm, Effect]]) -> str:
    """Return the contexts of effects as text, such as ' at us-us and us-eu'; '' if the run has only one context."""
    places = [place for arm, _ in effects if (place := arm.place_in_words)]
    if places and all(place.startswith("at ") for place in places):
        return f" at {fmt.listed([place.removeprefix('at ') for place in places])}"
    return f" {fmt.listed(places)}" if places else ""


def _amount(metric: Metric, effect: Effect) -> str:
    """Return the size of an effect: '24.1 % [23.5, 24.8]' for a rate, '14.2 ms [13.8, 14.7] (×2.1)' for a time.

    For an unresolved effect on a rate or a time, return the relative change with its sign.
    """
    saves = effect.verdict is Verdict.SAVES
    if effect.verdict is Verdict.UNRESOLVED:
        ratio, unit = effect.printed_ratio, effect.unit
        return str(fmt.relative(ratio) if ratio else fmt.absolute(effect.difference, unit, signed=True))
    if metric.better == "higher" and effect.printed_ratio is not None:
        return str(fmt.gain(effect.printed_ratio) if saves else fmt.loss(effect.printed_ratio))
    shown = fmt.absolute(effect.difference.through(neg) if saves else effect.difference, effect.unit)
    return f"{shown} ({fmt.relative(effect.printed_ratio).value})" if effect.printed_ratio is not None else str(shown)


def _largest_other_cost(lines: list[Line], rest: list[Line], shown: list[Line]) -> str | None:
    """Return a sentence about the largest cost in `rest`, in metrics that no line in `shown` covers.

    Return None if `rest` has no such metrics.
    """
    metrics = {line.metric.name for line in shown}
    remaining = [line for line in rest if line.metric.name not in metrics]
    effects = [(line, arm, effect) for line in remaining for arm, effect in line.effects]
    if not effects:
        return None
    names = fmt.listed([*dict.fromkeys(f"'{line.metric.label}'" for line in remaining)])
    costs = [each for each in effects if each[2].verdict is Verdict.COSTS]
    if not costs:
        unresolved = sum(effect.verdict is Verdict.UNRESOLVED for *_, effect in effects)
        tail = f" {unresolved} of {len(effects)} effects are unresolved." if unresolved else ""
        return f"The run found no cost in {names}.{tail}"
    line, arm, _ = max(costs, key=lambda each: Line("", each[0].metric, [(each[1], each[2])]).mean_cost)
    most = line._replace(effects=[pair for pair in line.effects if pair[0] is arm])
    costly = {arm.context for _, arm, effect in effects if effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)}
    free = {arm.context: (arm, effect) for _, arm, effect in effects if arm.context not in costly}
    tail = f" No protection has a measurable cost{_places(list(free.values()))} in {names}." if free else ""
    return f"{sentence(most, lines)}{tail}"


def _costs(index: Index, arm: Arm) -> list[str]:
    """Return the text about an arm's effects for each view, such as "On the wire, TLS adds 14.2 ms to 'connect'.".

    Effects with different verbs, such as 'adds' and 'lowers', are in different sentences.
    """
    texts = []
    for view, words in VIEWS.items():
        metrics = [metric for metric in index.headline_metrics if metric.view == view]
        lines = [
            Line(view, metric, [(arm, effect)])
            for metric in metrics
            if (effect := index.effect_to_report(metric.name, arm.name)) is not None
        ]
        clauses: dict[str, list[tuple[str, str]]] = {}
        for line in lines:
            clause = _clause(line.metric, line.effects[0][1].verdict, line.effects, f"'{line.metric.label}'")
            clauses.setdefault(clause[0], []).append(clause)
        place = words if index.many_views else ""
        parts = [_in_view(f"{arm.label} {predicate(each, subjects=1)}", place) for each in clauses.values()]
        if parts:
            texts.append(f"{' '.join(parts)}{''.join(map(_noise, lines))}")
    return texts


TITLES = {
    "app": "In the application",
    "wire": "On the wire",
    "command": "Figures of the commands",
    "server": "At the server",
    "cpu": "CPU time, by role",
}


#: Phases of a connection that end before TLS begins, and the first phase after TLS.
BEFORE_TLS, AFTER_TLS = ("resolve", "tcp", "greeting"), "hello"


@dataclass(frozen=True)
class View:
    """The content of one table: the effects in the metrics of one view (such as on the wire), in one context."""

    title: str
    context: Context
    effects: list[tuple[Metric, Arm, Effect | None]]
    """The effects in the table.

    An effect is None if the command of the arm or of its control does not report the figure.
    """


def views(index: Index) -> list[View]:
    shown = []
    for name in dict.fromkeys(metric.view for metric in index.core.metrics):
        metrics = [metric for metric in index.core.metrics if metric.view == name]
        for context in index.contexts:
            pairs = [(metric, arm, index.effect(metric.name, arm.name)) for metric in metrics for arm in context.arms]
            missing = {(each.metric, each.arm) for each in index.core.missing}
            effects = [
                (metric, arm, effect)
                for metric, arm, effect in pairs
                if effect is not None or {(metric.name, arm.name), (metric.name, arm.control_arm)} & missing
            ]
            title = TITLES.get(name, f"View: {name}") + context.suffix
            shown += [View(title, context, effects)] if effects else []
    return shown


def table(index: Index, view: View, media: Media) -> Table:
    """Return the table of one group of metrics, such as those on the wire, in one context.

    A table for a terminal is smaller: in contexts other than the nearest one, it has only headline metrics. If all
    metrics have the same unit, the unit is only in the heading.
    """
    terminal, effects, unit = media == TERMINAL, view.effects, ""
    if terminal and view.context is not index.nearest:
        effects = [each for each in effects if each[0].headline] or effects
    if terminal and len(units := {metric.unit for metric, *_ in effects}) == 1:
        unit = next(iter(units))
    rows = []
    for _, group in groupby(effects, key=lambda each: each[0].name):
        metric_effects = list(group)
        metric = metric_effects[0][0]
        label = Cell(metric.label if unit else fmt.titled(metric.label, metric.unit))
        rows += [Row([label], "group")] if index.many_arms else []
        for _, arm, effect in metric_effects:
            name = Cell(index.short(arm.name), full=arm.label) if index.many_arms else label
            rows.append(_row(index, metric, effect, arm, name))
            rows += _published(index.core.published_for(metric.name, arm), together=terminal)
    first = fmt.UNITS.get(unit, unit) if terminal else "metric"
    columns = [
        Column("variant" if index.many_arms else first, "text", width=26),
        Column(index.control_heading, width=9.5),
        Column(index.arm_heading, width=9.5),
        Column("difference", width=17),
        Column("relative", width=16),
        Column("verdict", "verdict", width=22),
    ]
    return Table(columns, rows, view.title, group=first, media=media)


def _row(index: Index, metric: Metric, effect: Effect | None, arm: Arm, name: Cell) -> Row:
    """Return a row whose control value, value and difference have the same decimals, so that readers can subtract."""
    kind: Literal["headline", "plain"] = "headline" if metric.headline else "plain"
    if effect is None:
        values = [index.value(metric.name, each) if each else None for each in (arm.control_arm, arm.name)]
        shown = [fmt.number(v.mean.value, fmt.significant_decimals(v.mean.value, 3)) if v else fmt.NONE for v in values]
        return Row([name, *map(Cell, [*shown, fmt.NONE, fmt.NONE, "missing"])], kind)
    decimals = fmt.estimate_decimals(effect.difference)
    control = fmt.number(effect.control_value, _two_digits(effect.control_value, decimals))
    verdict = verdict_words(effect, metric) + ("; side effect" if is_side_effect(effect, metric, arm) else "")
    cells = [
        name,
        # A value of 0 usually means that the control has no such phase, so the cell shows no number. A command,
        # however, may have measured the value 0.
        Cell(control if effect.control_value or metric.view == COMMAND else fmt.NONE),
        Cell(fmt.number(effect.value, _two_digits(effect.value, decimals))),
        Cell.of(fmt.absolute(effect.difference, signed=True, decimals=decimals)),
        Cell.of(fmt.relative(effect.printed_ratio)) if effect.printed_ratio else Cell(fmt.NONE),
        Cell(verdict, verdict=effect.verdict),
    ]
    return Row(cells, kind)


def side_effects_note(shown: list[View]) -> str:
    """Return a note on the side effects of TLS in these tables, with the reasons for them; '' if there are none.

    A side effect is a change in a phase of the connection that TLS itself does not change (`is_side_effect`).
    """
    longer: dict[str, None] = {}
    shorter: dict[str, None] = {}
    found = False
    for metric, arm, effect in (each for view in shown for each in view.effects):
        if effect is None or not is_side_effect(effect, metric, arm):
            continue
        found = True
        if metric.phase == AFTER_TLS:
            shorter[metric.label] = None
        elif effect.verdict is Verdict.COSTS:
            longer[metric.label] = None
    texts = [SIDE_EFFECTS] if found else []
    for template, labels in ((LONGER_BEFORE_TLS, longer), (SHORTER_AFTER_TLS, shorter)):
        if labels:
            noun, come, take = ("phase", "comes", "takes") if len(labels) == 1 else ("phases", "come", "take")
            names = fmt.listed([f"'{label}'" for label in labels])
            texts.append(template.format(phases=f"{noun} {names}", come=come, take=take))
    return " ".join(texts)


def is_side_effect(effect: Effect, metric: Metric, arm: Arm) -> bool:
    """Return whether an arm with TLS costs or saves time in a phase of the connection that TLS itself does not change.

    This is true for costs and savings in the phases before TLS begins, and for savings in the first phase after TLS.
    """
    speaks_tls = any(each.view == metric.view and "protocol" in each.facts for each in arm.evidence)
    if effect.verdict not in (Verdict.COSTS, Verdict.SAVES) or metric.headline or not speaks_tls:
        return False
    return metric.phase in BEFORE_TLS or (metric.phase == AFTER_TLS and effect.verdict is Verdict.SAVES)


def _two_digits(value: float, decimals: int) -> int:
    """Return `decimals`, or as many as `value` needs for two significant digits: 0.75 must not be printed as 1."""
    return max(decimals, fmt.significant_decimals(value, 2))


def _published(figures: list[PublishedFigure], *, together: bool) -> Iterator[Row]:
    """Yield a row for each figure from the literature, to compare it with the measured figure.

    If `together` is true, yield a single row with the lowest and the highest ratio instead. This needs several figures,
    each with a ratio.
    """
    ratios = sorted(figure.ratio for figure in figures if figure.ratio is not None)
    if together and len(figures) > 1 and len(ratios) == len(figures):
        least, greatest = fmt.bare_ratio(ratios[0]), fmt.bare_ratio(ratios[-1])
        span = f"{least.removesuffix(f'{fmt.NBSP}%')} to {greatest}"
        yield Row([*map(Cell, ["published", "", "", "", span, ""])], "published", "")
        return
    for figure in figures:
        before, after = figure.control_value, figure.value
        if before is None or after is None:
            short = fmt.bare_ratio(figure.ratio) if figure.ratio is not None else fmt.NONE
            cells = ["", "", "", short]
        else:
            decimals = max(fmt.significant_decimals(before), fmt.significant_decimals(after))
            numbers = [fmt.number(before, decimals), fmt.number(after, decimals)]
            cells = [*numbers, fmt.number(after - before, decimals, signed=True), fmt.plain_ratio(before, after)]
            short = f"{cells[0]} → {cells[1]} ({cells[3]})"
        name = f"published, {figure.series}" if figure.series else "published"
        aside = f"{figure.series}: {short}" if figure.series else short
        yield Row([*map(Cell, [name, *cells, ""])], "published", aside)


SECTION = CostsSection()
