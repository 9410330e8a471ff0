"""Cost over distance: what the model says between and beyond the distances that were measured, and the measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report.distance import distances
from costof.report.palette import arm_colour, light
from costof.report.pictures.canvas import Legend, Picture, calm, panel_title, panels, picture, plain_numbers
from costof.report.reading import Reading
from costof.result import CostModel, Effect, Estimate, ExtraCost, OperationCost

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 90
HOW_TO_READ = (
    "Lines and their bands are the cost model with its 95 % interval; dots with bars are what was measured at this "
    "run's distances. What is lost is lost to a client that waits for each before it starts the next."
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


def distance(reading: Reading) -> Picture | None:
    """None where the run has no cost model or but one distance."""
    model = reading.result.cost_model
    if model is None or len(model.distances) < 2:
        return None
    operations = {name: lines for name in ("connection", "operation") if (lines := _lines(reading, model, name))}
    if not operations:
        return None
    legend = [Legend(arm_colour(index), label) for index, label in enumerate(reading.protections.values())]
    reach = 1.15 * max(model.distances.values())
    return picture(
        "distance", "The cost, near and far",
        [HOW_TO_READ, *(caption(name, line) for name, lines in operations.items() for line in lines)],
        lambda width: _draw(operations, reach, width), legend,
    )  # fmt: skip


def _lines(reading: Reading, model: CostModel, operation: str) -> list[Line]:
    control = next((cost for cost in model.operations if cost.control and cost.operation == operation), None)
    names = list(reading.protections)
    found = [e for e in model.extras if e.operation == operation and e.protection in names]
    if control is None:
        return []
    return [
        Line(arm_colour(names.index(e.protection)), control, e, _measured(reading, control.metric, e.protection))
        for e in found
    ]


def _measured(reading: Reading, metric: str, protection: str) -> list[tuple[float, Effect]]:
    known = dict(distances(reading))
    found = [(arm.context, reading.effect(metric, arm.name)) for arm in reading.arms if arm.protection == protection]
    return [(known[context], effect) for context, effect in found if effect is not None and context in known]


def caption(operation: str, line: Line) -> str:
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
    value, low, high = (100 * (1 - 1 / each) for each in (ratio.value, ratio.low, ratio.high))
    return Estimate(value=value, low=low, high=high, rounds=ratio.rounds)


def _draw(operations: dict[str, list[Line]], reach: float, width: int) -> Figure:
    """For each operation its added time on a linear axis, and the share that is lost, where the near end is wide."""
    made, axes = panels(width, 2 * len(operations), 262)
    for index, (name, lines) in enumerate(operations.items()):
        time, share = axes[2 * index], axes[2 * index + 1]
        steps = [reach * each / POINTS for each in range(POINTS + 1)]
        _panel(time, lines, steps, Line.added, lambda effect: effect.difference)
        panel_title(time, f"time added to {'a' if name == 'connection' else 'an'} {name}, ms")
        near = [each / POINTS * 2 for each in range(POINTS)]
        far = [2 * (reach / 2) ** (each / POINTS) for each in range(POINTS + 1)]
        _panel(share, lines, [*near, *far], Line.lost, _loss)
        panel_title(share, f"{name}s a second lost, %")
        _near_end(share, reach)
    return made


def _panel(axes: Axes, lines: list[Line], steps: list[float], read: Read, seen: Seen) -> None:
    axes.axhline(0, color=light("soft"), linewidth=0.9)
    for under, line in enumerate(reversed(lines)):
        values, lows, highs = zip(*(read(line, each) for each in steps), strict=True)
        axes.fill_between(steps, lows, highs, color=light(line.colour), alpha=0.25, linewidth=0)
        # The last line is drawn first and broadest, so that those that cost the same are seen beside each other.
        axes.plot(steps, values, color=light(line.colour), linewidth=1.8 + 1.5 * (len(lines) - 1 - under))
        for round_trip_ms, effect in line.measured:
            if (found := seen(effect)) is not None:
                axes.plot([round_trip_ms] * 2, [found.low, found.high], color=light(line.colour), linewidth=2.2)
                axes.plot(
                    [round_trip_ms], [found.value], "o", color=light(line.colour), markersize=6,
                    markeredgecolor=light("paper"), markeredgewidth=1, clip_on=False,
                )  # fmt: skip
    axes.set_xlim(0, max(steps))
    axes.margins(y=0.12)
    calm(axes, grid="both")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.set_xlabel("round-trip time, ms")


def _near_end(axes: Axes, reach: float) -> None:
    """Linear to 1 ms and logarithmic beyond: a LAN and an ocean both have room."""
    axes.set_xscale("symlog", linthresh=1.0, linscale=0.7)
    ticks = [each for each in (0.0, 1.0, 10.0, 100.0, 1000.0) if each <= reach]
    axes.set_xticks(ticks)
    axes.set_xlim(0, reach)
    plain_numbers(axes.xaxis)
    from matplotlib.ticker import NullLocator

    axes.xaxis.set_minor_locator(NullLocator())
