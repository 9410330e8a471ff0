"""The cost model in tables and sentences: its parameters, and its predictions beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.format import Text
from costof.report.blocks import FILES, Cell, Column, Row, Table
from costof.report.sections.cost_model.calculator import extras, where
from costof.report.sections.cost_model.model import CostModel, ExtraCost, OperationCost, Prediction
from costof.results.index import Index


def parameters(index: Index, model: CostModel) -> Table:
    """For a connection and for an operation: what it is measured by, and a row each protection."""
    roles = list(dict.fromkeys(role for cost in model.operations for role in cost.cpu_ms))
    head = ["own time", "round trips", "bytes", *(f"{role} CPU, ms" for role in roles)]
    rows = []
    for metric in dict.fromkeys(cost.metric for cost in model.operations):
        of = [cost for cost in model.operations if cost.metric == metric]
        rows.append(Row([Cell(fmt.capital(f"{of[0].operation}: {index.metric_label(metric)}"))], "group"))
        rows += [_parameters(cost, roles) for cost in of]
    title = "What an operation takes, by itself and of the link"
    return Table([Column("with", "text"), *map(Column, head)], rows, title, group="operation", media=FILES)


def _parameters(cost: OperationCost, roles: list[str]) -> Row:
    cpu = [cost.cpu_ms.get(role) for role in roles]
    used = [fmt.number(each) if each is not None else fmt.NONE for each in cpu]
    counted = [fmt.count(cost.round_trips), fmt.count(cost.bytes), *used]
    return Row([Cell(cost.label), Cell.of(fmt.absolute(cost.own_ms, "ms")), *map(Cell, counted)])


def predictions(index: Index, model: CostModel) -> Iterator[Table]:
    """For each metric its predictions, a protection's distances together."""
    order = {name: number for number, name in enumerate(dict.fromkeys(_name(p) for p in model.predictions))}
    head = ["with", "at", "predicted", "measured", "error"]
    for name in dict.fromkeys(each.metric for each in model.predictions):
        of = [each for each in model.predictions if each.metric == name]
        of.sort(key=lambda each: (order[_name(each)], each.round_trip_ms))
        title = f"Predicted and measured: {index.metric_label(name)}"
        yield Table.of(head, [_predicted(index, each) for each in of], title=title, texts=(0, 1), media=FILES)


def _name(each: Prediction) -> str:
    return each.arm.split("@")[0]


def _place(index: Index, each: Prediction) -> str:
    arm = index.arm(each.arm)
    return where(arm.context if arm else "", each.round_trip_ms)


def _predicted(index: Index, each: Prediction) -> list[str | Text]:
    # Far away the own time's interval is a thin one: more digits than the measurement has would be hard to compare.
    decimals = min(fmt.decimals_of(estimate) for estimate in (each.predicted, each.measured) if estimate)
    error = fmt.percent(each.error, signed=True) if each.error is not None else fmt.NONE
    return [
        index.label(each.arm),
        _place(index, each),
        fmt.absolute(each.predicted, each.unit, decimals=decimals),
        fmt.absolute(each.measured, each.unit) if each.measured else fmt.NONE,
        "the model's own" if each.local else error,
    ]


def worst(index: Index, model: CostModel) -> str | None:
    """How far the model is off where it was put to the test; None where it was not."""
    tested = [each for each in model.predictions if each.error is not None and not each.local]
    if not tested:
        return None
    most = max(tested, key=lambda each: abs(each.error or 0.0))
    far = fmt.plural(len(tested), "prediction")
    return (
        f"Of {far} for farther settings the worst is {fmt.percent(abs(most.error or 0.0))} off: "
        f"'{index.metric_label(most.metric)}', {index.label(most.arm)}, {_place(index, most)}."
    )


def summaries(index: Index, model: CostModel) -> list[str]:
    """'TLS: +1.16 ms and +1 round trip a connection, +0.008 ms and no round trips an operation.'"""
    return [
        f"{each.label}: {_summary(each.connection)} a connection, {_summary(each.operation)} an operation."
        for each in extras(index, model)
    ]


def _summary(extra: ExtraCost) -> str:
    trips = fmt.number(round(extra.round_trips, 2), None if extra.round_trips % 1 else 0, signed=True)
    word = "round trip" if abs(extra.round_trips) == 1 else "round trips"
    own = fmt.absolute(extra.own_ms, "ms", signed=True)
    return f"{own} and {'no' if extra.round_trips == 0 else trips} {word}"


def near_end(index: Index, model: CostModel) -> str | None:
    """Which protections count round trips that cross no link in a connection; the cost model leaves them out."""
    found = []
    for cost in model.operations:
        arm = next((arm for arm in index.nearest.shown_arms if arm.protection == cost.protection), None)
        value = index.value(cost.metric, arm.name) if arm and cost.operation == "connection" else None
        if value and value.round_trips is not None and value.round_trips - cost.round_trips > 0.5:
            found.append(cost.label)
    if not found:
        return None
    names = fmt.listed(found)
    return f"With {names} the TCP handshake ends at the near end of the tunnel: its round trip crosses no link."
