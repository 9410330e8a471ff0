"""Latency distributions: which share of operations was done within a time, control and arms in one panel a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report.palette import arm_colour, light
from costof.report.pictures.canvas import Legend, Picture, calm, panel_title, panels, picture, plain_numbers
from costof.report.reading import Reading
from costof.result import Metric, Value

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
CUT = 0.999
"""The curves end here: a single slowest operation would squeeze all others into a corner."""
TICKS = (0.0, 0.5, 0.9, 0.99, 0.999)
HOW_TO_READ = (
    "The height is the share of operations done within a time; it stretches towards the slow end, as tails count."
)


def distributions(reading: Reading) -> Picture | None:
    """None where no headline metric has a distribution."""
    metrics = [metric for metric in reading.headline_metrics if _curves(reading, metric)]
    if not metrics:
        return None
    legend = [Legend(colour, reading.label(value.arm)) for colour, value in _curves(reading, metrics[0])]
    return picture(
        "distributions", "All operations, from the fastest to the slowest",
        [HOW_TO_READ, *(caption(reading, metric) for metric in metrics)],
        lambda width: _draw(reading, metrics, width), legend,
    )  # fmt: skip


def _curves(reading: Reading, metric: Metric) -> list[tuple[str, Value]]:
    """Colour and value of the control and of each arm that has a curve."""
    found = []
    for index, arm in enumerate(reading.shown_arms):
        value = reading.value(metric.name, arm.name)
        if value is not None and _points(value):
            found.append(("control" if arm.control else arm_colour(index - 1), value))
    return found


def _points(value: Value) -> list[tuple[float, float]]:
    """Time and share; the percentiles stand in where a run kept no finer curve. A log axis has no zero."""
    points = [(point.value, point.fraction) for point in value.distribution]
    if not points:
        points = [(value.percentiles[name], share) for name, share in SHARES.items() if name in value.percentiles]
    return [(time, share) for time, share in points if time > 0 and share <= CUT + 1e-9]


def caption(reading: Reading, metric: Metric) -> str:
    """'Connect and first query (wire): half are done within 5.1 ms on plain, …; one in a hundred takes over …'."""
    halves: list[str] = []
    tails: list[str] = []
    for _, value in _curves(reading, metric):
        for name, into in (("p50", halves), ("p99", tails)):
            if name in value.percentiles:
                shown = fmt.with_unit(fmt.number(value.percentiles[name]), metric.unit)
                into.append(f"{shown} on {value.arm}")
    parts = [f"half are done within {fmt.listed(halves)}"] if halves else []
    parts += [f"one in a hundred takes more than {fmt.listed(tails)}"] if tails else []
    title = f"{metric.label[:1].upper()}{metric.label[1:]} ({metric.view})"
    return f"{title}: {'; '.join(parts)}." if parts else ""


def _draw(reading: Reading, metrics: list[Metric], width: int) -> Figure:
    made, axes = panels(width, len(metrics), 236)
    for each, metric in zip(axes, metrics, strict=True):
        _panel(each, reading, metric)
    return made


def _panel(axes: Axes, reading: Reading, metric: Metric) -> None:
    axes.set_xscale("log")
    curves = _curves(reading, metric)
    for colour, value in curves:
        points = _points(value)
        heights = [_height(share) for _, share in points]
        # The control lies broader under the arms, so that it is still seen where the curves are the same.
        width = 5.0 if colour == "control" else 1.8
        axes.plot(
            [time for time, _ in points],
            heights,
            color=light(colour),
            linewidth=width,
            alpha=0.55 if colour == "control" else 1.0,
        )
    axes.set_ylim(0, _height(CUT) * 1.04)
    axes.set_yticks([_height(share) for share in TICKS], [fmt.share(share) for share in TICKS])
    everything = [time for _, value in curves for time, _ in _points(value)]
    _log_ticks(axes, min(everything), max(everything))
    calm(axes, grid="both")
    panel_title(axes, f"{metric.label}, {metric.view}")
    axes.set_xlabel(metric.unit)


def _height(share: float) -> float:
    """Each further nine as high as the one before: 90 % at 1, 99 % at 2 (as HdrHistogram's plots)."""
    from math import log10

    return -log10(1 - share)


def _log_ticks(axes: Axes, low: float, high: float) -> None:
    """Ticks at 1, 2 and 5 of each decade, fewer where they would crowd."""
    from math import ceil, floor, log10

    from matplotlib.ticker import FixedLocator, NullLocator

    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    steps: tuple[float, ...] = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 30 else (1.0, 2.0, 5.0)
    if high / low < 4:
        steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    axes.set_xlim(low / 1.06, high * 1.06)
    plain_numbers(axes.xaxis)
    axes.xaxis.set_major_locator(FixedLocator([each for each in ticks if low / 1.06 <= each <= high * 1.06]))
    axes.xaxis.set_minor_locator(NullLocator())
