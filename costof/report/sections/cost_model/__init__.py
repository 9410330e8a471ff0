"""The cost of an operation at any distance, the accuracy of the predictions, and a calculator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from costof import format as fmt
from costof.format import Text
from costof.programs.flushes import FLUSHES
from costof.report.blocks import (
    FILES,
    HTML,
    TERMINAL,
    Block,
    Bullets,
    Cell,
    Column,
    Figure,
    Paragraph,
    Part,
    Row,
    Table,
)
from costof.report.canvas import Legend, Panel, Scale, Sheet, grid, near_zero
from costof.report.key_figures import CONNECTION, CORES, OPERATION, KeyFigure, interval_verdict
from costof.report.palette import arm_colour
from costof.report.sections import Section, sentences
from costof.report.sections.cost_model.calculator import (
    Extras,
    Load,
    added,
    calculator,
    distances,
    extras,
    has_connections,
    measured_load,
    where,
)
from costof.report.sections.cost_model.model import (
    CostModel,
    ExtraCost,
    Operation,
    OperationCost,
    Prediction,
    cost_model,
)
from costof.results.index import Index, Lead
from costof.results.models import Core, Effect, Sentence
from costof.results.run import Run
from costof.statistics.estimate import Estimate
from costof.study.schema import SERVER_PREFIX

#: The position of the cost model's tables, near the end of the report. The calculator is near the beginning: its
#: position is the section's `order`.
DETAILS = 100
ADDS = "adds "
FORMULA = "Time of an operation = own time + round trips × round-trip time + bytes ÷ bandwidth (if you enter one)."
TITLE_WITH_FLUSHES = "The cost on any disk"
FORMULA_WITH_FLUSHES = (
    "Time of an operation = own time + round trips × round-trip time + flushes × time of a flush + bytes ÷ bandwidth "
    "(if you enter one)."
)
ADDED = "A protection adds a fixed time, and your round-trip time for each round trip:"
ADDED_WITH_FLUSHES = "A protection adds a fixed time, and the time that your disk needs for each flush:"
SOURCES = (
    "Round trips and bytes were counted on the wire and are exact. An operation's own time is its time minus the other "
    "terms of this sum, estimated at the shortest distance of this run. Round-trip times are the kernel's estimates "
    "for TCP connections to the servers. The intervals of calculated times include the uncertainty of all measured "
    "times."
)

#: The note for runs that could not measure the time of a flush. In their reports, the formula has no flushes.
FLUSH_NOT_MEASURED = (
    "The time of a flush was not measured, because measuring it needs access to the server's disk. The own time of an "
    "operation includes its flushes."
)

NO_OWN_TIME = "none measurable"


class CostModelSection(Section[list[Operation], CostModel]):
    name, title, order = "cost_model", "The cost at any distance", 4
    spec, data = list[Operation], CostModel

    def metrics(self, spec: list[Operation]) -> list[str]:
        return [name for each in spec for name in (each.metric, *each.predicts)]

    def compute(self, run: Run, core: Core, spec: list[Operation]) -> CostModel:
        return cost_model(run, core.distances, spec)

    def blocks(self, index: Index, data: CostModel) -> Iterator[Block]:
        error = worst(index, data)
        flushes = data.flush_ms is not None
        if lines := summaries(index, data):
            text, label = (ADDED_WITH_FLUSHES, "By disk") if flushes else (ADDED, "By distance")
            yield Bullets([text, *lines, *([error] if error else [])], label=label, media=TERMINAL)
        yield Paragraph(FORMULA_WITH_FLUSHES if flushes else FORMULA, "lead", media=FILES)
        yield Paragraph(" ".join([SOURCES, *flush_sources(index, data), *([error] if error else [])]), media=FILES)
        if picture := figure(index, data):
            yield picture
        yield parameters(index, data)
        if note := near_end(index, data):
            yield Paragraph(note, "note", media=FILES)
        yield from predictions(index, data)

    def lead(self, index: Index, data: CostModel) -> Lead:
        """Return how this section's sentences about an example service change the top of the report.

        An example service has an assumed load, such as 100 new connections a second (`measured_load`).

        - In a run with several contexts (such as distances), these sentences begin the report if the run measures
          connections and has at most `MOST_SENTENCES` protections.
        - In a run with a single context, these sentences replace other sentences about the same effects.
        """
        if data.load is not None:
            # The user chose the load of this run, so the report needs no example service.
            return Lead()
        named = words(index, data)
        of_sentences, measured = (
            frozenset(
                (effect.metric, effect.arm)
                for each in protections
                for _, effect in _measured_effects(index, data, each.protection)
            )
            for protections in (_in_sentences(index, data), extras(index, data))
        )
        leads = index.many_contexts and has_connections(data) and 0 < len(extras(index, data)) <= MOST_SENTENCES
        away = bool(_away(data, measured_load(index, data)))
        return Lead(
            leads=leads,
            # In a run with several contexts, such as distances, other sentences may repeat the effects to compare them.
            follow=frozenset() if index.many_contexts else of_sentences,
            computed_away=away and not distances(index, data),
            words={cost.metric: named[cost.operation] for cost in data.operations},
            in_figures=measured,
        )

    def answer(self, index: Index, data: CostModel) -> list[Sentence]:
        """Return the sentences about an example service, and the reason for its costs."""
        service = [*for_a_service(index, data)] if data.load is None else []
        return [*sentences("answer", service), *sentences("why", [text] if (text := reason(index, data)) else [])]

    def key_figures(self, index: Index, data: CostModel) -> list[KeyFigure]:
        return [*key_figures(index, data)] if data.load is None else []

    def parts(self, index: Index, data: CostModel) -> list[Part]:
        title = self.title if data.flush_ms is None else TITLE_WITH_FLUSHES
        model = Part(self.name, title, [*self.blocks(index, data)], DETAILS)
        return [Part("calculator", "Every protection at your load", [*calculator(index, data)]), model]


COMPUTED = "computed from a run on one machine"
#: The summary mentions a protection's additional round trips and bytes only if there are at least this many.
LEAST_ROUND_TRIPS, LEAST_BYTES = 0.05, 100
#: Sentences do not mention a distance with a shorter round-trip time than this.
LEAST_DISTANCE_MS = 0.01
#: If the run has more protections than this, the top of the report has a sentence about only the first one. The
#: calculator always has all of them.
MOST_SENTENCES = 3


def words(index: Index, model: CostModel) -> dict[str, str]:
    """Return the words for a connection and an operation, such as 'a query' for the metric 'query, 1 connection'."""
    metric = next((cost.metric for cost in model.operations if cost.operation == OPERATION), "")
    label = re.split(r",| on | over ", index.metric_label(metric))[0] if metric in index.metrics else "an operation"
    return {CONNECTION: "a new connection", OPERATION: fmt.with_article(label)}


def for_a_service(index: Index, model: CostModel) -> Iterator[str]:
    """Yield a sentence for each protection, such as 'TLS adds 3.3 ms to a new connection … At …, TLS needs …'.

    The costs are calculated for an example service. `measured_load` returns its load and distance.
    """
    load, named = measured_load(index, model), words(index, model)
    far = f", for clients{away}" if (away := _away(model, load)) else ""
    connects = has_connections(model)
    service = (
        f"{load.connections_per_second:g} new connections a second with {load.operations:g} operations each"
        if connects
        else f"{load.connections_per_second:,g} operations a second"
    )
    for each in _in_sentences(index, model):
        costs = added(each, load)
        measured = dict(_measured_effects(index, model, each.protection))
        connection = _time_change(named[CONNECTION], costs.connection_ms, measured.get(CONNECTION))
        operation = _time_change(named[OPERATION], costs.operation_ms, measured.get(OPERATION))
        alike = connection.startswith(ADDS) and operation.startswith(ADDS)
        label = fmt.capital(each.label)
        both = (
            f"{connection} and {operation.removeprefix(ADDS)}{far}"
            if alike
            else f"{connection}{far}. {label} {operation}{far}"
        )
        flush_ms = model.flush_ms if each.operation.flushes else None
        disk = f", on a disk whose flush takes {fmt.absolute(flush_ms, 'ms').value}" if flush_ms else ""
        times = f"{both if connects else f'{operation}{far}'}{disk}"
        cores = f"{each.label} {_cores_change(costs.cores)} (calculated)"
        yield f"{label} {times}. At {service}, {cores}."


def _away(model: CostModel, load: Load) -> str:
    """Return the distance of the example service as text such as ' 1 ms away'; '' without a distance."""
    has_distance = model.way_ms is None and load.round_trip_ms >= LEAST_DISTANCE_MS
    return f" {fmt.away(load.round_trip_ms)} away" if has_distance else ""


def flush_sources(index: Index, model: CostModel) -> list[str]:
    """Return the sentence that says how flushes were counted and timed; [] if the run counted none."""
    if model.flush_ms is None:
        counted = any(value.metric == f"{SERVER_PREFIX}{FLUSHES}" for value in index.core.values)
        return [FLUSH_NOT_MEASURED] if counted else []
    return [
        "Flushes were counted by the servers. Simultaneous operations share flushes, and each operation waits for at "
        f"most two flushes. A flush of the servers' disk took {fmt.absolute(model.flush_ms, 'ms')}, measured before, "
        "between and after the rounds."
    ]


def key_figures(index: Index, model: CostModel) -> Iterator[KeyFigure]:
    """Yield the time that each protection adds to a connection and to an operation, and the added CPU cores.

    The figures are calculated for the load and the distance that `measured_load` returns.
    """
    load = measured_load(index, model)
    away, named = _away(model, load), words(index, model)
    # Readers must be able to distinguish these figures from other figures at the top of the report. So the label says
    # 'computed' if the run measured at another distance, or 'on the wire' if there are also figures measured in an
    # application.
    computed = index.computed_away
    at = ", on the wire" if index.many_views and not computed else ""
    first_arms = {arm.protection: arm for arm in reversed(index.arms)}
    metrics = {
        name: [*dict.fromkeys(cost.metric for cost in model.operations if cost.operation == name)]
        for name in (CONNECTION, OPERATION)
    }
    control: dict[str, float] = {
        cost.operation: cost.own_ms.value + cost.round_trips * load.round_trip_ms + cost.flushes * load.flush_ms
        for cost in model.operations
        if cost.control
    }
    for each in extras(index, model):
        if not index.has_key_figures(first_arms[each.protection].name):
            continue
        costs = added(each, load)
        effects = dict(_measured_effects(index, model, each.protection))
        times = [
            (CONNECTION, f"{named[CONNECTION]}{away}", at, costs.connection_ms),
            (OPERATION, named[OPERATION], f"{away if computed else ''}{at}", costs.operation_ms),
        ]
        for name, what, place, computed_ms in times if has_connections(model) else times[1:]:
            effect = effects.get(name)
            difference = effect.difference if effect is not None else computed_ms
            measured_arm = index.arm(effect.arm) if effect is not None else None
            without = effect.control_value if effect is not None else control.get(name)
            yield KeyFigure(
                name=name,
                arm=each.protection,
                arm_label=each.label,
                label=f"{what}{place}",
                words=f"{named[name]} of a client{away}" if name == CONNECTION and away else what,
                unit="ms",
                metrics=metrics[name],
                arms=(measured_arm or first_arms[each.protection]).with_control,
                decides=not set(metrics[name]).isdisjoint(index.judged_by),
                note=COMPUTED if computed else "",
                without=without,
                value=None if without is None else without + difference.value,
                difference=difference,
                ratio=effect.printed_ratio if effect is not None else None,
                uneven=effect.uneven if effect is not None else None,
                control_label=index.control_label,
                verdict=effect.verdict if effect is not None else interval_verdict(difference),
                margin=index.metrics[effect.metric].margin if effect is not None else 0.0,
            )
        rate = f"{load.connections_per_second:,g}"
        clients, each_has = "operations", ""
        if has_connections(model):
            clients, each_has = "new connections", f", {fmt.plural(round(load.operations), 'operation')} each"
        yield KeyFigure(
            name=CORES,
            arm=each.protection,
            arm_label=each.label,
            label=f"cores at {rate}/s",
            title=f"cores at {rate} {clients} a second{each_has}",
            words=f"cores at {rate} {clients} a second",
            unit=CORES,
            metrics=[name for names in metrics.values() for name in names],
            arms=first_arms[each.protection].with_control,
            difference=costs.cores,
            verdict=interval_verdict(costs.cores),
        )


def reason(index: Index, model: CostModel) -> str:
    """Return a sentence about the run's first protection: 'A new connection with TLS needs 2 more round trips.'.

    There is a further sentence for each protection that saves round trips, because it has another reason. Without a
    reason, return ''.
    """
    texts = []
    connects = has_connections(model)
    operation = fmt.capital(words(index, model)[CONNECTION if connects else OPERATION])
    for place, each in enumerate(extras(index, model)):
        extra = each.connection if connects else each.operation
        if place > 0 and extra.round_trips > -LEAST_ROUND_TRIPS:
            continue
        if parts := [*needs(extra)]:
            texts.append(f"{operation} with {each.label} needs {fmt.listed(parts)}.")
    return " ".join(texts)


def needs(extra: ExtraCost) -> Iterator[str]:
    """Yield what an operation needs with the protection: '1 more flush', '2 more round trips', '3.1 ms more CPU time'.

    CPU time is left out if its interval includes 0.
    """
    if abs(extra.flushes) >= LEAST_ROUND_TRIPS:
        more = "more" if extra.flushes > 0 else "fewer"
        yield fmt.plural_formatted(fmt.count(abs(extra.flushes)), f"{more} flush", f"{more} flushes")
    if abs(extra.round_trips) >= LEAST_ROUND_TRIPS:
        more = "more" if extra.round_trips > 0 else "fewer"
        yield fmt.plural_formatted(fmt.count(abs(extra.round_trips)), f"{more} round trip", f"{more} round trips")
    if extra.cpu_ms.low > 0 or extra.cpu_ms.high < 0:
        of_roles = f" ({fmt.listed(extra.roles)})" if extra.roles else ""
        more = "more" if extra.cpu_ms.value > 0 else "less"
        yield f"{fmt.absolute(_size(extra.cpu_ms), 'ms').value} {more} CPU time{of_roles}"
    if abs(extra.bytes) >= LEAST_BYTES:
        yield f"{fmt.bytes_text(abs(extra.bytes))} {'more' if extra.bytes > 0 else 'less'} data"


def _in_sentences(index: Index, model: CostModel) -> list[Extras]:
    protections = extras(index, model)
    return protections if len(protections) <= MOST_SENTENCES else protections[:1]


def _measured_effects(index: Index, model: CostModel, protection: str) -> Iterator[tuple[str, Effect]]:
    """Yield the measured effects on a connection and on an operation, as ('connection' or 'operation', effect).

    The effects are those at the distance that `measured_load` returns. Yield nothing if the run did not measure there.
    """
    away = measured_load(index, model).round_trip_ms
    contexts = {name for name, ms in index.core.distances.items() if ms == away or model.way_ms is not None}
    arm = next((arm for arm in index.arms if arm.protection == protection and arm.context in contexts), None)
    if arm is None:
        return
    for metric, operation in {cost.metric: cost.operation for cost in model.operations}.items():
        if (effect := index.effect(metric, arm.name)) is not None:
            yield operation, effect


def _time_change(operation: str, computed: Estimate, measured: Effect | None) -> str:
    """Return a clause about the measured effect on an operation or, if it was not measured, about the computed one.

    For example: 'adds 3.3 ms [3.2, 3.4] (+120 %) to a new connection'.
    """
    ms = measured.difference if measured is not None else computed
    if ms.low <= 0 <= ms.high:
        return f"may change the time of {operation} by up to {fmt.at_most(ms, 'ms')}"
    ratio = measured.printed_ratio if measured is not None else None
    share = f" ({fmt.relative(ratio).value})" if ratio is not None else ""
    amount = f"{fmt.absolute(_size(ms), 'ms')}{share}"
    return f"{ADDS}{amount} to {operation}" if ms.value > 0 else f"shortens {operation} by {amount}"


def _cores_change(cores: Estimate) -> str:
    """Return a clause about additional cores, such as 'needs 0.12 [0.11, 0.13] more CPU cores'."""
    if cores.low <= 0 <= cores.high:
        return f"may change the used CPU time by up to {fmt.at_most(cores, 'cores')}"
    return f"needs {fmt.absolute(_size(cores))} {'more' if cores.value > 0 else 'fewer'} CPU cores"


def _size(estimate: Estimate) -> Estimate:
    return estimate if estimate.value > 0 else estimate.through(lambda value: -value)


def parameters(index: Index, model: CostModel) -> Table:
    roles = list(dict.fromkeys(role for cost in model.operations for role in cost.cpu_ms))
    flushes = ["flushes"] if model.flush_ms else []
    head = ["own time", "round trips", *flushes, "bytes", *(f"{role} CPU, ms" for role in roles)]
    rows = []
    for metric in dict.fromkeys(cost.metric for cost in model.operations):
        costs = [cost for cost in model.operations if cost.metric == metric]
        rows.append(Row([Cell(fmt.capital(f"{costs[0].operation}: {index.metric_label(metric)}"))], "group"))
        for cost in costs:
            cpu = [cost.cpu_ms.get(role) for role in roles]
            used = [fmt.number(each) if each is not None else fmt.NONE for each in cpu]
            waits = [fmt.count(cost.flushes)] if flushes else []
            counted = [fmt.count(cost.round_trips), *waits, fmt.count(cost.bytes), *used]
            own = Cell.of(fmt.absolute(cost.own_ms, "ms")) if cost.own_ms.value > 0 else Cell(NO_OWN_TIME)
            rows.append(Row([Cell(cost.label), own, *map(Cell, counted)]))
    title = f"Own time, round trips, {'flushes, ' if flushes else ''}bytes and CPU of an operation"
    return Table([Column("variant", "text"), *map(Column, head)], rows, title, group="operation", media=FILES)


def predictions(index: Index, model: CostModel) -> Iterator[Table]:
    protections = dict.fromkeys(each.arm.split("@")[0] for each in model.predictions)
    order = {name: number for number, name in enumerate(protections)}
    head = ["variant", "distance", "predicted", "measured", "error"]
    # The model is computed from the figures at one distance (`local`), so it cannot be tested there. Leave out metrics
    # without a prediction for another distance.
    tested = dict.fromkeys(each.metric for each in model.predictions if not each.local)
    for name in tested:
        shown = [each for each in model.predictions if each.metric == name]
        shown.sort(key=lambda each: (order[each.arm.split("@")[0]], each.round_trip_ms))
        title = f"Predicted and measured: {index.metric_label(name)}"
        yield Table.of(head, [_predicted(index, each) for each in shown], title=title, texts=(0, 1), media=FILES)


def _predicted(index: Index, each: Prediction) -> list[str | Text]:
    # A prediction is printed with no more digits than the measurement, even if its interval is narrower.
    decimals = min(fmt.estimate_decimals(estimate) for estimate in (each.predicted, each.measured) if estimate)
    error = fmt.percent(each.error, signed=True) if each.error is not None else fmt.NONE
    return [
        index.label(each.arm),
        where(index.context(each.arm), each.round_trip_ms),
        fmt.absolute(each.predicted, each.unit, decimals=decimals),
        fmt.absolute(each.measured, each.unit) if each.measured else fmt.NONE,
        "model input" if each.local else error,
    ]


def worst(index: Index, model: CostModel) -> str | None:
    """Return a sentence about the prediction with the largest error; None if no prediction can be compared."""
    tested = [each for each in model.predictions if each.error is not None and not each.local]
    if not tested:
        return None
    most = max(tested, key=lambda each: abs(each.error or 0.0))
    figures, were = fmt.plural(len(tested), "figure"), "was" if len(tested) == 1 else "were"
    worst = "The prediction" if len(tested) == 1 else "The worst prediction"
    return (
        f"To check the formula, {figures} at farther distances {were} predicted and measured. {worst} differs from the "
        f"measurement by {fmt.percent(abs(most.error or 0.0))} ('{index.metric_label(most.metric)}' with "
        f"{index.label(most.arm)} at a round-trip time of {fmt.milliseconds(most.round_trip_ms)})."
    )


def summaries(index: Index, model: CostModel) -> list[str]:
    """Return a text about each protection, such as 'TLS: +1.16 ms and +1 round trip for each connection, …'."""
    connects = has_connections(model)
    return [
        f"{fmt.capital(each.label)}: {f'{_summary(each.connection, model)} for each connection, ' if connects else ''}"
        f"{_summary(each.operation, model)} for each operation."
        for each in extras(index, model)
    ]


def _summary(extra: ExtraCost, model: CostModel) -> str:
    if extra.flushes and model.flush_ms is not None:
        own, flushes = fmt.absolute(extra.own_ms, "ms", signed=True), fmt.number(extra.flushes, 2, signed=True)
        return f"{own} and {flushes} {'flush' if abs(extra.flushes) == 1 else 'flushes'}"
    trips = fmt.number(round(extra.round_trips, 2), None if extra.round_trips % 1 else 0, signed=True)
    word = "round trip" if abs(extra.round_trips) == 1 else "round trips"
    own = fmt.absolute(extra.own_ms, "ms", signed=True)
    return f"{own} and {'no additional' if extra.round_trips == 0 else trips} {word}"


def near_end(index: Index, model: CostModel) -> str | None:
    """Return a note about arms whose clients connect to a proxy or tunnel on their own host; None if there are none.

    That program answers the TCP handshake. The handshake does not cross the link to the servers, so the cost model does
    not count its round trip.
    """
    labels = []
    for cost in model.operations:
        arm = next((arm for arm in index.nearest.shown_arms if arm.protection == cost.protection), None)
        value = index.value(cost.metric, arm.name) if arm and cost.operation == "connection" else None
        if value and value.round_trips is not None and value.round_trips - cost.round_trips > 0.5:
            labels.append(cost.label)
    if not labels:
        return None
    # Either all labels of a list are in quotes or none is.
    names = fmt.listed([f"'{label}'" for label in labels] if len(labels) > 1 else [*map(fmt.in_quotes, labels)])
    return (
        f"With {names}, a program on the client's host (a proxy or the entrance of a tunnel) answers the client's TCP "
        "handshake. The round trip of this handshake does not cross the link and is not counted."
    )


POINTS = 90
DOT = 4.5
DASH = 5
HOW_TO_READ = (
    "Lines and bands are the cost model with its 95 % interval; dots with bars are measured effects. The lost share "
    "of operations a second holds for a client that waits for each operation before it starts the next."
)


@dataclass(frozen=True)
class Line:
    """The cost that one protection adds to one operation: the curve of the model, and the measured costs."""

    colour: str
    control: OperationCost
    extra: ExtraCost
    measured: list[tuple[float, Effect]]

    def added(self, round_trip_ms: float) -> tuple[float, float, float]:
        own, far = self.extra.own_ms, self.extra.round_trips * round_trip_ms
        return own.value + far, own.low + far, own.high + far

    def lost(self, round_trip_ms: float) -> tuple[float, float, float]:
        """Return the percentage of throughput that is lost, as (value, low, high).

        The throughput is that of a client that waits for each operation before it starts the next.
        """
        base = self.control.own_ms.value + self.control.round_trips * round_trip_ms
        value, low, high = (100 * each / (base + each) for each in self.added(round_trip_ms))
        return value, low, high


Read = Callable[[Line, float], tuple[float, float, float]]
Measure = Callable[[Effect], Estimate | None]


def figure(index: Index, model: CostModel) -> Figure | None:
    distances = index.core.distances
    operations = {name: lines for name in ("connection", "operation") if (lines := _lines(index, model, name))}
    if len(set(distances.values())) < 2 or not operations:
        return None
    legend = [Legend(arm_colour(number), label) for number, label in enumerate(index.protections.values())]
    caption = [HOW_TO_READ, *(_caption(name, line) for name, lines in operations.items() for line in lines)]
    reach = 1.15 * max(distances.values())
    title = "The cost, near and far"
    return Figure("distance", title, caption, lambda width: _draw(operations, reach, width), legend, media=HTML)


def _lines(index: Index, model: CostModel, operation: str) -> list[Line]:
    control = next((cost for cost in model.operations if cost.control and cost.operation == operation), None)
    names = list(index.protections)
    shown = [e for e in model.extras if e.operation == operation and e.protection in names]
    if control is None:
        return []
    return [
        Line(arm_colour(names.index(e.protection)), control, e, _measured(index, model, control.metric, e.protection))
        for e in shown
    ]


def _measured(index: Index, model: CostModel, metric: str, protection: str) -> list[tuple[float, Effect]]:
    """Return the measured effects on a metric, as (round-trip time, effect), of the arms that have predictions."""
    distances, predicted = index.core.distances, {each.arm for each in model.predictions}
    arms = [arm for arm in index.arms if arm.protection == protection and arm.name in predicted]
    effects = [(arm.context, index.effect(metric, arm.name)) for arm in arms]
    return [(distances[each], effect) for each, effect in effects if effect is not None and each in distances]


def _caption(operation: str, line: Line) -> str:
    parts = []
    for round_trip_ms, effect in line.measured:
        modelled = fmt.with_unit(fmt.number(line.added(round_trip_ms)[0], 2, signed=True), "ms")
        measured = fmt.with_unit(fmt.number(effect.difference.value, 2, signed=True), "ms")
        parts.append(f"{modelled} at {fmt.milliseconds(round_trip_ms)} (measured {measured})")
    return f"{line.extra.label}, a {operation}: {fmt.listed(parts)}.".replace("a operation", "an operation")


def _draw(operations: dict[str, list[Line]], reach: float, width: int) -> Sheet:
    """Draw two panels for each operation: the added time, and the lost share of throughput, by round-trip time."""

    def lost(effect: Effect) -> Estimate | None:
        has_share = effect.ratio is not None and effect.ratio.low > 0
        return effect.ratio.through(lambda each: 100 * (1 - 1 / each)) if effect.ratio and has_share else None

    panels = []
    for name, lines in operations.items():
        steps = [reach * each / POINTS for each in range(POINTS + 1)]
        time = _panel(lines, steps, Line.added, lambda effect: effect.difference)
        time.title = f"time added to {'a' if name == 'connection' else 'an'} {name}, ms"
        near = [each / POINTS * 2 for each in range(POINTS)]
        far = [2 * (reach / 2) ** (each / POINTS) for each in range(POINTS + 1)]
        share = _panel(lines, [*near, *far], Line.lost, lost)
        share.title = f"{name}s a second lost, %"
        # The axis is linear up to 1 ms and logarithmic beyond, to show the distances of a LAN and of other continents.
        share.x = Scale(-0.1, reach * 1.1, near_zero(1.0, 0.78))
        share.x_ticks = [each for each in (0.0, 1.0, 10.0, 100.0, 1000.0) if each <= reach]
        panels += [time, share]
    return grid(width, panels, 262)


def _panel(lines: list[Line], steps: list[float], read: Read, measure: Measure) -> Panel:
    modelled = [(line, [read(line, each) for each in steps]) for line in lines]
    measured = [found for line in lines for _, effect in line.measured if (found := measure(effect)) is not None]
    ends = [each for _, points in modelled for point in points for each in point]
    ends += [each for found in measured for each in (found.low, found.high)]
    panel = Panel(
        x=Scale(-0.03 * max(steps), max(steps)), y=Scale.around([*ends, 0.0], 0.12),
        x_label="round-trip time, ms", y_ticks=None, grid="xy",
    )  # fmt: skip
    panel.across(0, "soft", 0.9)
    for line, points in modelled:
        values, lows, highs = zip(*points, strict=True)
        panel.band(steps, lows, highs, line.colour)
        overlapping = [other for other in lines if _overlap(line, other)]
        position = overlapping.index(line)
        # The dashes of overlapping lines alternate, so that no line covers another.
        dashes = f"{DASH} {DASH * (len(overlapping) - 1)}" if len(overlapping) > 1 else ""
        panel.line(list(zip(steps, values, strict=True)), line.colour, 1.8, dashes=dashes, offset=-DASH * position)
        # The dots of overlapping lines are drawn side by side.
        aside = DOT * (position - (len(overlapping) - 1) / 2)
        for round_trip_ms, effect in line.measured:
            if (found := measure(effect)) is not None:
                bar = [(round_trip_ms, found.low), (round_trip_ms, found.high)]
                panel.line(bar, line.colour, 1.8, aside=aside)
                panel.dot(round_trip_ms, found.value, line.colour, DOT + 1.5, edge="paper", aside=aside)
    return panel


def _overlap(line: Line, other: Line) -> bool:
    one, two = line.extra, other.extra
    overlap = one.own_ms.low <= two.own_ms.high and two.own_ms.low <= one.own_ms.high
    return overlap and abs(one.round_trips - two.round_trips) < 0.01


SECTION = CostModelSection()
