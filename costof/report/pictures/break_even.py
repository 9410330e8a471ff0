"""Break-even: how much of a connection's whole work the protection adds, by how many operations it serves."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, hypot, log10
from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report import words
from costof.report.palette import light
from costof.report.pictures.canvas import (
    Legend,
    Picture,
    calm,
    columns_for,
    panel_title,
    panels,
    picture,
    plain_numbers,
)
from costof.report.reading import Reading, Setting
from costof.result import Arm, Effect

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

MARKS = (0.05, 0.01)
CONNECTION = (("connect_and_first_operation", "connect_and_first_query"), ("connect", "connect"))
OPERATION = (("operation", "reused_query"),)
"""Phase of the metric, and the end of its name where it is not a phase (the application's view); the best first."""
MOST_NUMBERS = 2
"""With more curves in a panel, numbers at their marks would lie over each other; the table has them."""
POINTS = 60


@dataclass(frozen=True)
class Curve:
    """One arm in one view: the cost of a connection with its first operation, and of each later operation."""

    view: str
    setting: Setting
    arm: Arm
    colour: str
    connection: Effect
    operation: Effect

    def overhead(self, operations: float) -> tuple[float, float, float]:
        """Relative overhead and its bounds where so many operations follow the first one.

        The two effects' errors are taken as independent of each other; the run's own break-even points (dots) come
        from its rounds and need no such assumption.
        """
        first, each = self.connection.difference, self.operation.difference
        base = self.connection.control_value + operations * self.operation.control_value
        value = first.value + operations * each.value
        above = hypot(first.high - first.value, operations * (each.high - each.value))
        below = hypot(first.value - first.low, operations * (each.value - each.low))
        return value / base, (value - below) / base, (value + above) / base


def curves(reading: Reading) -> list[Curve]:
    """A curve for each view and arm that has both effects."""
    found = []
    for view in dict.fromkeys(metric.view for metric in reading.result.metrics):
        for setting in reading.settings:
            for arm in setting.arms:
                connection = _effect(reading, view, arm.name, CONNECTION)
                operation = _effect(reading, view, arm.name, OPERATION)
                if connection and operation and connection.control_value > 0 and operation.control_value > 0:
                    found.append(Curve(view, setting, arm, reading.colour(arm), connection, operation))
    return found


def _effect(reading: Reading, view: str, arm: str, kinds: tuple[tuple[str, str], ...]) -> Effect | None:
    for phase, ending in kinds:
        for metric in reading.result.metrics:
            of_view = metric.view == view and metric.unit != "per_second"
            if of_view and (metric.phase == phase or metric.name.endswith(ending)):
                return reading.effect(metric.name, arm)
    return None


def break_even(reading: Reading) -> Picture | None:
    """None where a run did not measure both a connection and a later operation."""
    found = curves(reading)
    if not found:
        return None
    colours = {curve.colour: curve.arm.label for curve in found}
    return picture(
        "break-even", "What it costs by operations a connection", caption(found),
        lambda width: _draw(reading, found, width), [Legend(colour, label) for colour, label in colours.items()],
    )  # fmt: skip


def caption(found: list[Curve]) -> list[str]:
    """The ends of each curve, in numbers; the marks where the run has estimated them."""
    parts = []
    for curve in found:
        first, hundred, thousand = (words.signed_percent(curve.overhead(count)[0]) for count in (0, 100, 1000))
        parts.append(
            f"{curve.arm.label} ({curve.view}{curve.setting.at}): {first} where a connection is used once, {hundred} "
            f"where 100 operations follow on it, {thousand} where 1,000 do."
        )
    return [*parts, "The band is the 95 % interval; dots mark where the run puts a curve's fall under 5 % and 1 %."]


def _reach(found: list[Curve], reading: Reading) -> float:
    """The axis ends at the decade after the last mark, at 10,000 operations at the least and a million at the most."""
    marks = [item.high or item.operations or 1.0 for item in reading.result.break_even]
    return float(10 ** min(6, max(4, ceil(log10(max([*marks, 1.0])) + 0.1))))


def _draw(reading: Reading, found: list[Curve], width: int) -> Figure:
    shown = list(dict.fromkeys((curve.view, curve.setting.title) for curve in found))
    made, axes = panels(width, len(shown), 280, columns=columns_for(len(reading.settings)))
    reach = _reach(found, reading)
    for each, (view, title) in zip(axes, shown, strict=True):
        _panel(each, reading, [c for c in found if (c.view, c.setting.title) == (view, title)], reach)
        panel_title(each, f"added time, {view}" + (f"\n{title}" if title else ""))
    return made


def _panel(axes: Axes, reading: Reading, found: list[Curve], reach: float) -> None:
    axes.set_xscale("log")
    counts = [reach ** (index / (POINTS - 1)) for index in range(POINTS)]
    top = max(MARKS[0], *(curve.overhead(1)[2] for curve in found))
    bottom = min(-0.01, *(curve.overhead(count)[1] for curve in found for count in (1, reach)))
    for curve in found:
        values, lows, highs = zip(*(curve.overhead(count) for count in counts), strict=True)
        axes.fill_between(counts, lows, highs, color=light(curve.colour), alpha=0.2, linewidth=0)
        axes.plot(counts, values, color=light(curve.colour), linewidth=2)
        _marks(axes, reading, curve, reach, numbers=len(found) <= MOST_NUMBERS)
    _relative_axis(axes, bottom if reading.many_settings else -0.01, top)
    axes.set_xlim(1, reach)
    plain_numbers(axes.xaxis)
    if reading.many_settings:
        axes.set_xticks([10.0**power for power in range(0, round(log10(reach)) + 1, 2)])
    calm(axes, grid="x")
    axes.set_xlabel("operations a connection")


def _relative_axis(axes: Axes, bottom: float, top: float) -> None:
    """Linear around zero and logarithmic above 1 %, so that a band that reaches below zero is shown as it is."""
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.6)
    steps = (-0.5, -0.2, -0.05, 0.0, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0)
    ticks = [value for value in steps if bottom * 1.2 <= value <= top * 1.2]
    axes.set_yticks(ticks, [fmt.share(value).replace("-", fmt.MINUS) for value in ticks])
    axes.yaxis.set_minor_locator(_no_ticks())
    axes.set_ylim(bottom * 1.25 if bottom < -0.01 else -0.01, top * 1.25)
    for mark in MARKS:
        axes.axhline(mark, color=light("soft"), linewidth=0.9, dashes=(4, 3))
    axes.axhline(0, color=light("line"), linewidth=0.9)


def _no_ticks() -> NullLocator:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _marks(axes: Axes, reading: Reading, curve: Curve, reach: float, *, numbers: bool) -> None:
    """The run's own break-even points with their intervals; an interval without an upper end runs out of the panel."""
    for item in reading.result.break_even:
        if (item.view, item.arm) != (curve.view, curve.arm.name) or item.operations is None or item.operations <= 1:
            continue
        low, high = max(1.0, item.low or 1.0), reach if item.high is None else item.high
        axes.plot([low, high], [item.share] * 2, color=light(curve.colour), linewidth=1.6, solid_capstyle="butt")
        if not numbers:
            axes.plot([item.operations], [item.share], "o", color=light(curve.colour), markersize=6)
            continue
        late = item.operations > reach**0.85
        axes.plot([item.operations], [item.share], "o", color=light(curve.colour), markersize=6)
        axes.annotate(
            words.operations(item.operations), (item.operations, item.share), (-7 if late else 7, 6),
            textcoords="offset points", ha="right" if late else "left",
            fontsize=11, fontweight="bold", color=light("ink"),
        )  # fmt: skip
