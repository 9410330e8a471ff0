"""The answer in sentences a person can quote; each follows from this run's own effects."""

from __future__ import annotations

from math import log
from typing import NamedTuple

from costof.analysis.result import Arm, BreakEven, Effect, Metric, Result, Sentence
from costof.document import format as fmt
from costof.errors import Caution
from costof.report import advice, split, winning_back
from costof.report.reading import settings
from costof.statistics.estimate import Estimate, Verdict
from costof.study.schema import Explanation, Study

VIEW_WORDS = {"app": "to the application", "wire": "on the wire"}
UNVERIFIED = ("verify", "none")
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


def answer(result: Result, study: Study) -> list[Sentence]:
    """What the arms cost in each view, in a few sentences; what explains it; from when it no longer matters."""
    ordered = [arm for setting in settings(result) for arm in setting.arms]
    bare = split.without(result)
    arms = [arm for arm in ordered if arm.error is None and arm.name not in bare]
    return [
        *_statements(result, study, arms),
        *(Sentence(kind="answer", text=text) for text in winning_back.sentences(result)),
        *(Sentence(kind="answer", text=text) for text in (split.answer(result) if result.split else [])),
        *(Sentence(kind="caution", text=text) for text in _unverified(arms)),
        *(Sentence(kind="explanation", text=text) for arm in arms for text in _explanations(result, study, arm)),
        *(Sentence(kind="break_even", text=text) for text in _all_break_evens(result, study, arms)),
        *(Sentence(kind="next", text=text) for text in _next_steps(result)),
    ]


def _statements(result: Result, study: Study, arms: list[Arm]) -> list[Sentence]:
    """A sentence for each arm and view where these are few; else the most important ones, and the rest as details."""
    each = [text for arm in arms for text in _costs(result, study, arm)]
    if advised := advice.sentences(result, study):
        details = [_said(line, []) for line in _lines(result, study, arms)]
        return [
            *(Sentence(kind="answer", text=text) for text in advised),
            *(Sentence(kind="detail", text=text) for text in details),
        ]
    if len({arm.context for arm in arms}) < 2 and len(each) <= MOST_HEADLINES and not result.cures:
        return [Sentence(kind="answer", text=text) for text in each]
    lines = _lines(result, study, arms)
    if result.cures:
        return _before_cures(result, study, arms, lines)
    chosen = _headlines(lines)
    told = [Sentence(kind="answer", text=text) for _, text in chosen]
    said = [line for line, _ in chosen]
    rest = [line for line in lines if line not in said]
    if len(told) < MOST_HEADLINES and (others := _others(lines, rest, said)):
        told.append(Sentence(kind="answer", text=others))
    return told + [Sentence(kind="detail", text=_said(line, lines)) for line in rest]


def _before_cures(result: Result, study: Study, arms: list[Arm], lines: list[Line]) -> list[Sentence]:
    """What the arm costs that the cures are held against; every other arm, and that one elsewhere, is a detail."""
    reference = next((arm for arm in arms if arm.name == result.cures[0].reference), None)
    told = _costs(result, study, reference) if reference else []
    rest = [line._replace(effects=[pair for pair in line.effects if pair[0] is not reference]) for line in lines]
    return [
        *(Sentence(kind="answer", text=text) for text in told),
        *(Sentence(kind="detail", text=_said(line, lines)) for line in rest if line.effects),
    ]


def _unverified(arms: list[Arm]) -> list[str]:
    """That certificates were not checked: TLS that anybody can stand in the middle of protects nothing."""
    off = [arm.label + arm.at for arm in arms for factor in arm.factors if (factor.name, factor.level) == UNVERIFIED]
    return [Caution.NOT_VERIFIED.text(arms=fmt.listed(off), how="verify = none")] if off else []


def _effect(result: Result, metric: str, arm: Arm) -> Effect | None:
    return next((effect for effect in result.effects if effect.metric == metric and effect.arm == arm.name), None)


def _metric(result: Result, name: str) -> Metric:
    return next(metric for metric in result.metrics if metric.name == name)


def _lines(result: Result, study: Study, arms: list[Arm]) -> list[Line]:
    """All that the headline metrics have to say, the most important view and metric first."""
    found = []
    for view in VIEW_WORDS:
        names = [n for n, m in study.metrics.items() if m.headline and study.workloads[m.workload].view == view]
        for name in names:
            for protection in dict.fromkeys(arm.protection for arm in arms):
                of = [(arm, _effect(result, name, arm)) for arm in arms if arm.protection == protection]
                effects = [(arm, effect) for arm, effect in of if effect is not None]
                found += [Line(view, _metric(result, name), effects)] if effects else []
    return found


def _headlines(lines: list[Line]) -> list[tuple[Line, str]]:
    """The first headline metric of each view, or of one view alone: each protection, or only dearest and cheapest."""
    first = {line.view: line.metric.name for line in reversed(lines)}
    main = [line for line in lines if line.metric.name == first[line.view]]
    if len(main) > MOST_HEADLINES:
        main = [line for line in main if line.view == main[0].view]
    if len(main) <= MOST_HEADLINES:
        return [(line, _said(line, lines)) for line in main]
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


def _said(line: Line, lines: list[Line]) -> str:
    """One line as a sentence; the view is named where the run has more than one."""
    view = VIEW_WORDS[line.view]
    who = f"{view[0].upper()}{view[1:]}, " if len({each.view for each in lines}) > 1 else ""
    return f"{who}{line.label if who else _capital(line.label)} {_clauses(line)}."


def _clauses(line: Line) -> str:
    """'loses 66.4 % of 'connections a second' at lan and raises it by 49 % at us-us': by verdict, the metric once."""
    name, parts = f"'{line.metric.label}'", []
    for verdict in dict.fromkeys(effect.verdict for _, effect in line.effects):
        of = [(arm, effect) for arm, effect in line.effects if effect.verdict is verdict]
        parts.append(_clause(line.metric, verdict, of, name))
        name = "it"
    return fmt.listed(parts)


def _clause(metric: Metric, verdict: Verdict, of: list[tuple[Arm, Effect]], name: str) -> str:
    if verdict is Verdict.NO_COST:
        return f"costs nothing measurable on {name} (within {fmt.share(metric.margin)}){_places(of)}"
    before, after = _words(metric, verdict, name)
    amounts = [(f"{_amount(metric, effect)}", arm.at) for arm, effect in of]
    first, *others = amounts
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
            return f"leaves {name} unresolved at ", ""


def _amount(metric: Metric, effect: Effect) -> str:
    """'24.1 % [23.5, 24.8]' of a rate, '14.2 ms [13.8, 14.7] (2.1×)' of a time; unsigned, but where unresolved."""
    saves = effect.verdict is Verdict.SAVES
    if effect.verdict is Verdict.UNRESOLVED:
        return str(fmt.relative(effect.ratio) if effect.ratio else fmt.absolute(effect.difference, effect.unit))
    if metric.better == "higher" and effect.ratio is not None:
        return str(fmt.gain(effect.ratio) if saves else fmt.loss(effect.ratio))
    shown = fmt.absolute(_mirrored(effect) if saves else effect.difference, effect.unit)
    return f"{shown} ({fmt.relative(effect.ratio).value})" if effect.ratio is not None else str(shown)


def _mirrored(effect: Effect) -> Estimate:
    low, high = -effect.difference.high, -effect.difference.low
    return effect.difference.model_copy(update={"value": -effect.difference.value, "low": low, "high": high})


def _others(lines: list[Line], rest: list[Line], said: list[Line]) -> str | None:
    """The largest cost in the headline metrics that no headline is about, and where there is none."""
    spoken = {line.metric.name for line in said}
    left = [line for line in rest if line.metric.name not in spoken]
    effects = [(line, arm, effect) for line in left for arm, effect in line.effects]
    if not effects:
        return None
    names = fmt.listed(list(dict.fromkeys(f"'{line.metric.label}'" for line in left)))
    costs = [each for each in effects if each[2].verdict is Verdict.COSTS]
    if not costs:
        open_ = sum(effect.verdict is Verdict.UNRESOLVED for *_, effect in effects)
        return f"No cost was found in {names}" + (
            f"; {open_} of {len(effects)} effects are unresolved." if open_ else "."
        )
    line, arm, _ = max(costs, key=lambda each: Line("", each[0].metric, [(each[1], each[2])]).dearness)
    most = line._replace(effects=[pair for pair in line.effects if pair[0] is arm])
    dear = {arm.context for _, arm, effect in effects if effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED)}
    free = {arm.context: (arm, effect) for _, arm, effect in effects if arm.context not in dear}
    tail = f";{_places(list(free.values()))} no protection costs anything measurable there" if free else ""
    return f"Of {names} the largest cost: {_said(most, lines).rstrip('.')}{tail}."


def _costs(result: Result, study: Study, arm: Arm) -> list[str]:
    sentences = []
    for view, words in VIEW_WORDS.items():
        effects = [
            effect
            for name, metric in study.metrics.items()
            if metric.headline and study.workloads[metric.workload].view == view
            if (effect := _effect(result, name, arm)) is not None
        ]
        if effects:
            parts = fmt.listed([_cost(result, arm, effect) for effect in effects])
            who = words[0].upper() + words[1:]
            sentences.append(f"{who}, {arm.label} {parts}.")
    return sentences


def _cost(result: Result, arm: Arm, effect: Effect) -> str:
    """'adds 14.2 ms [13.8, 14.7] (2.1×) to 'connect and first query''."""
    metric = _metric(result, effect.metric)
    return _clause(metric, effect.verdict, [(arm, effect)], f"'{metric.label}'")


def _explanations(result: Result, study: Study, arm: Arm) -> list[str]:
    return [
        text
        for explanation in study.explanations
        if (text := _explanation(result, study, arm, explanation)) is not None
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _explanation(result: Result, study: Study, arm: Arm, explanation: Explanation) -> str | None:
    """What the wire explains of the application's cost, and how much CPU of the client's own goes with it."""
    application = _effect(result, explanation.application, arm)
    wire = _effect(result, explanation.wire, arm)
    if application is None or wire is None or application.verdict is not Verdict.COSTS:
        return None
    unit = application.unit
    part = wire.difference.value / application.difference.value
    where = f"{_capital(arm.at.strip())}, of the" if arm.context else "Of the"
    text = (
        f"{where} {fmt.absolute(application.difference, unit).value} that {arm.label} adds for {explanation.client}, "
        f"one connection on the wire explains {fmt.absolute(wire.difference, unit).value} ({fmt.share(round(part, 2))})"
    )
    cpu = _extra_client_cpu_ms(result, study.metrics[explanation.application].workload, arm)
    opened = _connections_per_client(arm)
    if cpu is not None and cpu > 0:
        text += f"; {explanation.client}'s own CPU time grows by {fmt.number(cpu)} ms a client"
        text += f", which opens {fmt.number(opened, 1)} connections to that server" if opened is not None else ""
    return text + "."


def _extra_client_cpu_ms(result: Result, workload: str, arm: Arm) -> float | None:
    """CPU of the client per operation, arm minus control; milliseconds (seconds per 1,000 are the same number)."""
    control = arm.baseline or next(other.name for other in result.arms if other.control)
    used = {cpu.arm: cpu.seconds_per_1000.get("client") for cpu in result.cpu if cpu.workload == workload}
    mine, base = used.get(arm.name), used.get(control)
    return mine - base if mine is not None and base is not None else None


def _connections_per_client(arm: Arm) -> float | None:
    for evidence in arm.evidence:
        clients = int(evidence.facts.get("clients", "0"))
        counted = evidence.facts.get("connections counted by the server")
        if clients and counted:
            return int(counted) / clients
    return None


def _all_break_evens(result: Result, study: Study, arms: list[Arm]) -> list[str]:
    """A sentence an arm and view; with several settings one a protection, the nearest settings first."""
    if len({arm.context for arm in arms}) < 2:
        return [text for arm in arms for text in _break_evens(result, arm)]
    share = max((point.share for point in result.break_even), default=0.0)
    sentences = []
    for view, words in VIEW_WORDS.items():
        for protection in dict.fromkeys(arm.protection for arm in arms):
            of = [arm for arm in arms if arm.protection == protection]
            found = {(point.arm, point.view): point for point in result.break_even if point.share == share}
            points = [(arm, point) for arm in of if (point := found.get((arm.name, view)))]
            if points:
                parts = fmt.listed([f"{_from(point)}{arm.at}" for arm, point in points])
                who = words[0].upper() + words[1:]
                sentences.append(f"{who}, {of[0].label} costs under {fmt.share(share)} {parts}.")
    return sentences


def _break_evens(result: Result, arm: Arm) -> list[str]:
    sentences = []
    for view, words in VIEW_WORDS.items():
        points = [point for point in result.break_even if point.arm == arm.name and point.view == view]
        if points:
            who = words[0].upper() + words[1:]
            parts = [f"under {fmt.share(point.share)} {_from(point)}" for point in points]
            sentences.append(f"{who}, {arm.label} costs {fmt.listed(parts)}.")
    return sentences


def _from(point: BreakEven) -> str:
    """'from 52 queries a connection [48, 57]'."""
    if point.operations is None:
        if point.low is None:
            return "at no number of queries a connection"
        earliest = fmt.plural_of(_whole(point.low), "query", "queries")
        return f"from {earliest} a connection at the earliest, or never (this run cannot tell which)"
    if point.high is not None and point.high <= 1:
        return "from the first query on"
    low = _whole(point.low or 0)
    high = _whole(point.high) if point.high is not None else "no upper end in this run"
    return f"from {fmt.plural_of(_whole(point.operations), 'query', 'queries')} a connection [{low}, {high}]"


def _whole(operations: float) -> str:
    # Rounded up: at the one below the share is not yet kept.
    return fmt.number(-(-operations // 1), 0)


def _next_steps(result: Result) -> list[str]:
    """What would resolve the headline effects that are unresolved."""
    metrics = {metric.name: metric for metric in result.metrics if metric.headline}
    headline = [effect for effect in result.effects if effect.metric in metrics]
    waiting = [effect for effect in headline if effect.waits_for_rounds]
    noisy = [effect for effect in headline if effect.too_noisy]
    steps = []
    if waiting:
        longest = max(effect.needed_seconds or 0.0 for effect in waiting)
        option = "--rounds" if result.rounds_asked is not None else "--budget"
        steps.append(
            f"To resolve {_names(waiting)} would take about {fmt.roughly(longest)} more of measuring ({option})."
        )
    if noisy:
        bounds = [_most(effect, metrics[effect.metric]) for effect in noisy]
        known = [bound for bound in bounds if bound is not None]
        at_most = fmt.with_unit(fmt.number(100 * max(known), 1), "%") if known else None
        ruled_out = f" What it does tell: a cost of more than {at_most} is unlikely." if at_most else ""
        longer = " (--profile default)" if result.profile == "quick" else ""
        steps.append(
            f"This run is too noisy to resolve {_names(noisy)}, and more rounds on it would take longer than they are "
            f"worth.{ruled_out} What would help is a machine with nothing else running, longer slices{longer}, or a "
            "larger margin in the study's file, if a cost of that size does not matter to you."
        )
    return steps


def _names(effects: list[Effect]) -> str:
    return fmt.listed(list(dict.fromkeys(effect.metric for effect in effects)))


def _most(effect: Effect, metric: Metric) -> float | None:
    """The relative cost at the bad end of the effect's interval; None where there is none."""
    if effect.ratio is None or effect.ratio.low <= 0:
        return None
    return max(0.0, effect.ratio.high - 1 if metric.better == "lower" else 1 / effect.ratio.low - 1)
