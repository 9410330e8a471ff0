"""Latency distributions: which share of operations was done within a time, control and arms in one panel a metric."""

from __future__ import annotations

from math import ceil, floor, log10

from costof.analysis.result import Arm, Metric, Value
from costof.document import format as fmt
from costof.document.axes import Panel, Scale, log
from costof.document.canvas import Legend, Picture, Sheet, columns_for, grid, picture, setting_title
from costof.report.reading import Reading, Setting

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
TIMES = ("ms", "us")
CUT = 0.999
"""The curves end here: a single slowest operation would squeeze all others into a corner."""
TICKS = (0.0, 0.5, 0.9, 0.99, 0.999)
HOW_TO_READ = (
    "The height is the share of operations done within a time; it stretches towards the slow end, as tails count."
)


def distributions(reading: Reading) -> Picture | None:
    """None where no headline metric has a distribution."""
    shown = [
        (metric, setting)
        for metric in _timed(reading)
        for setting in reading.settings
        if _curves(reading, metric, setting)
    ]
    if not shown:
        return None
    found = {arm.protection: arm for pair in shown for arm, _ in _curves(reading, *pair)}
    legend = [Legend(reading.colour(arm), arm.label) for arm in found.values()]
    return picture(
        "distributions", "All operations, from the fastest to the slowest",
        [HOW_TO_READ, *(caption(reading, metric, setting) for metric, setting in shown)],
        lambda width: _draw(reading, shown, width), legend,
    )  # fmt: skip


def _timed(reading: Reading) -> list[Metric]:
    """The headline metrics, or for a rate the time that it comes from: only times have a curve to look at."""
    times = {(metric.workload, metric.phase): metric for metric in reading.result.metrics if metric.unit in TIMES}
    found = [m if m.unit in TIMES else times.get((m.workload, m.phase)) for m in reading.headline_metrics]
    return list({metric.name: metric for metric in found if metric is not None}.values())


def _curves(reading: Reading, metric: Metric, setting: Setting) -> list[tuple[Arm, Value]]:
    """The control and each arm of a setting that has a curve."""
    found = [(arm, reading.value(metric.name, arm.name)) for arm in setting.shown_arms]
    return [(arm, value) for arm, value in found if value is not None and _points(value)]


def _points(value: Value) -> list[tuple[float, float]]:
    """Time and share; the percentiles stand in where a run kept no finer curve. A log axis has no zero."""
    points = [(point.value, point.fraction) for point in value.distribution]
    if not points:
        points = [(value.percentiles[name], share) for name, share in SHARES.items() if name in value.percentiles]
    return [(time, share) for time, share in points if time > 0 and share <= CUT + 1e-9]


def caption(reading: Reading, metric: Metric, setting: Setting) -> str:
    """'Connect and first query (wire): half are done within 5.1 ms on plain, …; one in a hundred takes over …'."""
    halves: list[str] = []
    tails: list[str] = []
    for arm, value in _curves(reading, metric, setting):
        for name, into in (("p50", halves), ("p99", tails)):
            if name in value.percentiles:
                shown = fmt.with_unit(fmt.number(value.percentiles[name]), metric.unit)
                into.append(f"{shown} on {arm.protection}")
    parts = [f"half are done within {fmt.listed(halves)}"] if halves else []
    parts += [f"one in a hundred takes more than {fmt.listed(tails)}"] if tails else []
    title = f"{metric.label[:1].upper()}{metric.label[1:]} ({metric.view}{setting.at})"
    return f"{title}: {'; '.join(parts)}." if parts else ""


def _draw(reading: Reading, shown: list[tuple[Metric, Setting]], width: int) -> Sheet:
    height = 254 if reading.many_settings else 236
    panels = [_panel(reading, metric, setting) for metric, setting in shown]
    return grid(width, panels, height, columns=columns_for(len(reading.settings)))


def _panel(reading: Reading, metric: Metric, setting: Setting) -> Panel:
    curves = [(arm, _points(value)) for arm, value in _curves(reading, metric, setting)]
    everything = [time for _, points in curves for time, _ in points]
    low, high = min(everything), max(everything)
    many = setting_title(metric.label, setting.title, columns_for(len(reading.settings)))
    panel = Panel(
        title=many if setting.title else f"{metric.label}, {metric.view}",
        x=Scale(low / 1.06, high * 1.06, log),
        y=Scale(0, _height(CUT) * 1.04),
        x_label=fmt.UNITS.get(metric.unit, metric.unit),
        x_ticks=_ticks(low, high, sparse=reading.many_settings),
        y_ticks={_height(share): fmt.share(share) for share in TICKS},
        grid="xy",
    )
    for arm, points in curves:
        # The control lies broader under the arms, so that it is still seen where the curves are the same.
        width, opacity = (5.0, 0.55) if arm.control else (1.8, 1.0)
        panel.line([(time, _height(share)) for time, share in points], reading.colour(arm), width, opacity=opacity)
    return panel


def _height(share: float) -> float:
    """Each further nine as high as the one before: 90 % at 1, 99 % at 2 (as HdrHistogram's plots)."""
    return -log10(1 - share)


def _ticks(low: float, high: float, *, sparse: bool) -> list[float]:
    """At 1, 2 and 5 of each decade, fewer where they would crowd."""
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
