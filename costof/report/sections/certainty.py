"""How sure the figures are: the difference in every round, the distribution of latencies, and the noise floor.

If a run restarts the servers, the section shows one difference for each start of the servers, not for each round.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log10

from costof import format as fmt
from costof.report.blocks import HTML, TEXT, Block, Bullets, Cell, Figure, Paragraph, Table
from costof.report.canvas import Legend, Panel, Scale, Sheet, columns_for, context_title, grid, log, named
from costof.report.palette import arm_colour, colour_of
from costof.report.sections import Section
from costof.results.index import Context, Index, verdict_words
from costof.results.models import Arm, Effect, Metric, Value

NOISE = ["metric", "difference", "relative", "noise up to"]
ROW_HEIGHT, CROWDED_ROW_HEIGHT = 54, 34
"""Heights of a row in pixels. CROWDED_ROW_HEIGHT is for runs with several contexts (such as distances) and more than
three rows in a panel."""
TIMES = ("ms", "us")
CUT = 0.999
"""The curves of latencies end at this share of operations. An axis up to the slowest operation would squeeze them."""
TICKS = (0.0, 0.5, 0.9, 0.99, 0.999)
SLOWEST = (
    "The height is the share of operations that took at most the time on the axis. Its scale spreads out the slowest "
    "operations."
)
DOTS = "Each dot is one {}, the first at the top; the band is the 95 % interval of the effect."
Panels = list[tuple[Metric, Context]]


class CertaintySection(Section[None, None]):
    name, title, order = "certainty", "How sure", 130

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if not index.core.effects and not index.core.noise_floor:
            return
        yield Bullets([_scope(index)], label="Holds for", loose=True, media=TEXT)
        yield Paragraph(_scope(index), label="Holds for.", media=HTML)
        pairs = [(metric, context) for metric in index.headline_metrics for context in index.contexts]
        if shown := [pair for pair in pairs if _effects(index, *pair)]:
            yield _differences(index, shown)
        pairs = [(metric, context) for metric in _timed(index) for context in index.contexts]
        if shown := [pair for pair in pairs if _curves(index, *pair)]:
            yield _distributions(index, shown)
        for context in index.contexts:
            rows: list[list[str | Cell]] = []
            for noise in index.core.noise_floor:
                if noise.context == context.name:
                    metric = index.metrics.get(noise.metric)
                    name = index.metric_title(noise.metric)
                    difference = fmt.absolute(noise.difference, metric.unit if metric else "", signed=True)
                    relative = Cell.of(fmt.relative(noise.ratio))
                    rows.append([name, Cell.of(difference), relative, fmt.percent(noise.relative)])
            if rows:
                title = f"Noise floor: the identical copy of the control ({index.control_label}){context.suffix}"
                yield Table.of(NOISE, rows, title=title, media=HTML)


def _scope(index: Index) -> str:
    """Return sentences that say for which machine and client the figures hold, and what differs on other machines."""
    counted = any(value.round_trips is not None for value in index.core.values)
    exact = ", and exactly the same round trips and bytes" if counted else ""
    library = index.core.environment.get("TLS library")
    client = f" and for a client with {library}" if library else ""
    return (
        f"Figures in milliseconds and cores hold only for this machine{client}. On other machines, expect roughly the "
        f"same ratios{exact}."
    )


def _differences(index: Index, shown: Panels) -> Figure:
    legend = [Legend(arm_colour(number), label) for number, label in enumerate(index.protections.values())]
    if any(index.noise(metric.name, context.name) for metric, context in shown):
        legend.append(Legend("control", "identical copy of the control: this run's noise"))
    caption = [DOTS.format(index.unit), *(_differences_caption(index, *pair) for pair in shown)]
    title = f"Every {index.unit}'s difference from the control"
    return Figure(
        "differences", title, caption, lambda width: _draw_differences(index, shown, width), legend, media=HTML
    )


def _effects(index: Index, metric: Metric, context: Context) -> list[tuple[Arm, Effect]]:
    effects = [(arm, index.effect(metric.name, arm.name)) for arm in context.arms]
    return [(arm, effect) for arm, effect in effects if effect is not None]


def _differences_caption(index: Index, metric: Metric, context: Context) -> str:
    parts = []
    for arm, effect in _effects(index, metric, context):
        above = sum(each > 0 for each in effect.differences)
        rounds = f"{arm.label} above the control in {above} of {fmt.plural(len(effect.differences), index.unit)}"
        parts.append(f"{rounds} ({verdict_words(effect, metric)})")
    return f"{fmt.capital(metric.label)} ({metric.view}{context.at}): {'; '.join(parts)}."


def _draw_differences(index: Index, shown: Panels, width: int) -> Sheet:
    many = index.many_contexts
    rows = max(
        len(_effects(index, metric, context)) + (index.noise(metric.name, context.name) is not None)
        for metric, context in shown
    )
    height = CROWDED_ROW_HEIGHT if rows > 3 and many else ROW_HEIGHT
    columns = columns_for(len(index.contexts))
    panels = [
        _rounds_panel(index, metric, context, names=named(number, width, columns, many=many))
        for number, (metric, context) in enumerate(shown)
    ]
    return grid(width, panels, 84 + (18 if many else 0) + height * rows, columns=columns)


def _rounds_panel(index: Index, metric: Metric, context: Context, *, names: bool) -> Panel:
    """Return a panel with a row for each arm and, at the bottom, a row for the control's identical copy."""
    rows = [
        (arm.protection, effect.difference, effect.differences, colour_of(index, arm))
        for arm, effect in _effects(index, metric, context)
    ]
    if (floor := index.noise(metric.name, context.name)) is not None:
        rows.append(("identical copy", floor.difference, floor.differences, "control"))
    unit = fmt.UNITS.get(metric.unit, metric.unit)
    everything = [each for _, mean, rounds, _ in rows for each in (mean.low, mean.high, *rounds)]
    panel = Panel(
        title=_panel_title(index, metric, context),
        x=Scale.around([*everything, 0.0], 0.06),
        y=Scale(len(rows) - 0.45, -0.55),
        x_label=unit if index.many_contexts else f"difference from {index.control_label}, {unit}",
        most_x_ticks=3 if index.many_contexts else 5,
        y_ticks={row: name if names else "" for row, (name, *_) in enumerate(rows)},
    )
    for row, (_, mean, rounds, colour) in enumerate(rows):
        panel.box(mean.low, mean.high, row, 0.8, colour, opacity=0.22)
        panel.line([(mean.value, row - 0.4), (mean.value, row + 0.4)], colour, 2)
        # The first round is at the top and the last at the bottom, to make a drift visible.
        heights = [row - 0.32 + 0.64 * number / max(1, len(rounds) - 1) for number in range(len(rounds))]
        panel.dots([*zip(rounds, heights, strict=True)], colour, 3.6, opacity=0.8)
    panel.upright(0, "ink", 1)
    return panel


def _panel_title(index: Index, metric: Metric, context: Context) -> str:
    if not context.title:
        return f"{metric.label}, {metric.view}"
    return context_title(metric.label, context.title, columns_for(len(index.contexts)))


def _distributions(index: Index, shown: Panels) -> Figure:
    arms = {arm.protection: arm for pair in shown for arm, _ in _curves(index, *pair)}
    legend = [Legend(colour_of(index, arm), arm.label) for arm in arms.values()]
    caption = [SLOWEST, *(_distribution_caption(index, *pair) for pair in shown)]

    def draw(width: int) -> Sheet:
        panels = [_curves_panel(index, metric, context) for metric, context in shown]
        return grid(width, panels, 254 if index.many_contexts else 236, columns=columns_for(len(index.contexts)))

    return Figure("distributions", "All operations, from the fastest to the slowest", caption, draw, legend, media=HTML)


def _timed(index: Index) -> list[Metric]:
    """Return the metrics whose distributions are plotted: each headline metric that is a time.

    A headline metric that is a rate is replaced by the metric with the times of the same operations, if there is one.
    """
    times = {(metric.workload, metric.phase): metric for metric in index.core.metrics if metric.unit in TIMES}
    timed = [m if m.unit in TIMES else times.get((m.workload, m.phase)) for m in index.headline_metrics]
    return list({metric.name: metric for metric in timed if metric is not None}.values())


def _curves(index: Index, metric: Metric, context: Context) -> list[tuple[Arm, Value]]:
    values = [(arm, index.value(metric.name, arm.name)) for arm in context.shown_arms]
    return [(arm, value) for arm, value in values if value is not None and _points(value)]


def _points(value: Value) -> list[tuple[float, float]]:
    """Return the points of a distribution's curve as (time, share of operations that took at most this time).

    Points with a time of 0 are left out, because a logarithmic axis cannot show them.
    """
    points = [(point.value, point.fraction) for point in value.distribution]
    return [(time, share) for time, share in points if time > 0 and share <= CUT + 1e-9]


def _distribution_caption(index: Index, metric: Metric, context: Context) -> str:
    """Return the percentiles of a panel's curves in words, for readers who cannot see the picture.

    For example: 'Connect and first query (wire): p50 5.1 ms with plain and 7.2 ms with TLS; p99 …'.
    """
    parts = []
    for name in ("p50", "p99"):
        values = [
            f"{fmt.with_unit(fmt.number(value.percentiles[name]), metric.unit)} with {arm.label}"
            for arm, value in _curves(index, metric, context)
            if name in value.percentiles
        ]
        parts += [f"{name} {fmt.listed(values)}"] if values else []
    return f"{fmt.capital(metric.label)} ({metric.view}{context.at}): {'; '.join(parts)}." if parts else ""


def _curves_panel(index: Index, metric: Metric, context: Context) -> Panel:
    curves = [(arm, _points(value)) for arm, value in _curves(index, metric, context)]
    everything = [time for _, points in curves for time, _ in points]
    low, high = min(everything), max(everything)
    panel = Panel(
        title=_panel_title(index, metric, context),
        x=Scale(low / 1.06, high * 1.06, log),
        y=Scale(0, _height(CUT) * 1.04),
        x_label=fmt.UNITS.get(metric.unit, metric.unit),
        x_ticks=_ticks(low, high, sparse=index.many_contexts),
        y_ticks={_height(share): fmt.share(share) for share in TICKS},
        grid="xy",
    )
    for arm, points in curves:
        # The control's line is wider, so that it stays visible under an arm with the same curve.
        width, opacity = (5.0, 0.55) if arm.control else (1.8, 1.0)
        panel.line([(time, _height(share)) for time, share in points], colour_of(index, arm), width, opacity=opacity)
    return panel


def _height(share: float) -> float:
    """Return the height of a share of operations, as in HdrHistogram's plots: 1 for 90 %, 2 for 99 %, 3 for 99.9 %."""
    return -log10(1 - share)


def _ticks(low: float, high: float, *, sparse: bool) -> list[float]:
    """Return ticks for a logarithmic axis: mostly at 1, 2 and 5 of each decade, fewer for a long axis.

    If `sparse` is true, return fewer ticks, because the panels of a picture with several contexts are narrow.
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps: tuple[float, ...] = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    if high / low < 4:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    if sparse:
        steps = (1.0,) if high / low > 30 else (1.0, 3.0) if high / low > 5 else (1.0, 2.0, 5.0)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [each for each in ticks if low / 1.06 <= each <= high * 1.06]
    if len(shown) >= 2:
        return shown
    return [float(f"{each:.3g}") for each in ([low, high] if high / low > 1.1 else [(low * high) ** 0.5])]


SECTION = CertaintySection()
