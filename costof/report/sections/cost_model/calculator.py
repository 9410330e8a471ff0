"""The calculator of the page: the cost that a protection adds to a user's own service, from the cost model.

`calculator.js`, a script in the page, computes the same results. Tests compare both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources

from costof import format as fmt
from costof.format import Text
from costof.report.blocks import HTML, Block, Cell, Column, Field, Interactive, Presets, Row, Table
from costof.report.sections.cost_model.model import CostModel, ExtraCost
from costof.results.index import Index
from costof.results.load import CLIENT
from costof.statistics.estimate import Estimate

HOURS_A_MONTH = 730
INTERVALS = (
    "Round trips and bytes are exact. Own time and CPU time have 95 % intervals. The interval of a sum adds the ends "
    "of its terms' intervals, so it is too wide rather than too narrow."
)
FINALLY = "A “request on average” is an operation with its share of the connection. Your numbers stay on this page."
FIXED_QUERIES = "Each connection has {queries} queries, as in this run; another number needs other cores."
WITHOUT = {
    "queries": "“queries={value}” in this page's address has no effect: each connection of this run has {fixed} "
    "queries.",
    "clients": "“clients={value}” in this page's address has no effect: a run at a load has no number of clients.",
}
"""Messages for values in the page's address that a run with --load cannot use, by the key of their field."""
#: Typical disks with the time of a flush in ms. These are orders of magnitude, not measurements.
USUAL_DISKS = {"fast NVMe, 0.05 ms": 0.05, "cloud volume, 1.2 ms": 1.2, "hard disk, 8 ms": 8.0}
FLUSH = (
    "Flushes were counted by the servers. The time of a flush is that of fdatasync after a write of 8 kB; on the "
    "servers' disk it was {time}."
)
#: Phases of a connection that include its first operation.
INSIDE = ("connect_and_first_operation",)
Term = tuple[float, Estimate]


@dataclass(frozen=True)
class Load:
    """The service for which costs are calculated: its load, distance, bandwidth, disk and price of CPU time.

    - `operations`: operations on each connection.
    - `connections_per_second`: new connections per second. In a study without new connections, it is the number of
      operations per second, `operations` is 1, and connections cost nothing.
    """

    round_trip_ms: float
    operations: float = 10.0
    connections_per_second: float = 100.0
    price: float = 0.05
    bandwidth_mbit: float | None = None
    clients: float = 1_000.0
    flush_ms: float = 0.0


@dataclass(frozen=True)
class Extras:
    """The cost that a protection adds to a connection and to an operation.

    - `inside`: 1 if the measured cost of a connection includes its first operation, otherwise 0.
    - `memory_bytes`: the memory that the protection adds to each connection on the servers; None if not measured.
    """

    protection: str
    label: str
    connection: ExtraCost
    operation: ExtraCost
    inside: int
    memory_bytes: Estimate | None = None


@dataclass(frozen=True)
class Added:
    """The cost that a protection adds under a load.

    - `cores`: the cores that client and servers need together.
    - `servers`, `client`: the cores that each of them needs; None unless the run has a load (--load).
    - `money`: the price of `servers` or, if that is None, of `cores`.
    - `reconnect_seconds`: the CPU time, in seconds of one core, that is added when all clients reconnect at once.
    - `memory_gb`: the servers' memory for the connections of all clients; None if it was not measured.
    """

    connection_ms: Estimate
    operation_ms: Estimate
    request_ms: Estimate
    cores: Estimate
    servers: Estimate | None
    client: Estimate | None
    money: Estimate
    reconnect_seconds: Estimate
    memory_gb: Estimate | None


def has_connections(model: CostModel) -> bool:
    """Return whether the study measures the cost of new connections, and not only that of operations."""
    return any(cost.operation == "connection" for cost in model.operations)


def extras(index: Index, model: CostModel) -> list[Extras]:
    costs = {(extra.protection, extra.operation): extra for extra in model.extras}
    if not has_connections(model):
        costs |= {(name, "connection"): _free_connection(extra) for (name, _), extra in costs.items()}
    metrics = [index.metrics.get(cost.metric) for cost in model.operations if cost.operation == "connection"]
    inside = int(any(metric is not None and metric.phase in INSIDE for metric in metrics))
    names = dict.fromkeys(extra.protection for extra in model.extras)
    pairs = [(name, costs.get((name, "connection")), costs.get((name, "operation"))) for name in names]
    memory = model.memory_bytes
    return [Extras(name, one.label, one, each, inside, memory.get(name)) for name, one, each in pairs if one and each]


def _free_connection(operation: ExtraCost) -> ExtraCost:
    nothing = Estimate(value=0.0, low=0.0, high=0.0, rounds=operation.own_ms.rounds)
    return ExtraCost(
        protection=operation.protection,
        label=operation.label,
        operation="connection",
        own_ms=nothing,
        round_trips=0.0,
        bytes=0.0,
        cpu_ms=nothing,
        roles=[],
    )


def added(extra: Extras, load: Load) -> Added:
    """Return the added cost of a protection under a load. The script `calculator.js` computes the same cost."""
    connection, operation = _milliseconds(extra.connection, load), _milliseconds(extra.operation, load)
    later = max(0.0, load.operations - extra.inside)
    cpu = _sum([(1.0, extra.connection.cpu_ms), (later, extra.operation.cpu_ms)])
    rate = load.connections_per_second / 1000
    cores = _sum([(rate, cpu)])
    # With --load, the CPU time of a connection includes that of its queries, so it must not be added again.
    parts = (extra.connection.servers_cpu_ms, extra.connection.client_cpu_ms)
    servers, client = (_sum([(rate, part)]) if part is not None else None for part in parts)
    return Added(
        connection_ms=connection,
        operation_ms=operation,
        request_ms=_sum([(1 / load.operations, connection), (later / load.operations, operation)]),
        cores=cores,
        servers=servers,
        client=client,
        money=_sum([(HOURS_A_MONTH * load.price, servers or cores)]),
        reconnect_seconds=_sum([(load.clients / 1000, extra.connection.cpu_ms)]),
        memory_gb=None if extra.memory_bytes is None else _sum([(load.clients / 1e9, extra.memory_bytes)]),
    )


def _milliseconds(extra: ExtraCost, load: Load) -> Estimate:
    """Return the added milliseconds: own time, round trips, flushes and, if bandwidth is limited, time of bytes."""
    exact = extra.round_trips * load.round_trip_ms + extra.flushes * load.flush_ms
    if load.bandwidth_mbit is not None:
        exact += extra.bytes * 8 / (load.bandwidth_mbit * 1000)
    return extra.own_ms.through(lambda own: own + exact)


def _sum(terms: list[Term]) -> Estimate:
    """Return the sum of factor × estimate. The ends of intervals are summed like values, as no factor is negative."""
    return Estimate(
        value=sum(factor * each.value for factor, each in terms),
        low=sum(factor * each.low for factor, each in terms),
        high=sum(factor * each.high for factor, each in terms),
        rounds=min(each.rounds for _, each in terms),
    )


@dataclass(frozen=True)
class Output:
    """A figure that the calculator shows. `calculator.js` refers to it by the same `name`."""

    name: str
    heading: str
    unit: str
    read: Callable[[Added], Estimate | None]


def outputs(model: CostModel) -> list[Output]:
    """Return the figures that the calculator shows for this run.

    In a run with --load, the cores of the servers and of the client are separate figures, as in the report's answer.
    """
    roles = {role for extra in model.extras for role in extra.roles}
    times = [
        Output("connection", "to a connection", "ms", lambda costs: costs.connection_ms),
        Output("operation", "to an operation", "ms", lambda costs: costs.operation_ms),
        Output("request", "to a request on average", "ms", lambda costs: costs.request_ms),
    ]
    servers = Output("servers", "cores of the servers", "cores", lambda costs: costs.servers)
    client = Output("client", "cores of the client", "cores", lambda costs: costs.client)
    together = "cores, with the client's" if roles - {CLIENT} else "cores of the client"
    cores = Output("cores", together, "cores", lambda costs: costs.cores)
    money = Output("money", "price a month, € or $", "", lambda costs: costs.money)
    reconnect = Output("reconnect", "if all clients reconnect", "core s", lambda costs: costs.reconnect_seconds)
    every_client = Output("memory", "memory for all clients", "GB", lambda costs: costs.memory_gb)
    memory = [every_client] if model.memory_bytes else []
    if not has_connections(model):
        return [times[1], cores, money]
    if model.load is None:
        return [*times, cores, money, reconnect, *memory]
    known = any(extra.servers_cpu_ms is not None for extra in model.extras)
    return [*times, *([servers] if known else []), client, money, *memory]


def shown(costs: Added, figures: Sequence[Output]) -> list[Text]:
    estimates = [(each.read(costs), each.unit) for each in figures]
    return [fmt.absolute(cost, unit, signed=True) if cost is not None else Text(fmt.NONE) for cost, unit in estimates]


def distances(index: Index, model: CostModel) -> list[tuple[str, float]]:
    """Return (name, round-trip time in ms) of each measured or predicted distance, the nearest first."""
    if model.way_ms is not None:
        return [("", ms) for ms in sorted({model.way_ms, *model.predicted_ms})]
    return sorted(index.core.distances.items(), key=lambda pair: pair[1])


def default_load(index: Index, model: CostModel) -> Load:
    """Return the load and distance that the calculator shows first: those of `measured_load`.

    If the user gave the option `--distance`, the first of its distances is used instead.
    """
    load = measured_load(index, model)
    return replace(load, round_trip_ms=model.predicted_ms[0]) if model.predicted_ms else load


def measured_load(index: Index, model: CostModel) -> Load:
    """Return the load and distance of the run or, if the run has no load, those of an example service.

    An example service has an assumed load: the defaults of `Load` or, in a study without new connections, the
    operations per second that `_serial_rate` returns. Its distance is the run's shortest distance of at least 1 ms. If
    there is none, it is the run's shortest distance. If the run has no distance, it is 1 ms.
    """
    measured = [model.way_ms] if model.way_ms is not None else [ms for _, ms in distances(index, model)]
    flush_ms = model.flush_ms.value if model.flush_ms else 0.0
    if not has_connections(model):
        rate = _serial_rate(index, model)
        return Load(measured[0] if measured else 0.0, operations=1.0, connections_per_second=rate, flush_ms=flush_ms)
    if model.load is None:
        nearest = next((ms for ms in measured if ms >= 1), measured[0] if measured else 1.0)
        return Load(nearest, flush_ms=flush_ms)
    return Load(
        round_trip_ms=measured[0] if measured else 0.0,
        flush_ms=flush_ms,
        operations=float(model.load.queries_per_connection),
        connections_per_second=model.load.connections_per_second,
    )


def _serial_rate(index: Index, model: CostModel) -> float:
    """Return a number of operations per second that one client can do: 1,000, or the next lower power of ten.

    The client is one at the nearest distance, because the run measured the CPU time of operations there, and this CPU
    time depends on the rate.
    """
    first = [index.nearest.control, *index.nearest.arms]
    values = [index.value(each.metric, arm.name) for each in model.operations for arm in first if arm is not None]
    slowest = max((each.mean.value for each in values if each is not None), default=0.0)
    return 10.0 ** min(3, math.floor(math.log10(1000 / slowest))) if slowest > 0 else 1000.0


def fixed_rows(index: Index, model: CostModel) -> list[tuple[str, str, list[Text]]]:
    """Return rows of (distance or disk, protection, figures) for the default load, for pages without scripts."""
    load, figures = default_load(index, model), outputs(model)
    loads = [(where(context, ms), replace(load, round_trip_ms=ms)) for context, ms in distances(index, model)]
    loads += [(name, replace(load, flush_ms=ms)) for name, ms in disks(model).items()]
    return [
        (name, each.label, shown(added(each, there), figures)) for name, there in loads for each in extras(index, model)
    ]


def disks(model: CostModel) -> dict[str, float]:
    """Return the time of a flush in ms on this run's disk and on typical ones, by name; {} if none was measured."""
    return {"this run's disk": model.flush_ms.value, **USUAL_DISKS} if model.flush_ms else {}


def where(context: str, round_trip_ms: float) -> str:
    """Return a distance in words, such as 'us-us, 44.648 ms'."""
    distance = fmt.milliseconds(round_trip_ms)
    return f"{context},{fmt.NBSP}{distance}" if context else distance


def calculator(index: Index, model: CostModel) -> Iterator[Block]:
    protections = extras(index, model)
    if not protections:
        return
    load, figures, fixed = default_load(index, model), outputs(model), _fixed(model)
    fields = [
        Field("connections_per_second", "New connections /s", f"{load.connections_per_second:g}", "connections",
              slider=(1, 10_000)),
        Field("operations", "Operations on each", f"{load.operations:g}", "queries", slider=(1, 10_000)),
        Field("round_trip_ms", "Round trip, ms", f"{round(load.round_trip_ms, 3):g}", "rtt", slider=(0, 300)),
        Field("flush_ms", "A flush, ms", f"{round(load.flush_ms, 3):g}", "flush", slider=(0, 30)),
        Field("price", "A CPU hour, € or $", f"{load.price:g}", "price", "in any currency"),
        Field("clients", "Clients in all", f"{load.clients:g}", "clients", "may come at once"),
        Field("bandwidth_mbit", "Bandwidth, Mbit/s", "", "bandwidth", "unlimited"),
    ]  # fmt: skip
    if not has_connections(model):
        fields[0] = replace(fields[0], label="Operations /s", key="rate", slider=(1, 100_000))
    # Several contexts may have the same distance and differ in something else, such as the server's version. Offer each
    # distance only once.
    names: dict[str, str] = {}
    for context, ms in distances(index, model):
        names.setdefault(f"{round(ms, 3):g}", context or fmt.milliseconds(ms))
    measured = {name: ms for ms, name in names.items()}
    head = [Column("with", "text"), *(Column(each.heading, unit=each.unit) for each in figures)]
    rows = [
        Row([Cell(each.label), *map(Cell.of, shown(added(each, load), figures))], key=each.protection)
        for each in protections
    ]
    numbers = [
        {
            "name": each.protection,
            "inside": each.inside,
            "connection": _numbers(each.connection),
            "operation": _numbers(each.operation),
            "memory_bytes": None if each.memory_bytes is None else _four(each.memory_bytes),
        }
        for each in protections
    ]
    yield Interactive(
        name="calculator",
        title="Computed for your load",
        fields=[field for field in fields if field.name not in fixed],
        example=_example(load, model),
        fixed=FIXED_QUERIES.format(queries=model.load.queries_per_connection) if model.load else "",
        notes=[INTERVALS, _method(protections, model), FINALLY],
        presets=Presets("flush_ms", "Disks", {name: f"{round(ms, 3):g}" for name, ms in disks(model).items()})
        if model.flush_ms
        else Presets("round_trip_ms", "Distances of this run", measured if len(measured) > 1 else {}),
        output=Table(head, rows, f"Added, compared with {index.control_label}"),
        script=(resources.files(__package__) / "calculator.js").read_text(encoding="utf-8"),
        data={
            "hours": HOURS_A_MONTH,
            "fixed": fixed,
            "outputs": [each.name for each in figures],
            "protections": numbers,
            "without": {
                field.key: WITHOUT[field.key] for field in fields if field.name in fixed and field.key in WITHOUT
            },
        },
        instead=_instead(index, model),
        **({"instead_title": "On this run's disk and on others"} if model.flush_ms else {}),
        media=HTML,
    )


def _fixed(model: CostModel) -> dict[str, float]:
    """Return the values of the fields that the user cannot change, by field.

    In a run with --load, the CPU time of a connection includes its queries, so their number is fixed.
    """
    disk = {} if model.flush_ms else {"flush_ms": 0.0}
    if not has_connections(model):
        return {"operations": 1.0, "clients": 0.0, **disk}
    if model.load is None:
        return disk
    clients = {} if model.memory_bytes else {"clients": 0.0}
    return {"operations": model.load.queries_per_connection, **clients, **disk}


def _method(protections: list[Extras], model: CostModel) -> str:
    costs = (cost for each in protections for cost in (each.connection, each.operation))
    roles = [*dict.fromkeys(role for cost in costs for role in cost.roles)]
    unknown = "" if set(roles) - {CLIENT} else " only; the servers' CPU time is unknown"
    money = f"Price a month = added cores × {HOURS_A_MONTH} h × price of a CPU hour."
    cores = f"Cores are those of {fmt.listed(roles)}{unknown}. {money}"
    if model.flush_ms:
        cores += f" {FLUSH.format(time=fmt.absolute(model.flush_ms, 'ms'))}"
    if not has_connections(model):
        return cores
    if model.memory_bytes:
        cores += " Memory for all clients = clients in all × memory that the protection adds to an idle connection."
    if model.load is not None:
        return cores if unknown else f"{cores} Only the cores of the servers have a price."
    return (
        f"{cores} “If all clients reconnect” is CPU time; divided by the number of free cores, it is the additional "
        "time until all clients have reconnected."
    )


def _example(load: Load, model: CostModel) -> str:
    if not has_connections(model):
        disk = f", a flush of {fmt.milliseconds(load.flush_ms)}" if model.flush_ms else ""
        return (
            f"For {load.connections_per_second:,g} operations a second{disk}, and {load.price:g} for a CPU hour. To "
            "calculate with your own numbers, allow this page's script."
        )
    clients = "" if model.load and not model.memory_bytes else f", {load.clients:,.0f} clients in all"
    return (
        f"For {load.connections_per_second:g} new connections a second with {load.operations:g} operations each"
        f"{clients}, a round trip of {fmt.milliseconds(load.round_trip_ms)}, and {load.price:g} for a CPU hour. To "
        "calculate with your own numbers, allow this page's script."
    )


def _instead(index: Index, model: CostModel) -> list[Block]:
    rows: list[list[str | Text]] = [[at, label, *figures] for at, label, figures in fixed_rows(index, model)]
    head = ["at", "with", *(each.heading for each in outputs(model))]
    known = "measured and predicted" if model.predicted_ms else "measured"
    places = f"the {known} distances" if not model.flush_ms else "this run's disk and on others"
    title = f"Added at {places}, compared with {index.control_label}"
    return [Table.of(head, rows, title=title, texts=(0, 1))]


def _numbers(extra: ExtraCost) -> dict[str, object]:
    """Return the cost as the page's script reads it, with estimates as [value, low, high, rounds]."""
    estimates = {
        "own_ms": extra.own_ms,
        "cpu_ms": extra.cpu_ms,
        "servers_cpu_ms": extra.servers_cpu_ms,
        "client_cpu_ms": extra.client_cpu_ms,
    }
    known = {name: each for name, each in estimates.items() if each is not None}
    return {
        "round_trips": extra.round_trips,
        "bytes": extra.bytes,
        "flushes": extra.flushes,
        **{name: _four(each) for name, each in known.items()},
    }


def _four(estimate: Estimate) -> list[float]:
    return [estimate.value, estimate.low, estimate.high, estimate.rounds]
