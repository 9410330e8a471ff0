"""The answer in sentences a person can quote; each follows from this run's own effects."""

from __future__ import annotations

from costof.report import format as fmt
from costof.result import Arm, BreakEven, Effect, Result, Sentence, Verdict
from costof.study import Explanation, Study

VIEW_WORDS = {"app": "to the application", "wire": "on the wire"}


def answer(result: Result, study: Study) -> list[Sentence]:
    """Sentences for every arm: what it costs in each view, what explains it, from when it no longer matters."""
    arms = [arm for arm in result.arms if not arm.control and not arm.twin and arm.error is None]
    return [
        *(Sentence(kind="answer", text=text) for arm in arms for text in _costs(result, study, arm)),
        *(Sentence(kind="explanation", text=text) for arm in arms for text in _explanations(result, study, arm)),
        *(Sentence(kind="break_even", text=text) for arm in arms for text in _break_evens(result, study, arm)),
        *(Sentence(kind="next", text=text) for text in _next_steps(result)),
    ]


def _effect(result: Result, metric: str, arm: Arm) -> Effect | None:
    return next((effect for effect in result.effects if effect.metric == metric and effect.arm == arm.name), None)


def _label(result: Result, name: str) -> str:
    return next(metric.label for metric in result.metrics if metric.name == name)


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
            parts = fmt.listed([_cost(result, effect) for effect in effects])
            who = words[0].upper() + words[1:]
            sentences.append(f"{who}, {arm.label} {parts}.")
    return sentences


def _cost(result: Result, effect: Effect) -> str:
    """'adds 14.2 ms [13.8, 14.7] (2.1×) to connect and first query'."""
    label = _label(result, effect.metric)
    relative = f" ({fmt.relative(effect.ratio).value})" if effect.ratio is not None else ""
    match effect.verdict:
        case Verdict.COSTS:
            return f"adds {fmt.absolute(effect.difference, effect.unit)}{relative} to '{label}'"
        case Verdict.SAVES:
            saved = effect.difference.model_copy(
                update={
                    "value": -effect.difference.value,
                    "low": -effect.difference.high,
                    "high": -effect.difference.low,
                }
            )
            return f"takes {fmt.absolute(saved, effect.unit)}{relative} off '{label}'"
        case Verdict.NO_COST:
            margin = next(metric.margin for metric in result.metrics if metric.name == effect.metric)
            return f"costs nothing measurable on '{label}' (within {fmt.share(margin)})"
        case Verdict.UNRESOLVED:
            shown = fmt.relative(effect.ratio) if effect.ratio else fmt.absolute(effect.difference, effect.unit)
            return f"leaves '{label}' unresolved at {shown}"


def _explanations(result: Result, study: Study, arm: Arm) -> list[str]:
    return [
        text
        for explanation in study.explanations
        if (text := _explanation(result, study, arm, explanation)) is not None
    ]


def _explanation(result: Result, study: Study, arm: Arm, explanation: Explanation) -> str | None:
    """What the wire explains of the application's cost, and how much CPU of the client's own goes with it."""
    application = _effect(result, explanation.application, arm)
    wire = _effect(result, explanation.wire, arm)
    if application is None or wire is None or application.verdict is not Verdict.COSTS:
        return None
    unit = application.unit
    part = wire.difference.value / application.difference.value
    text = (
        f"Of the {fmt.absolute(application.difference, unit).value} that {arm.label} adds for {explanation.client}, "
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
    control = next(other.name for other in result.arms if other.control)
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


def _break_evens(result: Result, study: Study, arm: Arm) -> list[str]:
    sentences = []
    for view, words in VIEW_WORDS.items():
        points = [point for point in result.break_even if point.arm == arm.name and point.view == view]
        if points:
            who = words[0].upper() + words[1:]
            sentences.append(f"{who}, {arm.label} costs {fmt.listed([_break_even(point) for point in points])}.")
    return sentences


def _break_even(point: BreakEven) -> str:
    """'under 5 % from 52 queries a connection [48, 57]'."""
    under = f"under {fmt.share(point.share)}"
    if point.operations is None:
        if point.low is None:
            return f"{under} at no number of queries a connection"
        return f"{under} at no number of queries that this run can tell (at least {_whole(point.low)})"
    low = _whole(point.low or 0)
    high = _whole(point.high) if point.high is not None else "no upper end in this run"
    return f"{under} from {_whole(point.operations)} queries a connection [{low}, {high}]"


def _whole(operations: float) -> str:
    # Rounded up: at the one below the share is not yet kept.
    return fmt.number(-(-operations // 1), 0)


def _next_steps(result: Result) -> list[str]:
    headline = {metric.name for metric in result.metrics if metric.headline}
    waiting = [
        e for e in result.effects if e.verdict is Verdict.UNRESOLVED and e.metric in headline and e.needed_seconds
    ]
    if not waiting:
        return []
    longest = max(effect.needed_seconds or 0.0 for effect in waiting)
    names = fmt.listed(list(dict.fromkeys(effect.metric for effect in waiting)))
    return [f"To resolve {names} would take about {fmt.roughly(longest)} more of measuring (--budget)."]
