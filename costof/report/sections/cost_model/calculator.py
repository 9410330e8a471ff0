"""What the cost model says for a service of the reader's own: the calculator of the page, and its arithmetic.

The page's script computes the same from the same numbers; the tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import resources

from costof import format as fmt
from costof.format import Text
from costof.report.blocks import (
    HTML,
    Block,
    CallOut,
    Cell,
    Choice,
    Column,
    Field,
    Interactive,
    Paragraph,
    Presets,
    Row,
    Table,
)
from costof.report.sections.cost_model.model import CostModel, ExtraCost
from costof.results.index import Index
from costof.statistics.estimate import Estimate

HOURS_A_MONTH = 730
CLIENT = "client"
"""The role of whoever asks, which an instrument counts itself."""
INTERVALS = (
    "Round trips and bytes are exact. Own time and CPU time have 95 % intervals; they are multiplied by the counts and "
    "added end to end, as if all errors went the same way, so a sum's interval is rather too wide than too narrow."
)
LEAD = "What the protection adds for a service of your own, from the cost model of this run."
FINALLY = "A request on average is an operation with its share of the connection. Nothing is sent anywhere."
OF_LOAD = "Each connection has {queries} queries, as in this run; with other numbers the cores would be others."
INSIDE = ("connect_and_first_operation",)
Term = tuple[float, Estimate]


@dataclass(frozen=True)
class Load:
    """A service the calculator is asked about."""

    round_trip_ms: float
    operations: float = 10.0
    connections_per_second: float = 100.0
    price: float = 0.05
    bandwidth_mbit: float | None = None
    clients: float = 1_000.0


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
    """What a protection adds under a load: milliseconds, cores, money a month, and the seconds of a core that it takes
    when all clients connect anew at once."""

    connection_ms: Estimate
    operation_ms: Estimate
    request_ms: Estimate
    cores: Estimate
    money: Estimate
    reconnect_seconds: Estimate


def extras(index: Index, model: CostModel) -> list[Extras]:
    found = {(extra.protection, extra.operation): extra for extra in model.extras}
    metrics = [index.metrics.get(cost.metric) for cost in model.operations if cost.operation == "connection"]
    # Phases in which a connection's first operation is counted already.
    inside = int(any(metric is not None and metric.phase in INSIDE for metric in metrics))
    names = dict.fromkeys(extra.protection for extra in model.extras)
    pairs = [(name, found.get((name, "connection")), found.get((name, "operation"))) for name in names]
    return [Extras(name, one.label, one, each, inside) for name, one, each in pairs if one and each]


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
        reconnect_seconds=_sum([(load.clients / 1000, of.connection.cpu_ms)]),
    )


def _milliseconds(extra: ExtraCost, load: Load) -> Estimate:
    """Move own time and its interval by what is exact: round trips, and bytes where bandwidth is limited."""
    exact = extra.round_trips * load.round_trip_ms
    if load.bandwidth_mbit is not None:
        exact += extra.bytes * 8 / (load.bandwidth_mbit * 1000)
    return extra.own_ms.through(lambda own: own + exact)


def _sum(terms: list[Term]) -> Estimate:
    """Add estimates times non-negative numbers, values and both ends."""
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
    ("all clients at once", "core s", lambda costs: costs.reconnect_seconds),
]
"""What is added: heading, unit and where it stands in the answer."""


def shown(costs: Added) -> list[Text]:
    return [fmt.absolute(of(costs), unit, signed=True) for _, unit, of in COLUMNS]


def distances(index: Index, model: CostModel) -> list[tuple[str, float]]:
    """Return context and round-trip time of what this run measured, from near to far."""
    if model.way_ms is not None:
        return [("", model.way_ms)]
    return sorted(index.core.distances.items(), key=lambda pair: pair[1])


def default_load(index: Index, model: CostModel) -> Load:
    """The first distance that is one; the load is that of the run, else a modest service with connections that are kept
    for a while."""
    measured = [ms for _, ms in distances(index, model)]
    load = Load(round_trip_ms=next((ms for ms in measured if ms >= 1), measured[0] if measured else 1.0))
    if model.load is None:
        return load
    asked = model.load
    return replace(
        load, operations=float(asked.queries_per_connection), connections_per_second=asked.connections_per_second
    )


def fixed_rows(index: Index, model: CostModel) -> list[tuple[str, str, list[Text]]]:
    """Return distance, protection and figures for the default load: what a page without its script shows."""
    load = default_load(index, model)
    return [
        (where(context, ms), each.label, shown(added(each, replace(load, round_trip_ms=ms)))[: len(columns(model))])
        for context, ms in distances(index, model)
        for each in extras(index, model)
    ]


def where(context: str, round_trip_ms: float) -> str:
    """'us-us, 44.648 ms'."""
    distance = fmt.milliseconds(round_trip_ms)
    return f"{context},{fmt.NBSP}{distance}" if context else distance


def calculator(index: Index, model: CostModel) -> Iterator[Block]:
    found = extras(index, model)
    if not found:
        return
    load, outputs, fixed = default_load(index, model), columns(model), _fixed(model)
    fields = [
        Field("round_trip_ms", "Round trip, ms", f"{round(load.round_trip_ms, 3):g}"),
        Field("operations", "Operations each", f"{load.operations:g}"),
        Field("connections_per_second", "Connections / s", f"{load.connections_per_second:g}"),
        Field("price", "Price, CPU hour", f"{load.price:g}", "in any currency"),
        Field("clients", "Clients in all", f"{load.clients:g}", "who may come at once"),
        Field("bandwidth_mbit", "Mbit/s", "", "empty: unlimited"),
    ]
    distances_measured = {where(context, ms): f"{round(ms, 3):g}" for context, ms in distances(index, model)}
    head = [Column("with", "text"), *(Column(heading, unit=unit) for heading, unit, _ in outputs)]
    rows = [Row([Cell(each.label), *[Cell(fmt.NONE)] * len(outputs)], key=each.protection) for each in found]
    protections = [
        {
            "name": each.protection,
            "inside": each.inside,
            "connection": _numbers(each.connection),
            "operation": _numbers(each.operation),
        }
        for each in found
    ]
    yield Paragraph(LEAD, "lead", media=HTML)
    yield Interactive(
        name="calculator",
        fields=[field for field in fields if field.name not in fixed],
        choice=Choice("protection", "Protection", {each.protection: each.label for each in found}),
        presets=Presets("round_trip_ms", "This run's distances", distances_measured),
        output=Table(head, rows, f"Added, compared with {index.control_label}"),
        script=(resources.files(__package__) / "calculator.js").read_text(encoding="utf-8"),
        data={"hours": HOURS_A_MONTH, "fixed": fixed, "protections": protections},
        instead=_instead(index, model, load),
        media=HTML,
    )
    of_load = f" {OF_LOAD.format(queries=model.load.queries_per_connection)}" if model.load else ""
    yield Paragraph(f"{INTERVALS} {_whose(found, model)} {FINALLY}{of_load}", "note", media=HTML)


def columns(model: CostModel) -> list[tuple[str, str, Callable[[Added], Estimate]]]:
    return COLUMNS if model.load is None else COLUMNS[:-1]


def _fixed(model: CostModel) -> dict[str, float]:
    """Return the fields that the reader cannot change: at a load, connections' CPU time includes their queries."""
    return {} if model.load is None else {"operations": model.load.queries_per_connection, "clients": 0}


def _whose(found: list[Extras], model: CostModel) -> str:
    costs = (cost for each in found for cost in (each.connection, each.operation))
    roles = [*dict.fromkeys(role for cost in costs for role in cost.roles)]
    unknown = "" if set(roles) - {CLIENT} else " alone: what the servers use is not known here"
    money = f"Money a month = added cores × {HOURS_A_MONTH} h × price of a CPU hour."
    told = f"Cores are those of {fmt.listed(roles)}{unknown}. {money}"
    if model.load is not None:
        return told
    return (
        f"{told} Seconds of a core for all clients at once, over the cores that are free, are how long that takes "
        "longer."
    )


def _instead(index: Index, model: CostModel, load: Load) -> list[Block]:
    rows: list[list[str | Text]] = [[at, label, *figures] for at, label, figures in fixed_rows(index, model)]
    head = ["at", "with", *(heading for heading, *_ in columns(model))]
    clients = "" if model.load else f", {load.clients:,.0f} clients in all"
    return [
        CallOut(
            "warning",
            "The calculator needs this page's script, which did not run. This is what it says for the distances that "
            f"were measured, with {load.operations:g} operations a connection, {load.connections_per_second:g} "
            f"connections a second{clients}, and {load.price:g} for a CPU hour.",
        ),
        Table.of(head, rows, title=f"Added, compared with {index.control_label}", texts=(0, 1)),
    ]


def _numbers(extra: ExtraCost) -> dict[str, object]:
    """Estimates as [value, low, high, rounds]."""
    own, cpu = extra.own_ms, extra.cpu_ms
    return {
        "own_ms": [own.value, own.low, own.high, own.rounds],
        "round_trips": extra.round_trips,
        "bytes": extra.bytes,
        "cpu_ms": [cpu.value, cpu.low, cpu.high, cpu.rounds],
    }
