"""What the cost model says of other distances: its tables, and the calculator's arithmetic.

The page's script computes the same from the same numbers; the tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costof.analysis.result import CostModel, ExtraCost, OperationCost, Prediction
from costof.document import format as fmt
from costof.document.format import Shown
from costof.report.reading import Reading
from costof.report.words import percent, signed_percent
from costof.statistics.estimate import Estimate

HOURS_A_MONTH = 730
FORMULA = "Time of an operation = own time + round trips × round-trip time (+ bytes ÷ bandwidth)."
SOURCES = (
    "Round trips and bytes were counted on the wire, so they are exact; own time is what an operation takes by itself, "
    "estimated from the rounds of the nearest setting, and brings all of the uncertainty."
)
INTERVALS = (
    "Round trips and bytes are exact. Own time and CPU time have 95 % intervals; they are multiplied by the counts and "
    "added end to end, as if all errors went the same way, so a sum's interval is rather too wide than too narrow."
)
MONEY = f"Money a month = added cores × {HOURS_A_MONTH} h × price of a CPU hour, of client and servers together."
INSIDE = ("connect_and_first_operation",)
"""Phases of a connection's metric in which its first operation is counted already."""
Term = tuple[float, Estimate]


@dataclass(frozen=True)
class Load:
    """A service the calculator is asked about."""

    round_trip_ms: float
    operations: float = 10.0
    connections_per_second: float = 100.0
    price: float = 0.05
    bandwidth_mbit: float | None = None


@dataclass(frozen=True)
class Extras:
    """What a protection adds to a connection and to an operation; `inside` of them are in the connection already."""

    protection: str
    label: str
    connection: ExtraCost
    operation: ExtraCost
    inside: int


@dataclass(frozen=True)
class Added:
    """What a protection adds under a load: milliseconds, cores, and money a month."""

    connection_ms: Estimate
    operation_ms: Estimate
    request_ms: Estimate
    cores: Estimate
    money: Estimate


def extras(reading: Reading) -> list[Extras]:
    """The protections the calculator knows, those with both costs."""
    model = reading.result.cost_model
    if model is None:
        return []
    found = {(extra.protection, extra.operation): extra for extra in model.extras}
    inside = int(any(_holds_first(reading, cost) for cost in model.operations))
    names = dict.fromkeys(extra.protection for extra in model.extras)
    pairs = [(name, found.get((name, "connection")), found.get((name, "operation"))) for name in names]
    return [Extras(name, one.label, one, each, inside) for name, one, each in pairs if one and each]


def _holds_first(reading: Reading, cost: OperationCost) -> bool:
    metric = reading.metrics.get(cost.metric)
    return cost.operation == "connection" and metric is not None and metric.phase in INSIDE


def added(of: Extras, load: Load) -> Added:
    """The calculator's answer; the same as in `calculator.js`."""
    connection, operation = _milliseconds(of.connection, load), _milliseconds(of.operation, load)
    later = max(0.0, load.operations - of.inside)
    cpu = _sum([(1.0, of.connection.cpu_ms), (later, of.operation.cpu_ms)])
    cores = _sum([(load.connections_per_second / 1000, cpu)])
    return Added(
        connection_ms=connection,
        operation_ms=operation,
        request_ms=_sum([(1 / load.operations, connection), (later / load.operations, operation)]),
        cores=cores,
        money=_sum([(HOURS_A_MONTH * load.price, cores)]),
    )


def _milliseconds(extra: ExtraCost, load: Load) -> Estimate:
    """Own time with its interval, moved by what is exact: round trips, and bytes where bandwidth is limited."""
    exact = extra.round_trips * load.round_trip_ms
    if load.bandwidth_mbit is not None:
        exact += extra.bytes * 8 / (load.bandwidth_mbit * 1000)
    own = extra.own_ms
    return Estimate(value=own.value + exact, low=own.low + exact, high=own.high + exact, rounds=own.rounds)


def _sum(terms: list[Term]) -> Estimate:
    """Of estimates times numbers that are not negative: values and both ends added."""
    return Estimate(
        value=sum(factor * each.value for factor, each in terms),
        low=sum(factor * each.low for factor, each in terms),
        high=sum(factor * each.high for factor, each in terms),
        rounds=min(each.rounds for _, each in terms),
    )


COLUMNS: list[tuple[str, str, Callable[[Added], Estimate]]] = [
    ("a connection", "ms", lambda costs: costs.connection_ms),
    ("an operation", "ms", lambda costs: costs.operation_ms),
    ("a request on average", "ms", lambda costs: costs.request_ms),
    ("CPU", "cores", lambda costs: costs.cores),
    ("money a month", "", lambda costs: costs.money),
]
"""What is added: heading, unit and where it stands in the answer."""


def shown(costs: Added) -> list[Shown]:
    """The answer in the order of `COLUMNS`."""
    return [fmt.absolute(of(costs), unit, signed=True) for _, unit, of in COLUMNS]


def distances(reading: Reading) -> list[tuple[str, float]]:
    """Context and round-trip time of what this run measured, from near to far."""
    model = reading.result.cost_model
    return sorted(model.distances.items(), key=lambda pair: pair[1]) if model else []


def default_load(reading: Reading) -> Load:
    """The first distance that is one; the load is a modest service with connections that are kept for a while."""
    measured = [ms for _, ms in distances(reading)]
    return Load(round_trip_ms=next((ms for ms in measured if ms >= 1), measured[0] if measured else 1.0))


def fixed_rows(reading: Reading) -> list[tuple[str, str, list[Shown]]]:
    """Distance, protection and figures for the default load: what a page without its script shows."""
    load = default_load(reading)
    return [
        (where(context, ms), each.label, shown(added(each, Load(ms, load.operations))))
        for context, ms in distances(reading)
        for each in extras(reading)
    ]


def where(context: str, round_trip_ms: float) -> str:
    """'us-us, 44.648 ms'."""
    return f"{context}, {fmt.milliseconds(round_trip_ms)}" if context else fmt.milliseconds(round_trip_ms)


def payload(reading: Reading) -> dict[str, object]:
    """What the page's script computes from."""
    return {
        "hours": HOURS_A_MONTH,
        "protections": [
            {
                "name": each.protection,
                "label": each.label,
                "inside": each.inside,
                "connection": _numbers(each.connection),
                "operation": _numbers(each.operation),
            }
            for each in extras(reading)
        ],
    }


def _numbers(extra: ExtraCost) -> dict[str, object]:
    """Estimates as [value, low, high, rounds]."""
    own, cpu = extra.own_ms, extra.cpu_ms
    return {
        "own_ms": [own.value, own.low, own.high, own.rounds],
        "round_trips": extra.round_trips,
        "bytes": extra.bytes,
        "cpu_ms": [cpu.value, cpu.low, cpu.high, cpu.rounds],
    }


def parameter_roles(model: CostModel) -> list[str]:
    """All roles that use CPU in the model."""
    return list(dict.fromkeys(role for cost in model.operations for role in cost.cpu_ms))


def parameter_head(model: CostModel) -> list[str]:
    """Headings of the model's parameters."""
    return ["with", "own time", "round trips", "bytes", *(f"{role} CPU, ms" for role in parameter_roles(model))]


def parameter_rows(reading: Reading, model: CostModel) -> list[tuple[str, list[list[str]]]]:
    """For a connection and for an operation: what it is measured by, and a row each protection."""
    groups = []
    for metric in dict.fromkeys(cost.metric for cost in model.operations):
        of = [cost for cost in model.operations if cost.metric == metric]
        title = f"{of[0].operation}: {reading.metric_label(metric)}"
        groups.append((title[:1].upper() + title[1:], [_parameter_row(cost, model) for cost in of]))
    return groups


def _parameter_row(cost: OperationCost, model: CostModel) -> list[str]:
    cpu = [cost.cpu_ms.get(role) for role in parameter_roles(model)]
    return [
        cost.label,
        str(fmt.absolute(cost.own_ms, "ms")),
        fmt.count(cost.round_trips),
        fmt.count(cost.bytes),
        *(fmt.number(each) if each is not None else fmt.NONE for each in cpu),
    ]


@dataclass(frozen=True)
class PredictionRow:
    """A prediction beside its measurement, as printed."""

    label: str
    context: str
    predicted: Shown
    measured: Shown
    error: str


def predictions(reading: Reading, model: CostModel) -> list[tuple[str, list[PredictionRow]]]:
    """For each metric its predictions, a protection's distances together."""
    order = {name: index for index, name in enumerate(dict.fromkeys(p.arm.split("@")[0] for p in model.predictions))}
    groups = []
    for name in dict.fromkeys(each.metric for each in model.predictions):
        of = [each for each in model.predictions if each.metric == name]
        of.sort(key=lambda each: (order[each.arm.split("@")[0]], each.round_trip_ms))
        groups.append((reading.metric_label(name), [_prediction_row(reading, each) for each in of]))
    return groups


def _prediction_row(reading: Reading, each: Prediction) -> PredictionRow:
    arm = reading.arm(each.arm)
    error = signed_percent(each.error) if each.error is not None else fmt.NONE
    # Far away the own time's interval is a thin one: more digits than the measurement has would be hard to compare.
    decimals = [fmt.decimals_of(estimate) for estimate in (each.predicted, each.measured) if estimate]
    return PredictionRow(
        label=reading.label(each.arm),
        context=where(arm.context if arm else "", each.round_trip_ms),
        predicted=fmt.absolute(each.predicted, each.unit, decimals=min(decimals)),
        measured=fmt.absolute(each.measured, each.unit) if each.measured else Shown(fmt.NONE),
        error="the model's own" if each.local else error,
    )


def worst(reading: Reading, model: CostModel) -> str | None:
    """How far the model is off where it was put to the test; None where it was not."""
    tested = [each for each in model.predictions if each.error is not None and not each.local]
    if not tested:
        return None
    most = max(tested, key=lambda each: abs(each.error or 0.0))
    arm = reading.arm(most.arm)
    place = f"{reading.label(most.arm)}, {where(arm.context if arm else '', most.round_trip_ms)}"
    far = fmt.plural(len(tested), "prediction")
    label = reading.metric_label(most.metric)
    return f"Of {far} for farther settings the worst is {percent(abs(most.error or 0.0))} off: '{label}', {place}."


def summaries(reading: Reading) -> list[str]:
    """'TLS adds 1.16 ms and 1 round trip to a connection, 0.008 ms and no round trip to an operation.'"""
    return [
        f"{each.label}: {_summary(each.connection)} a connection, {_summary(each.operation)} an operation"
        for each in extras(reading)
    ]


def _summary(extra: ExtraCost) -> str:
    trips = fmt.number(round(extra.round_trips, 2), None if extra.round_trips % 1 else 0, signed=True)
    word = "round trip" if abs(extra.round_trips) == 1 else "round trips"
    own = fmt.absolute(extra.own_ms, "ms", signed=True)
    return f"{own} and {'no' if extra.round_trips == 0 else trips} {word}"
