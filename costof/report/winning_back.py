"""Cures and sizing in words and rows: what wins back what the protection costs, and how many cores a burst needs."""

from __future__ import annotations

from costof.analysis.result import BurstCheck, CoresFor, Cure, Metric, Result, Sizing
from costof.document import format as fmt
from costof.document.format import Shown
from costof.statistics.estimate import Estimate, Verdict

CURE_HEAD = ["cure", "gain", "given back of the loss", "verdict"]
CHECK_HEAD = ["arm", "new clients", "cores", "predicted", "measured", "off by"]
METHOD = (
    "A cure's gain is the arm with it over the arm without it, paired by round; what it gives back is that gain over "
    "what the protection lost, with Fieller's interval on the same trimmed means."
)
MODEL = (
    "Cores = clients × CPU time of one client ÷ seconds. A burst is predicted as the control's burst on as many cores, "
    "plus clients × the CPU time that the protection adds ÷ cores: the last client waits for its answer only once its "
    "handshake is done."
)
ALL = 1.0
SHOWN_EXAMPLE = (10_000, 10.0)


def sentences(result: Result) -> list[str]:
    """The cures from the best on, and the sizing of the arm that they are held against."""
    return [*_cure_sentences(result), *_sizing_sentences(result)]


def metric_of(result: Result, cure: Cure) -> Metric:
    return next(metric for metric in result.metrics if metric.name == cure.metric)


def _cure_sentences(result: Result) -> list[str]:
    helping = [cure for cure in result.cures if cure.verdict is Verdict.SAVES]
    rest = [cure for cure in result.cures if cure.verdict is not Verdict.SAVES]
    others = [text for text in (_idle(rest), _unresolved(rest), _harmful(result, rest)) if text]
    tail = f"{'; '.join(others)}." if others else ""
    if not helping:
        return [f"No cure gives anything back: {tail}"] if tail else []
    first = f"{helping[0].label} {_gives(result, helping[0])}"
    more = [f"{cure.label} {_amount(result, cure)}" for cure in helping[1:]]
    found = _capital("; ".join([first, *more])) + "."
    return [found, _capital(tail)] if tail else [found]


def _gives(result: Result, cure: Cure) -> str:
    """'gives back 93 % [90, 96] of the loss'; the gain alone where there is no resolved loss to take a share of."""
    amount = _amount(result, cure)
    if cure.given_back is None:
        return f"gains {amount} of '{metric_of(result, cure).label}'"
    if cure.given_back.low > ALL:
        return f"gives back more than the whole loss ({amount})"
    return f"gives back {amount} of the loss"


def _amount(result: Result, cure: Cure) -> str:
    return str(share(cure.given_back) if cure.given_back else gain(cure, metric_of(result, cure)))


def _idle(rest: list[Cure]) -> str:
    names = [cure.label for cure in rest if cure.verdict is Verdict.NO_COST]
    return f"{fmt.listed(names)} {_verb(names, 'gives', 'give')} nothing measurable back" if names else ""


def _unresolved(rest: list[Cure]) -> str:
    names = [cure.label for cure in rest if cure.verdict is Verdict.UNRESOLVED]
    return f"what {fmt.listed(names)} {_verb(names, 'gives', 'give')} back is unresolved" if names else ""


def _harmful(result: Result, rest: list[Cure]) -> str:
    found = [cure for cure in rest if cure.verdict is Verdict.COSTS]
    parts = [f"{cure.label} takes more ({gain(cure, metric_of(result, cure))})" for cure in found]
    return fmt.listed(parts)


def _verb(names: list[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many


def gain(cure: Cure, metric: Metric) -> Shown:
    """'+140 % [131, 149]' of a rate; a time as every ratio is shown."""
    ratio = cure.gain
    if metric.better == "lower" or ratio.value < 1:
        return fmt.relative(ratio)
    shown = fmt.gain(ratio)
    return Shown(f"+{shown.value}", shown.interval)


def share(given_back: Estimate) -> Shown:
    """'93 % [90, 96]'."""
    percent = Estimate(
        value=given_back.value * 100, low=given_back.low * 100, high=given_back.high * 100, rounds=given_back.rounds
    )
    return fmt.absolute(percent, "%", decimals=min(1, fmt.decimals_of(percent)))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def chief(result: Result) -> Sizing | None:
    """The sizing of the arm that the cures are held against; the first where there is none."""
    reference = result.cures[0].reference if result.cures else None
    return next((each for each in result.sizing if each.arm == reference), next(iter(result.sizing), None))


def _sizing_sentences(result: Result) -> list[str]:
    sizing = chief(result)
    if sizing is None:
        return []
    rate = fmt.absolute(sizing.clients_per_core_second)
    text = f"One core of the {sizing.role} takes {rate} new clients a second with {sizing.label}"
    for each in sizing.examples:
        if (each.clients, each.seconds) == SHOWN_EXAMPLE:
            cores = fmt.absolute(each.cores)
            within = fmt.with_unit(fmt.count(each.seconds), "s")
            text += f"; {each.clients:,} new clients within {within} need {_cores(cores)}"
    if check := next((each for each in sizing.checks if each.arm == sizing.arm), None):
        measured, predicted = seconds(check)
        text += f"; a measured burst of {check.clients:,} took {measured}, predicted {predicted}"
    return [f"{text}."]


def _cores(shown: Shown) -> str:
    return f"{shown.value} cores {shown.interval}".rstrip()


def seconds(check: BurstCheck) -> tuple[Shown, Shown]:
    """Measured and predicted, with the same decimals."""
    both = (check.measured_seconds, check.predicted_seconds)
    decimals = max(2, min(fmt.decimals_of(each) for each in both))
    measured, predicted = (fmt.absolute(each, "s", decimals=decimals) for each in both)
    return measured, predicted


def cure_rows(result: Result) -> list[list[str]]:
    """A row a cure, the best first."""
    return [
        [
            cure.label,
            str(gain(cure, metric_of(result, cure))),
            str(share(cure.given_back)) if cure.given_back else fmt.NONE,
            verdict_words(cure, metric_of(result, cure)),
        ]
        for cure in result.cures
    ]


def verdict_words(cure: Cure, metric: Metric) -> str:
    """A cure's verdict: it gives, it takes, it gives nothing above the margin, or nobody can tell yet."""
    return {
        Verdict.SAVES: "gives back",
        Verdict.COSTS: "takes more",
        Verdict.NO_COST: f"no gain above {fmt.share(metric.margin)}",
        Verdict.UNRESOLVED: "unresolved",
    }[cure.verdict]


def cure_title(result: Result) -> str:
    """'What wins back 'requests a second', against TLS at the balancer'."""
    cure = result.cures[0]
    label = next((arm.label for arm in result.arms if arm.name == cure.reference), cure.reference)
    return f"What wins back '{metric_of(result, cure).label}', against {label}"


def sizing_head(sizing: list[Sizing]) -> list[str]:
    role = sizing[0].role
    told = _told(sizing[0])
    cores = f"cores for {told.clients:,} in {fmt.with_unit(fmt.count(told.seconds), 's')}"
    return ["with", f"{role} CPU, ms a client", "of it added", "clients a second and core", cores]


def _told(sizing: Sizing) -> CoresFor:
    """The example that is shown: the one in the answer's sentence. All are in result.json."""
    return next(each for each in sizing.examples if (each.clients, each.seconds) == SHOWN_EXAMPLE)


def sizing_rows(result: Result) -> list[list[str]]:
    """A row an arm: CPU of a new client, clients a core takes, and cores for a burst."""
    return [
        [
            each.label,
            str(fmt.absolute(each.cpu_ms)),
            str(fmt.absolute(each.added_cpu_ms)) if each.added_cpu_ms else fmt.NONE,
            str(fmt.absolute(each.clients_per_core_second)),
            str(fmt.absolute(_told(each).cores)),
        ]
        for each in result.sizing
    ]


def check_rows(result: Result) -> list[list[str]]:
    """Each measured burst beside its prediction."""
    rows = []
    for check in (check for each in result.sizing for check in each.checks):
        measured, predicted = seconds(check)
        off = (check.predicted_seconds.value / check.measured_seconds.value - 1) * 100
        error = fmt.with_unit(fmt.number(off, 0, signed=True), "%")
        rows.append([check.arm, f"{check.clients:,}", fmt.count(check.cores), str(predicted), str(measured), error])
    return rows
