"""Latency distributions: which share of operations was done within a time, control and arms in one panel a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
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
    setting_title,
)
from costof.report.reading import Reading, Setting
from costof.result import Arm, Metric, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def _draw(reading: Reading, shown: list[tuple[Metric, Setting]], width: int) -> Figure:
    height = 254 if reading.many_settings else 236
    made, axes = panels(width, len(shown), height, columns=columns_for(len(reading.settings)))
    for each, (metric, setting) in zip(axes, shown, strict=True):
        _panel(each, reading, metric, setting)
    return made


def _panel(axes: Axes, reading: Reading, metric: Metric, setting: Setting) -> None:
    axes.set_xscale("log")
    curves = _curves(reading, metric, setting)
    for arm, value in curves:
        points = _points(value)
        heights = [_height(share) for _, share in points]
        # The control lies broader under the arms, so that it is still seen where the curves are the same.
        axes.plot(
            [time for time, _ in points],
            heights,
            color=light(reading.colour(arm)),
            linewidth=5.0 if arm.control else 1.8,
            alpha=0.55 if arm.control else 1.0,
        )
    axes.set_ylim(0, _height(CUT) * 1.04)
    axes.set_yticks([_height(share) for share in TICKS], [fmt.share(share) for share in TICKS])
    everything = [time for _, value in curves for time, _ in _points(value)]
    _log_ticks(axes, min(everything), max(everything), sparse=reading.many_settings)
    calm(axes, grid="both")
    many = setting_title(metric.label, setting.title, columns_for(len(reading.settings)))
    panel_title(axes, many if setting.title else f"{metric.label}, {metric.view}")
    axes.set_xlabel(fmt.UNITS.get(metric.unit, metric.unit))


def _height(share: float) -> float:
    """Each further nine as high as the one before: 90 % at 1, 99 % at 2 (as HdrHistogram's plots)."""
    from math import log10

    return -log10(1 - share)


def _log_ticks(axes: Axes, low: float, high: float, *, sparse: bool) -> None:
    """Ticks at 1, 2 and 5 of each decade, fewer where they would crowd."""
    from math import ceil, floor, log10

    from matplotlib.ticker import FixedLocator, NullLocator

    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps: tuple[float, ...] = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    if high / low < 4:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    if sparse:
        steps = (1.0,) if high / low > 30 else (1.0, 3.0) if high / low > 5 else (1.0, 2.0, 5.0)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    shown = [each for each in ticks if low / 1.06 <= each <= high * 1.06]
    if len(shown) < 2:
        shown = [low, high] if high / low > 1.1 else [(low * high) ** 0.5]
        shown = [float(f"{each:.3g}") for each in shown]
    axes.set_xlim(low / 1.06, high * 1.06)
    plain_numbers(axes.xaxis)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
