"""The curve of break-even: what an arm adds, over the operations that a connection carries."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, hypot, log10

from costof import format as fmt
from costof.report.axes import Panel, Scale, log, near_zero
from costof.report.canvas import Sheet, columns_for, grid
from costof.report.palette import colour_of
from costof.report.sections.break_even.points import SHARES, Point, whole
from costof.results.index import Index, Setting
from costof.results.models import Arm, Effect

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


def curves(index: Index) -> list[Curve]:
    """A curve for each view and arm that has both effects."""
    found = []
    for view in dict.fromkeys(metric.view for metric in index.core.metrics):
        for setting in index.settings:
            for arm in setting.arms:
                connection = _effect(index, view, arm.name, CONNECTION)
                operation = _effect(index, view, arm.name, OPERATION)
                if connection and operation and connection.control_value > 0 and operation.control_value > 0:
                    found.append(Curve(view, setting, arm, colour_of(index, arm), connection, operation))
    return found


def _effect(index: Index, view: str, arm: str, kinds: tuple[tuple[str, str], ...]) -> Effect | None:
    for phase, ending in kinds:
        for metric in index.core.metrics:
            of_view = metric.view == view and metric.unit != "per_second"
            if of_view and (metric.phase == phase or metric.name.endswith(ending)):
                return index.effect(metric.name, arm)
    return None


def caption(found: list[Curve]) -> list[str]:
    """The ends of each curve, in numbers; the marks where the run has estimated them."""
    parts = []
    for curve in found:
        once, hundred, thousand = (fmt.percent(curve.overhead(count)[0], signed=True) for count in (0, 100, 1000))
        parts.append(
            f"{curve.arm.label} ({curve.view}{curve.setting.at}): {once} where a connection is used once, {hundred} "
            f"where 100 operations follow on it, {thousand} where 1,000 do."
        )
    return [*parts, "The band is the 95 % interval; dots mark where the run puts a curve's fall under 5 % and 1 %."]


def draw(found: list[Curve], index: Index, data: list[Point], width: int) -> Sheet:
    """The axis ends at the decade after the last mark, at 10,000 operations at the least and a million at the most."""
    marks = [item.high or item.operations or 1.0 for item in data]
    reach = float(10 ** min(6, max(4, ceil(log10(max([*marks, 1.0])) + 0.1))))
    panels = []
    for view, title in dict.fromkeys((curve.view, curve.setting.title) for curve in found):
        of = [curve for curve in found if (curve.view, curve.setting.title) == (view, title)]
        panel = _panel(of, data, reach, many=index.many_settings)
        panel.title = f"added time, {view}" + (f"\n{title}" if title else "")
        panels.append(panel)
    return grid(width, panels, 280, columns=columns_for(len(index.settings)))


def _panel(found: list[Curve], data: list[Point], reach: float, *, many: bool) -> Panel:
    """Over the operations; up, linear around zero and logarithmic above 1 %, so that a band is shown below zero too."""
    counts = [reach ** (number / (POINTS - 1)) for number in range(POINTS)]
    top = max(SHARES[0], *(curve.overhead(count)[2] for curve in found for count in (1, reach)))
    lowest = min(-0.01, *(curve.overhead(count)[1] for curve in found for count in (1, reach)))
    bottom = lowest if many or any(curve.overhead(1)[2] < 0 for curve in found) else -0.01
    steps = (-0.5, -0.2, -0.05, 0.0, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0)
    panel = Panel(
        x=Scale(1, reach, log),
        y=Scale(bottom * 1.25 if bottom < -0.01 else -0.01, top * 1.25, near_zero(0.01, 0.67)),
        x_label="operations a connection",
        x_ticks=[10.0**power for power in range(0, round(log10(reach)) + 1, 2 if many else 1)],
        y_ticks={value: fmt.share(value).replace("-", fmt.MINUS) for value in steps if value >= bottom * 1.2},
    )
    panel.across(0, "line", 0.9)
    for mark in SHARES:
        panel.across(mark, "soft", 0.9, dashes="4 3")
    drawn = [(curve, [curve.overhead(count) for count in counts]) for curve in found]
    for curve, points in drawn:
        _, lows, highs = zip(*points, strict=True)
        panel.band(counts, lows, highs, curve.colour)
    for curve, points in drawn:
        panel.line([(count, value) for count, (value, _, _) in zip(counts, points, strict=True)], curve.colour, 2)
        _marks(panel, data, curve, reach, numbers=len(found) <= MOST_NUMBERS)
    return panel


def _marks(panel: Panel, data: list[Point], curve: Curve, reach: float, *, numbers: bool) -> None:
    """The run's own break-even points with their intervals; an interval without an upper end runs out of the panel."""
    for item in data:
        if (item.view, item.arm) != (curve.view, curve.arm.name) or item.operations is None or item.operations <= 1:
            continue
        low, high = max(1.0, item.low or 1.0), reach if item.high is None else item.high
        panel.line([(low, item.share), (high, item.share)], curve.colour, 1.6)
        panel.dot(item.operations, item.share, curve.colour, 7)
        if numbers:
            late = item.operations > reach**0.85
            panel.word(
                item.operations, item.share, whole(item.operations), right=-7 if late else 7, up=10,
                size=11, anchor="end" if late else "start", bold=True,
            )  # fmt: skip
