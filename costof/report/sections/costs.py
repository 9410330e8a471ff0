"""What each arm costs: the sentences that answer the question, and the tables of all effects."""

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
    TERMINAL,
    TEXT,
    Block,
    Bullets,
    Cell,
    Column,
    Media,
    Paragraph,
    Part,
    Row,
    Table,
)
from costof.report.sections import Section, sentences
from costof.results.index import VIEWS, Context, Index, hidden_by_noise, verdict_words
from costof.results.models import Arm, Effect, Metric, Sentence
from costof.statistics.estimate import Verdict
from costof.study.commands import COMMAND
from costof.study.schema import PublishedFigure

NO_ROUNDS = "No round was completed, so there is no figure to show."
SIDE_EFFECTS = (
    "A side effect is a difference in a phase that TLS itself does not change. TCP and the greeting come before it: a "
    "server that still closes the connection before takes longer to accept the next one. What the hello saves, another "
    "phase has taken over: a server that forks for each connection does so in the TLS request, where there is one."
)
NO_EFFECTS = "No arm could be compared with the control, so there is no cost to show."


#: The noise floor's place among the parts.
NOISE_FLOOR_ORDER = 90


class CostsSection(Section[None, None]):
    name, title, order = "costs", "What it costs", 20

    def answer(self, index: Index, data: None) -> list[Sentence]:
        return statements(index)

    def parts(self, index: Index, data: None) -> list[Part]:
        """Return the costs; a console and Markdown have the noise floor as a part of its own."""
        lines = index.noise_lines()
        noise: list[Block] = [Bullets(lines, label="Noise floor", loose=True, media=TEXT)] if lines else []
        return [*super().parts(index, data), Part("noise_floor", "Noise floor", noise, order=NOISE_FLOOR_ORDER)]

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        found = views(index)
        if not found:
            yield Paragraph(NO_EFFECTS if index.core.rounds else NO_ROUNDS, "empty")
        for view in found:
            yield table(index, view, FILES)
            yield table(index, view, TERMINAL)
        if found:
            published = index.core.published
            legend = " ".join(
                [
                    f"Brackets hold the 95 % interval over {index.unit}s.",
                    f"Relative figures are means of the {index.unit}s' ratios.",
                    *([published.cited] if published else []),
                ]
            )
            other = "farther" if index.core.distances else "other"
            more = f" All metrics of the {other} settings are in the full report." if index.many_contexts else ""
            yield Paragraph(legend + (" Never mixed into our estimates." if published else ""), "note", media=FILES)
            yield Paragraph(legend + more, "note", media=TERMINAL)
        if any(
            effect and is_side_effect(effect, metric, arm) for view in found for metric, arm, effect in view.effects
        ):
            yield Paragraph(SIDE_EFFECTS, "note")
        if lines := index.noise_lines():
            yield Paragraph(" ".join(lines), label="Noise floor.", media=HTML)
        if index.core.errors:
            classes: dict[str, int] = {}
            for error in index.core.errors:
                classes[error.error_class] = classes.get(error.error_class, 0) + error.count
            kinds = fmt.listed([f"{number:,} {name}" for name, number in classes.items()])
            failed = fmt.plural(sum(classes.values()), "operation")
            yield Paragraph(f"{failed} failed: {kinds}.", label="Errors.", media=HTML)


FIRST_CONTEXT = "as first measured"
"""A run's first context has no name; said only beside others."""
MOST_HEADLINES = 3
"""More sentences than these are no answer but a table, and the tables follow anyway."""


class Line(NamedTuple):
    """What is said of one protection in one metric: its effects in all contexts, from near to far."""

    view: str
    metric: Metric
    effects: list[tuple[Arm, Effect]]

    @property
    def label(self) -> str:
        return self.effects[0][0].label

    @property
    def dearness(self) -> float:
        """Mean cost over the contexts, as a log ratio: protections are ranked by it."""
        ratios = [effect.ratio.value for _, effect in self.effects if effect.ratio and effect.ratio.value > 0]
        sign = 1 if self.metric.better == "lower" else -1
        return sign * sum(log(each) for each in ratios) / len(ratios) if ratios else 0.0


def statements(index: Index) -> list[Sentence]:
    """A sentence for each arm and view where these are few; else the most important ones, and the rest as details.

    Where another section leads, all are details but the costs of the arm that it refers to.
    """
    arms, lines = index.answered, _lines(index)
    reference = next((lead.reference for lead in index.leads if lead.reference), None)
    if reference:
        costs = [text for arm in arms if arm.name == reference for text in _costs(index, arm)]
        rest = [line._replace(effects=[pair for pair in line.effects if pair[0].name != reference]) for line in lines]
        return [*sentences("answer", costs), *sentences("detail", [said(each, lines) for each in rest if each.effects])]
    if any(lead.leads for lead in index.leads):
        return sentences("detail", [said(line, []) for line in lines])
    each = [text for arm in arms for text in _costs(index, arm)]
    if len({arm.context for arm in arms}) < 2 and len(each) <= MOST_HEADLINES:
        return sentences("answer", each)
    chosen = _headlines(lines)
    told = [line for line, _ in chosen]
    rest = [line for line in lines if line not in told]
    texts = [text for _, text in chosen]
    if len(texts) < MOST_HEADLINES and (others := _others(lines, rest, told)):
        texts.append(others)
    return [*sentences("answer", texts), *sentences("detail", [said(line, lines) for line in rest])]


def _lines(index: Index) -> list[Line]:
    found, arms = [], index.answered
    for view in VIEWS:
        for metric in (metric for metric in index.headline_metrics if metric.view == view):
            for protection in dict.fromkeys(arm.protection for arm in arms):
                of = [(arm, index.told(metric.name, arm.name)) for arm in arms if arm.protection == protection]
                effects = [(arm, effect) for arm, effect in of if effect is not None]
                found += [Line(view, metric, effects)] if effects else []
    return found


def _headlines(lines: list[Line]) -> list[tuple[Line, str]]:
    """Return the first headline metric of each view, or of one view: each protection, or only dearest and cheapest."""
    first = {line.view: line.metric.name for line in reversed(lines)}
    main = [line for line in lines if line.metric.name == first[line.view]]
    if len(main) > MOST_HEADLINES:
        main = [line for line in main if line.view == main[0].view]
    if len(main) <= MOST_HEADLINES:
        return [(line, said(line, lines)) for line in main]
    ranked = sorted(main, key=lambda line: line.dearness)
    most = "is among the dearest" if _alike(ranked[-1], ranked[-2]) else "costs most"
    least = "is among the cheapest" if _alike(ranked[0], ranked[1]) else "costs least"
    return [
        (ranked[-1], f"Of {len(main)} protections {ranked[-1].label} {most}: it {_clauses(ranked[-1])}."),
        (ranked[0], f"{ranked[0].label} {least}: it {_clauses(ranked[0])}."),
    ]


def _alike(one: Line, other: Line) -> bool:
    """Return whether their intervals overlap in all contexts."""
    theirs = {arm.context: effect.ratio for arm, effect in other.effects}
    pairs = [(effect.ratio, theirs.get(arm.context)) for arm, effect in one.effects]
    return all(a is None or b is None or (a.low <= b.high and b.low <= a.high) for a, b in pairs)


def said(line: Line, lines: list[Line]) -> str:
    """One line as a sentence; the view is named where the run has more than one."""
    words = VIEWS[line.view] if len({each.view for each in lines}) > 1 else ""
    return fmt.capital(f"{words}, {line.label} {_clauses(line)}." if words else f"{line.label} {_clauses(line)}.")


def _clauses(line: Line) -> str:
    """'loses 66.4 % of 'connections a second' at lan and raises it by 49 % at us-us': by verdict, the metric once."""
    name, parts = f"'{line.metric.label}'", []
    for verdict in dict.fromkeys(effect.verdict for _, effect in line.effects):
        of = [(arm, effect) for arm, effect in line.effects if effect.verdict is verdict]
        parts.append(_clause(line.metric, verdict, of, name))
        name = "it"
    return fmt.listed(parts)


def _clause(metric: Metric, verdict: Verdict, of: list[tuple[Arm, Effect]], name: str) -> str:
    if verdict is Verdict.NO_DIFFERENCE:
        return f"makes no difference above {fmt.share(metric.margin)} to {name}{_places(of)}"
    if verdict is Verdict.NO_COST:
        worsen = "lower" if metric.better == "higher" else "raise"
        return f"does not {worsen} {name} by more than {fmt.share(metric.margin)}{_places(of)}"
    before, after = _words(metric, verdict, name)
    first, *others = [(_amount(metric, effect), arm.at) for arm, effect in of]
    return fmt.listed([f"{before}{first[0]}{after}{first[1]}", *("".join(amount) for amount in others)])


def _places(of: list[tuple[Arm, Effect]]) -> str:
    """' at us-us and us-eu', the word before them once."""
    arms = [arm for arm, _ in of if arm.context]
    if not arms:
        return ""
    if any(arm.where and not arm.where.startswith("at ") for arm in arms):
        return " " + fmt.listed([arm.at.strip() or FIRST_CONTEXT for arm, _ in of])
    return f" at {fmt.listed([arm.context for arm in arms])}"


def _words(metric: Metric, verdict: Verdict, name: str) -> tuple[str, str]:
    """Return the words before and after an amount. A rate is lost or raised, a time is added or taken off."""
    rate = metric.better == "higher"
    match verdict:
        case Verdict.COSTS:
            return ("loses ", f" of {name}") if rate else ("adds ", f" to {name}")
        case Verdict.SAVES:
            return (f"raises {name} by ", "") if rate else ("takes ", f" off {name}")
        case _:
            return "has an unresolved effect of ", f" on {name}"


def _amount(metric: Metric, effect: Effect) -> str:
    """'24.1 % [23.5, 24.8]' of a rate, '14.2 ms [13.8, 14.7] (2.1×)' of a time; unsigned, but where unresolved."""
    saves = effect.verdict is Verdict.SAVES
    if effect.verdict is Verdict.UNRESOLVED:
        shown = fmt.relative(effect.ratio) if effect.ratio else fmt.absolute(effect.difference, effect.unit)
        return f"{shown}, within this run's own noise," if hidden_by_noise(effect) else str(shown)
    if metric.better == "higher" and effect.ratio is not None:
        return str(fmt.gain(effect.ratio) if saves else fmt.loss(effect.ratio))
    shown = fmt.absolute(effect.difference.through(neg) if saves else effect.difference, effect.unit)
    return f"{shown} ({fmt.relative(effect.ratio).value})" if effect.ratio is not None else str(shown)


def _others(lines: list[Line], rest: list[Line], told: list[Line]) -> str | None:
    """Return the largest cost in the headline metrics without a headline, and where there is none."""
    spoken = {line.metric.name for line in told}
    left = [line for line in rest if line.metric.name not in spoken]
    effects = [(line, arm, effect) for line in left for arm, effect in line.effects]
    if not effects:
        return None
    names = fmt.listed(list(dict.fromkeys(f"'{line.metric.label}'" for line in left)))
    costs = [each for each in effects if each[2].verdict is Verdict.COSTS]
    if not costs:
        open_ = sum(effect.verdict is Verdict.UNRESOLVED for *_, effect in effects)
        tail = f"; {open_} of {len(effects)} effects are unresolved" if open_ else ""
        return f"No cost was found in {names}{tail}."
    line, arm, _ = max(costs, key=lambda each: Line("", each[0].metric, [(each[1], each[2])]).dearness)
    most = line._replace(effects=[pair for pair in line.effects if pair[0] is arm])
    dear = {arm.context for _, arm, effect in effects if effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)}
    free = {arm.context: (arm, effect) for _, arm, effect in effects if arm.context not in dear}
    tail = f";{_places(list(free.values()))} no protection costs anything measurable there" if free else ""
    return f"The largest cost in {names}: {said(most, lines).rstrip('.')}{tail}."


def _costs(index: Index, arm: Arm) -> list[str]:
    """'On the wire, TLS adds 14.2 ms [13.8, 14.7] (2.1×) to 'connect' and …' for each view."""
    found = []
    for view, words in VIEWS.items():
        metrics = [metric for metric in index.headline_metrics if metric.view == view]
        parts = [
            _clause(metric, effect.verdict, [(arm, effect)], f"'{metric.label}'")
            for metric in metrics
            if (effect := index.told(metric.name, arm.name)) is not None
        ]
        who = f"{words}, {arm.label}" if words else arm.label
        found += [f"{fmt.capital(who)} {fmt.listed(parts)}."] if parts else []
    return found


TITLES = {
    "app": "As the application sees it",
    "wire": "On the wire",
    "command": "What the commands tell",
    "server": "At the server",
    "cpu": "CPU time, by role",
}


#: Phases of a connection that end before TLS begins, and the first one after it.
BEFORE_TLS, AFTER_TLS = ("resolve", "tcp", "greeting"), "hello"


@dataclass(frozen=True)
class View:
    title: str
    context: Context
    effects: list[tuple[Metric, Arm, Effect | None]]
    """None where a figure is missing: of commands that do not report it on the arm, or on its control."""


def views(index: Index) -> list[View]:
    found = []
    for name in dict.fromkeys(metric.view for metric in index.core.metrics):
        metrics = [metric for metric in index.core.metrics if metric.view == name]
        for context in index.contexts:
            pairs = [(metric, arm, index.effect(metric.name, arm.name)) for metric in metrics for arm in context.arms]
            missing = {(each.metric, each.arm) for each in index.core.missing}
            effects = [
                (metric, arm, effect)
                for metric, arm, effect in pairs
                if effect is not None or {(metric.name, arm.name), (metric.name, arm.baseline)} & missing
            ]
            title = TITLES.get(name, f"View: {name}") + context.suffix
            found += [View(title, context, effects)] if effects else []
    return found


def table(index: Index, view: View, media: Media) -> Table:
    """On a console one unit for all is in the head, and the farther contexts have only what answers the question."""
    console, effects, unit = media == TERMINAL, view.effects, ""
    if console and view.context is not index.nearest:
        # Near the servers a cost is easiest to see; farther away the headlines are enough for a console.
        effects = [each for each in effects if each[0].headline] or effects
    if console and len(units := {metric.unit for metric, *_ in effects}) == 1:
        unit = next(iter(units))
    rows = []
    for _, group in groupby(effects, key=lambda each: each[0].name):
        of_metric = list(group)
        metric = of_metric[0][0]
        label = Cell(metric.label if unit else fmt.titled(metric.label, metric.unit), code=metric.name)
        rows += [Row([label], "group")] if index.many_arms else []
        for _, arm, effect in of_metric:
            name = Cell(arm.protection, full=arm.label) if index.many_arms else label
            rows.append(_row(index, metric, effect, arm, name))
            rows += _published(index.core.published_for(metric.name, arm), together=console)
    first = fmt.UNITS.get(unit, unit) if console else "metric"
    columns = [
        Column("with" if index.many_arms else first, "text", width=26),
        Column(index.control_name, width=9.5),
        Column(index.arm_heading, width=9.5),
        Column("difference", width=17),
        Column("relative", width=16),
        Column("verdict", "verdict", width=22),
    ]
    return Table(columns, rows, view.title, group=first, media=media)


def _row(index: Index, metric: Metric, effect: Effect | None, arm: Arm, name: Cell) -> Row:
    """Control, value and difference carry the same decimals, so that the sum can be checked."""
    kind: Literal["headline", "plain"] = "headline" if metric.headline else "plain"
    if effect is None:
        # There may be one of the two values.
        values = [index.value(metric.name, each) if each else None for each in (arm.baseline, arm.name)]
        shown = [fmt.number(v.mean.value, fmt.significant_decimals(v.mean.value, 3)) if v else fmt.NONE for v in values]
        return Row([name, *map(Cell, [*shown, fmt.NONE, fmt.NONE, "missing: cannot be told"])], kind)
    decimals = fmt.estimate_decimals(effect.difference)
    control = fmt.number(effect.control_value, _two_digits(effect.control_value, decimals))
    verdict = verdict_words(effect, metric) + ("; side effect" if is_side_effect(effect, metric, arm) else "")
    cells = [
        name,
        # A control without a phase has 0 of it; a command that reports 0 has measured it.
        Cell(control if effect.control_value or metric.view == COMMAND else fmt.NONE),
        Cell(fmt.number(effect.value, _two_digits(effect.value, decimals))),
        Cell.of(fmt.absolute(effect.difference, signed=True, decimals=decimals)),
        Cell.of(fmt.relative(effect.ratio)) if effect.ratio else Cell(fmt.NONE),
        Cell(verdict, verdict=effect.verdict),
    ]
    return Row(cells, kind)


def is_side_effect(effect: Effect, metric: Metric, arm: Arm) -> bool:
    """Return whether a difference is in a phase that TLS cannot have changed, or that only passed work on."""
    speaks_tls = any(each.view == metric.view and "protocol" in each.facts for each in arm.evidence)
    if effect.verdict not in (Verdict.COSTS, Verdict.SAVES) or metric.headline or not speaks_tls:
        return False
    return metric.phase in BEFORE_TLS or (metric.phase == AFTER_TLS and effect.verdict is Verdict.SAVES)


def _two_digits(value: float, decimals: int) -> int:
    """A wide interval may earn no decimals at all; a value still shows two digits, or 0.75 would read as 1."""
    return max(decimals, fmt.significant_decimals(value, 2))


def _published(figures: list[PublishedFigure], *, together: bool) -> Iterator[Row]:
    """Yield figures of the literature; `together` makes one row of series whose ratio alone is known."""
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
