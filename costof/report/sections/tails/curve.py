"""The cost at each percentile, from the fastest operations to the slowest, with a band for the whole curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import log10
from statistics import median

from pydantic import Field

from costof import format as fmt
from costof.model import Finite, Model
from costof.report.blocks import FILES, HTML, Block, Bullets, Cell, Column, Details, Figure, Row, Table
from costof.report.canvas import (
    Legend,
    Panel,
    Scale,
    Sheet,
    columns_for,
    context_title,
    decades,
    grid,
    near_zero,
    tick,
)
from costof.report.palette import arm_colour, colour_of
from costof.results.index import Context, Index
from costof.results.models import Arm, Metric
from costof.statistics.estimate import Estimate

#: The percentiles that the picture's axis marks, and those in the table.
TICKS = (1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99)
IN_TABLE = frozenset({1, 10, 25, 50, 75, 90, 95, 99, 99.9, 99.99})
MEDIAN = 50
COST, SAVING = "cost", "saving"
#: If the highest cost is more than this many times the median of all points' costs, the axis of costs is linear up to
#: about twice this median, and logarithmic beyond.
MOST_ON_LINEAR_AXIS = 12.0
READING = (
    "Left are the fastest operations, right the slowest. The line shows by how much each percentile is higher "
    "than the control's. The band contains the whole true curve in 95 of 100 runs. A flat line means that all "
    "operations pay the same."
)


class CurvePoint(Model):
    """A percentile of the control and of the arm, in the metric's unit, and the difference between them."""

    percentile: Finite
    control_value: Finite
    value: Finite
    difference: Finite
    low: Finite = Field(
        description="Lower end of the band, which contains all true differences at once in 95 % of runs."
    )
    high: Finite = Field(description="Upper end of the band.")


class Curve(Model):
    """The cost of an arm at each percentile of its operations, up to the highest for which it has enough operations."""

    metric: str
    arm: str
    points: list[CurvePoint] = Field(description="In ascending order of the percentiles.")


class MissingCurve(Model):
    """An arm without a curve, because it or its control has too few operations."""

    metric: str
    arm: str
    operations: int
    needed: int


def curve_blocks(index: Index, curves: Sequence[Curve]) -> Iterator[Block]:
    by_panel: dict[tuple[str, str], list[tuple[Arm, Curve]]] = {}
    for curve in curves:
        arm = index.arm(curve.arm)
        if arm is not None and curve.metric in index.metrics:
            by_panel.setdefault((curve.metric, arm.context), []).append((arm, curve))
    contexts = {context.name: context for context in index.contexts}
    panels = [(index.metrics[metric], contexts[context], shown) for (metric, context), shown in by_panel.items()]
    if panels:
        yield _figure(index, panels)
        texts = [sentence(index, curve) for *_, shown in panels for _, curve in shown]
        yield Bullets(texts, media=FILES)
        yield Details("The curves as a table", [_table(index, panels)], media=HTML)


Panels = list[tuple[Metric, Context, list[tuple[Arm, Curve]]]]


def _figure(index: Index, shown: Panels) -> Figure:
    legend = [Legend(arm_colour(number), label) for number, label in enumerate(index.protections.values())]
    caption = [
        f"{fmt.capital(metric.label)} ({metric.view}{context.at}): {_at_ticks(metric, arms)}."
        for metric, context, arms in shown
    ]

    def draw(width: int) -> Sheet:
        panels = [_panel(index, *each) for each in shown]
        return grid(width, panels, 254 if index.many_contexts else 236, columns=columns_for(len(index.contexts)))

    title = "What each operation pays, from the fastest to the slowest"
    return Figure("quantiles", title, caption, draw, legend, reading=READING, media=HTML)


def _at_ticks(metric: Metric, shown: list[tuple[Arm, Curve]]) -> str:
    """Return the costs at the marked percentiles in words, such as 'TLS: +0.03 ms at p50 and +0.4 ms at p99'."""
    texts = []
    for arm, curve in shown:
        points = [point for point in curve.points if point.percentile in TICKS]
        added = [f"{_added(point, metric).value} at {percentile_name(point.percentile)}" for point in points]
        texts.append(f"{arm.label}: {fmt.listed(added)}")
    return "; ".join(texts)


def _panel(index: Index, metric: Metric, context: Context, shown: list[tuple[Arm, Curve]]) -> Panel:
    points = [point for _, curve in shown for point in curve.points]
    unit = fmt.UNITS.get(metric.unit, metric.unit)
    title = f"{metric.label}, {metric.view}: added {unit}"
    if context.title:
        title = context_title(f"{metric.label}: added {unit}", context.title, columns_for(len(index.contexts)))
    percentiles = [point.percentile for point in points]
    panel = Panel(
        title=title,
        # This axis stretches the fastest and the slowest operations.
        x=Scale(min(percentiles), max(percentiles), lambda percentile: log10(percentile / (100 - percentile))),
        x_label="percentile",
        x_ticks=[*TICKS],
        grid="xy",
    )
    panel.y, panel.y_ticks = _costs_axis(points)
    for arm, curve in shown:
        places = [point.percentile for point in curve.points]
        lows, highs = [point.low for point in curve.points], [point.high for point in curve.points]
        panel.band(places, lows, highs, colour_of(index, arm))
    panel.across(0, "ink", 1)
    for arm, curve in shown:
        panel.line([(point.percentile, point.difference) for point in curve.points], colour_of(index, arm), 1.8)
    return panel


def _costs_axis(points: Sequence[CurvePoint]) -> tuple[Scale, dict[float, str] | None]:
    """Return an axis for all points with their bands, and its ticks (None for round numbers).

    The axis is linear. If very high costs would squeeze all others together, it is logarithmic beyond a threshold.
    """
    low, high = min(0.0, *(point.low for point in points)), max(0.0, *(point.high for point in points))
    usual = median(abs(point.difference) for point in points)
    if usual == 0 or max(high, -low) <= MOST_ON_LINEAR_AXIS * usual:
        return Scale.around([low, high], 0.06), None
    threshold = next(each for each in decades(usual, usual * 10) if each >= 2 * usual)
    ticks = [0.0, threshold / 2]
    ticks += [each for each in decades(threshold, high) if each >= threshold] if high > threshold else []
    ticks += [-each for each in decades(threshold, -low)] if -low > threshold else []
    bend = near_zero(threshold, 0.8)
    return Scale(low * 1.2, high * 1.2, bend), {each: tick(each) for each in ticks}


def _table(index: Index, shown: Panels) -> Table:
    rows = []
    for metric, _, curves in shown:
        rows.append(Row([Cell(fmt.titled(index.metric_title(metric.name), metric.unit))], "group"))
        for arm, curve in curves:
            for point in curve.points:
                if point.percentile in IN_TABLE:
                    values = (Cell(fmt.number(each)) for each in (point.control_value, point.value))
                    name = percentile_name(point.percentile)
                    rows.append(Row([Cell(index.label_at(arm.name)), Cell(name), *values, Cell.of(_added(point))]))
    figures = map(Column, (index.control_heading, "this variant", "added, with the band"))
    columns = [Column("variant", "text"), Column("percentile", "text"), *figures]
    return Table(columns, rows, "The cost at each percentile", group="metric")


def _added(point: CurvePoint, metric: Metric | None = None) -> fmt.Text:
    band = Estimate(value=point.difference, low=point.low, high=point.high, rounds=2)
    return fmt.absolute(band, metric.unit if metric else "", signed=True)


def percentile_name(percentile: float) -> str:
    return f"p{percentile:g}"


def sentence(index: Index, curve: Curve) -> str:
    """Return a sentence that says whether fast and slow operations cost the same or, if not, which cost more."""
    metric, points = index.metrics[curve.metric], curve.points
    subject, what = fmt.capital(index.subject(curve.arm)), index.metric_in_view(curve.metric)
    first, last = (percentile_name(point.percentile) for point in (points[0], points[-1]))
    alike = alike_from_the_first(points)
    low, high = max(point.low for point in alike), min(point.high for point in alike)
    none = low <= 0 <= high
    effect, amount = _common(metric, low, high)
    verb, preposition = ("add", "to") if effect == COST else ("save", "of")
    about = f"{verb}s about {amount} {preposition}"
    if len(alike) == len(points):
        if none:
            return f"{subject} shows no clear difference in {what} at any percentile from {first} to {last}."
        unresolved = sum(point.low <= 0 <= point.high for point in points)
        if not unresolved:
            return (
                f"{subject} {about} {what}, whether an operation is fast or slow: this {effect} fits every percentile "
                f"from {first} to {last}."
            )
        if unresolved > len(points) / 2:
            return (
                f"From {first} to {last}, {index.subject(curve.arm)} may {verb} about {amount} {preposition} {what}, "
                f"but the effect is resolved at only {len(points) - unresolved} of the {len(points)} percentiles."
            )
        return (
            f"{subject} {about} {what} from {first} to {last}. At {unresolved} of the {len(points)} percentiles in "
            "this range, the effect is unresolved."
        )
    if alike[-1].percentile < MEDIAN:
        middle = next(point for point in points if point.percentile == MEDIAN)
        shown = [
            f"{_added(each, metric)} at {percentile_name(each.percentile)}" for each in (points[0], middle, points[-1])
        ]
        return f"{subject} changes {what} by an amount that depends on the percentile: {fmt.listed(shown)}."
    *_, far = (point for point in points[len(alike) :] if point.low > high or point.high < low)
    limit, at = percentile_name(alike[-1].percentile), f"{_added(far, metric)} at {percentile_name(far.percentile)}"
    if none:
        return f"{subject} shows no clear difference in {what} up to {limit}, but a clear one above {limit}: {at}."
    above = "more" if (far.low > high) == (effect == COST) else "less"
    return f"{subject} {about} {what} up to {limit}, and {above} above {limit}: {at}."


def alike_from_the_first(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """Return as many points as may have the same cost, from the lowest percentile on.

    Points may have the same cost if a single cost lies within the bands of all of them.
    """
    alike: list[CurvePoint] = []
    low, high = float("-inf"), float("inf")
    for point in points:
        low, high = max(low, point.low), min(high, point.high)
        if low > high:
            break
        alike.append(point)
    return alike


def _common(metric: Metric, low: float, high: float) -> tuple[str, str]:
    """Return whether an effect between two limits is a cost or a saving, and its amount, such as '0.05 ms'."""
    cost = (low + high) / 2
    decimals = min(fmt.decimals_for((high - low) / 2) or fmt.MOST_DECIMALS, fmt.significant_decimals(cost))
    return COST if cost > 0 else SAVING, fmt.with_unit(fmt.number(abs(cost), decimals), metric.unit)
