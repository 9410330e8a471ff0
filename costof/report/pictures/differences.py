"""The rounds' paired differences: every dot is one round, the band is the interval, the twin shows the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report.palette import arm_colour, light
from costof.report.pictures.canvas import Legend, Picture, calm, few_ticks, panel_title, panels, picture, plain_numbers
from costof.report.reading import Reading, verdict_words
from costof.result import Effect, Estimate, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW_HEIGHT = 54


def differences(reading: Reading) -> Picture | None:
    """None where no headline metric has an effect with its rounds."""
    metrics = [metric for metric in reading.headline_metrics if _effects(reading, metric)]
    if not metrics:
        return None
    legend = [Legend(arm_colour(index), reading.label(arm.name)) for index, arm in enumerate(reading.arms)]
    if any(reading.noise(metric.name) for metric in metrics):
        legend.append(Legend("control", "twin of the control: the run's own noise"))
    return picture(
        "differences", "Every round's difference from the control",
        ["One dot is one round, the first at the top; the band is the 95 % interval of the effect.",
         *(caption(reading, metric) for metric in metrics)],
        lambda width: _draw(reading, metrics, width), legend,
    )  # fmt: skip


def _effects(reading: Reading, metric: Metric) -> list[tuple[int, Effect]]:
    """Index of the arm and its effect."""
    found = [(index, reading.effect(metric.name, arm.name)) for index, arm in enumerate(reading.arms)]
    return [(index, effect) for index, effect in found if effect is not None]


def caption(reading: Reading, metric: Metric) -> str:
    """How many rounds fell on which side, and the verdict."""
    parts = []
    for _, effect in _effects(reading, metric):
        above = sum(each > 0 for each in effect.differences)
        rounds = f"{effect.arm} above the control in {above} of {fmt.plural(len(effect.differences), 'round')}"
        parts.append(f"{rounds} ({verdict_words(effect, metric)})")
    title = f"{metric.label[:1].upper()}{metric.label[1:]} ({metric.view})"
    return f"{title}: {'; '.join(parts)}."


def _draw(reading: Reading, metrics: list[Metric], width: int) -> Figure:
    most = max(len(_effects(reading, metric)) + (reading.noise(metric.name) is not None) for metric in metrics)
    made, axes = panels(width, len(metrics), 84 + ROW_HEIGHT * most)
    for each, metric in zip(axes, metrics, strict=True):
        _panel(each, reading, metric)
    return made


def _panel(axes: Axes, reading: Reading, metric: Metric) -> None:
    """A row for each arm and, last, one for the twin, on one scale with the zero line through all."""
    effects = _effects(reading, metric)
    floor, names = reading.noise(metric.name), [effect.arm for _, effect in effects]
    for row, (index, effect) in enumerate(effects):
        _row(axes, row, effect.difference, effect.differences, arm_colour(index))
    if floor is not None:
        _row(axes, len(effects), floor.difference, floor.differences, "control")
        names.append("twin")
    axes.axvline(0, color=light("ink"), linewidth=1)
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.06)
    calm(axes)
    plain_numbers(axes.xaxis)
    few_ticks(axes, 5)
    panel_title(axes, f"{metric.label}, {metric.view}")
    axes.set_xlabel(f"difference from {reading.control_name}, {metric.unit}")


def _row(axes: Axes, row: int, estimate: Estimate, rounds: list[float], colour: str) -> None:
    """Dots in the order of the rounds from top to bottom, so that a drift shows; band and mean behind them."""
    axes.fill_betweenx(
        [row - 0.4, row + 0.4], estimate.low, estimate.high, color=light(colour), alpha=0.22, linewidth=0
    )
    axes.plot([estimate.value] * 2, [row - 0.4, row + 0.4], color=light(colour), linewidth=2)
    last = max(1, len(rounds) - 1)
    heights = [row - 0.32 + 0.64 * index / last for index in range(len(rounds))]
    axes.plot(rounds, heights, "o", color=light(colour), markersize=3.6, alpha=0.8, markeredgewidth=0)
