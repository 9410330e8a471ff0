"""Cost over distance: what the model says between and beyond the distances that were measured, and the measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costof import format as fmt
from costof.report.axes import Panel, Scale, near_zero
from costof.report.blocks import HTML, Figure
from costof.report.canvas import Legend, Sheet, grid
from costof.report.palette import arm_colour
from costof.report.sections.cost_model.model import CostModel, ExtraCost, OperationCost
from costof.results.index import Index
from costof.results.models import Effect
from costof.statistics.estimate import Estimate

POINTS = 90
DOT = 4.5
DASH = 5
HOW_TO_READ = (
    "Lines and their bands are the cost model with its 95 % interval; dots with bars are what was measured at this "
    "run's distances. A share is lost to a client that waits for each operation before it starts the next."
)


@dataclass(frozen=True)
class Line:
    """What one protection adds to one operation: the model's numbers and the effects that were measured."""

    colour: str
    control: OperationCost
    extra: ExtraCost
    measured: list[tuple[float, Effect]]

    def added(self, round_trip_ms: float) -> tuple[float, float, float]:
        """Milliseconds added at a distance, with both ends."""
        own, far = self.extra.own_ms, self.extra.round_trips * round_trip_ms
        return own.value + far, own.low + far, own.high + far

    def lost(self, round_trip_ms: float) -> tuple[float, float, float]:
        """Percent of a waiting client's throughput that is lost at a distance, with both ends."""
        base = self.control.own_ms.value + self.control.round_trips * round_trip_ms
        value, low, high = (100 * each / (base + each) for each in self.added(round_trip_ms))
        return value, low, high


Read = Callable[[Line, float], tuple[float, float, float]]
Seen = Callable[[Effect], Estimate | None]


def figure(index: Index, model: CostModel) -> Figure | None:
    """None where the run has but one distance."""
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
    found = [e for e in model.extras if e.operation == operation and e.protection in names]
    if control is None:
        return []
    return [
        Line(arm_colour(names.index(e.protection)), control, e, _measured(index, model, control.metric, e.protection))
        for e in found
    ]


def _measured(index: Index, model: CostModel, metric: str, protection: str) -> list[tuple[float, Effect]]:
    """Effects at the distances that the model speaks of, which are of one setting."""
    known, spoken_of = index.core.distances, {each.arm for each in model.predictions}
    arms = [arm for arm in index.arms if arm.protection == protection and arm.name in spoken_of]
    found = [(arm.context, index.effect(metric, arm.name)) for arm in arms]
    return [(known[context], effect) for context, effect in found if effect is not None and context in known]


def _caption(operation: str, line: Line) -> str:
    """What a protection costs at each measured distance, as modelled and as measured."""
    parts = []
    for round_trip_ms, effect in line.measured:
        modelled = fmt.with_unit(fmt.number(line.added(round_trip_ms)[0], 2, signed=True), "ms")
        measured = fmt.with_unit(fmt.number(effect.difference.value, 2, signed=True), "ms")
        parts.append(f"{modelled} at {fmt.milliseconds(round_trip_ms)} (measured {measured})")
    return f"{line.extra.label}, a {operation}: {fmt.listed(parts)}.".replace("a operation", "an operation")


def _loss(effect: Effect) -> Estimate | None:
    ratio = effect.ratio
    if ratio is None or ratio.low <= 0:
        return None
    return ratio.through(lambda each: 100 * (1 - 1 / each))


def _draw(operations: dict[str, list[Line]], reach: float, width: int) -> Sheet:
    """For each operation its added time on a linear axis, and the share that is lost, where the near end is wide."""
    panels = []
    for name, lines in operations.items():
        steps = [reach * each / POINTS for each in range(POINTS + 1)]
        time = _panel(lines, steps, Line.added, lambda effect: effect.difference)
        time.title = f"time added to {'a' if name == 'connection' else 'an'} {name}, ms"
        near = [each / POINTS * 2 for each in range(POINTS)]
        far = [2 * (reach / 2) ** (each / POINTS) for each in range(POINTS + 1)]
        share = _panel(lines, [*near, *far], Line.lost, _loss)
        share.title = f"{name}s a second lost, %"
        # Linear to 1 ms and logarithmic beyond: a LAN and an ocean both have room.
        share.x = Scale(-0.1, reach * 1.1, near_zero(1.0, 0.78))
        share.x_ticks = [each for each in (0.0, 1.0, 10.0, 100.0, 1000.0) if each <= reach]
        panels += [time, share]
    return grid(width, panels, 262)


def _panel(lines: list[Line], steps: list[float], read: Read, seen: Seen) -> Panel:
    modelled = [(line, [read(line, each) for each in steps]) for line in lines]
    measured = [found for line in lines for _, effect in line.measured if (found := seen(effect)) is not None]
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
        alike = [other for other in lines if _alike(line, other)]
        turn = alike.index(line)
        # Lines that the model cannot tell apart share one course: each has its turn of it, none covers the others.
        dashes = f"{DASH} {DASH * (len(alike) - 1)}" if len(alike) > 1 else ""
        panel.line(list(zip(steps, values, strict=True)), line.colour, 1.8, dashes=dashes, offset=-DASH * turn)
        # Where their lines are one, the protections' dots stand beside each other.
        _measurements(panel, line, seen, DOT * (turn - (len(alike) - 1) / 2))
    return panel


def _alike(line: Line, other: Line) -> bool:
    one, two = line.extra, other.extra
    overlap = one.own_ms.low <= two.own_ms.high and two.own_ms.low <= one.own_ms.high
    return overlap and abs(one.round_trips - two.round_trips) < 0.01


def _measurements(panel: Panel, line: Line, seen: Seen, aside: float) -> None:
    for round_trip_ms, effect in line.measured:
        if (found := seen(effect)) is not None:
            ends = [(round_trip_ms, found.low), (round_trip_ms, found.high)]
            panel.line(ends, line.colour, 1.8, aside=aside)
            panel.dot(round_trip_ms, found.value, line.colour, DOT + 1.5, edge="paper", aside=aside)
