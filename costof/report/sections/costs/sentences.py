"""What the arms cost, in sentences that a person can quote; each follows from this run's own effects."""

from __future__ import annotations

from math import log
from operator import neg
from typing import NamedTuple

from costof import format as fmt
from costof.report.section import sentences
from costof.results.index import VIEWS, Index, hidden_by_noise
from costof.results.models import Arm, Effect, Metric, Sentence
from costof.statistics.estimate import Verdict

FIRST_CONTEXT = "as first measured"
"""A run's first context has no name; said only beside others."""
MOST_HEADLINES = 3
"""More sentences than these are no answer but a table, and the tables follow anyway."""


class Line(NamedTuple):
    """What is said of one protection in one metric: its effects in all settings, from near to far."""

    view: str
    metric: Metric
    effects: list[tuple[Arm, Effect]]

    @property
    def label(self) -> str:
        return self.effects[0][0].label

    @property
    def dearness(self) -> float:
        """Mean cost over the settings, as a log ratio: what protections are ranked by."""
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
        return [
            *sentences("answer", costs),
            *sentences("detail", [said(each, lines) for each in rest if each.effects]),
        ]
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
    """All that the headline metrics have to say, the most important view and metric first."""
    found, arms = [], index.answered
    for view in VIEWS:
        for metric in (metric for metric in index.headline_metrics if metric.view == view):
            for protection in dict.fromkeys(arm.protection for arm in arms):
                of = [(arm, index.told(metric.name, arm.name)) for arm in arms if arm.protection == protection]
                effects = [(arm, effect) for arm, effect in of if effect is not None]
                found += [Line(view, metric, effects)] if effects else []
    return found


def _headlines(lines: list[Line]) -> list[tuple[Line, str]]:
    """The first headline metric of each view, or of one view alone: each protection, or only dearest and cheapest."""
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
    """Whether no setting tells the two apart: their intervals overlap in all of them."""
    theirs = {arm.context: effect.ratio for arm, effect in other.effects}
    pairs = [(effect.ratio, theirs.get(arm.context)) for arm, effect in one.effects]
    return all(a is None or b is None or (a.low <= b.high and b.low <= a.high) for a, b in pairs)


def said(line: Line, lines: list[Line]) -> str:
    """One line as a sentence; the view is named where the run has more than one."""
    words = VIEWS[line.view] if len({each.view for each in lines}) > 1 else ""
    return f"{_who(words, line.label)} {_clauses(line)}."


def _who(words: str, label: str) -> str:
    """'On the wire, TLS' by a view's words, or 'TLS' where there are none."""
    return f"{fmt.capital(words)}, {label}" if words else fmt.capital(label)


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
    """What stands before and behind an amount. A rate is lost or raised, a time is added or taken off."""
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
    """The largest cost in the headline metrics that no headline is about, and where there is none."""
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
        found += [f"{_who(words, arm.label)} {fmt.listed(parts)}."] if parts else []
    return found
