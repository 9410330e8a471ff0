"""The rounds' paired differences: every dot is one round, the band is the interval, the twin shows the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report.palette import arm_colour, light
from costof.report.pictures.canvas import (
    Legend,
    Picture,
    calm,
    columns_for,
    few_ticks,
    first_in_row,
    panel_title,
    panels,
    picture,
    plain_numbers,
    setting_title,
)
from costof.report.reading import Reading, Setting, verdict_words
from costof.result import Arm, Effect, Estimate, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW_HEIGHT = 54
CROWDED_ROW_HEIGHT = 34
"""With more than three rows a panel, and several settings, the dots are set closer."""
Panel = tuple[Metric, Setting]


def differences(reading: Reading) -> Picture | None:
    """None where no headline metric has an effect with its rounds."""
    shown = [
        (metric, setting)
        for metric in reading.headline_metrics
        for setting in reading.settings
        if _effects(reading, metric, setting)
    ]
    if not shown:
        return None
    legend = [Legend(arm_colour(index), label) for index, label in enumerate(reading.protections.values())]
    if any(reading.noise(metric.name, setting.context) for metric, setting in shown):
        legend.append(Legend("control", "twin of the control: the run's own noise"))
    return picture(
        "differences", "Every round's difference from the control",
        ["One dot is one round, the first at the top; the band is the 95 % interval of the effect.",
         *(caption(reading, metric, setting) for metric, setting in shown)],
        lambda width: _draw(reading, shown, width), legend,
    )  # fmt: skip


def _effects(reading: Reading, metric: Metric, setting: Setting) -> list[tuple[Arm, Effect]]:
    """The arms of a setting that have an effect."""
    found = [(arm, reading.effect(metric.name, arm.name)) for arm in setting.arms]
    return [(arm, effect) for arm, effect in found if effect is not None]


def caption(reading: Reading, metric: Metric, setting: Setting) -> str:
    """How many rounds fell on which side, and the verdict."""
    parts = []
    for arm, effect in _effects(reading, metric, setting):
        above = sum(each > 0 for each in effect.differences)
        rounds = f"{arm.protection} above the control in {above} of {fmt.plural(len(effect.differences), 'round')}"
        parts.append(f"{rounds} ({verdict_words(effect, metric)})")
    title = f"{metric.label[:1].upper()}{metric.label[1:]} ({metric.view}{setting.at})"
    return f"{title}: {'; '.join(parts)}."


def _draw(reading: Reading, shown: list[Panel], width: int) -> Figure:
    rows = max(
        len(_effects(reading, metric, setting)) + (reading.noise(metric.name, setting.context) is not None)
        for metric, setting in shown
    )
    height = CROWDED_ROW_HEIGHT if rows > 3 and reading.many_settings else ROW_HEIGHT
    many = 18 if reading.many_settings else 0
    made, axes = panels(width, len(shown), 84 + many + height * rows, columns=columns_for(len(reading.settings)))
    for each, (metric, setting) in zip(axes, shown, strict=True):
        _panel(each, reading, metric, setting)
    return made


def _panel(axes: Axes, reading: Reading, metric: Metric, setting: Setting) -> None:
    """A row for each arm and, last, one for the twin, on one scale with the zero line through all."""
    effects = _effects(reading, metric, setting)
    floor, names = reading.noise(metric.name, setting.context), [arm.protection for arm, _ in effects]
    for row, (arm, effect) in enumerate(effects):
        _row(axes, row, effect.difference, effect.differences, reading.colour(arm))
    if floor is not None:
        _row(axes, len(effects), floor.difference, floor.differences, "control")
        names.append("twin")
    axes.axvline(0, color=light("ink"), linewidth=1)
    axes.set_ylim(len(names) - 0.45, -0.55)
    named = not reading.many_settings or first_in_row(axes)
    axes.set_yticks(range(len(names)), names if named else [""] * len(names))
    axes.margins(x=0.06)
    calm(axes)
    plain_numbers(axes.xaxis)
    few_ticks(axes, 5 if not reading.many_settings else 3)
    columns = columns_for(len(reading.settings))
    many = setting_title(metric.label, setting.title, columns)
    panel_title(axes, many if setting.title else f"{metric.label}, {metric.view}")
    unit = fmt.UNITS.get(metric.unit, metric.unit)
    axes.set_xlabel(unit if reading.many_settings else f"difference from {reading.control_name}, {unit}")


def _row(axes: Axes, row: int, estimate: Estimate, rounds: list[float], colour: str) -> None:
    """Dots in the order of the rounds from top to bottom, so that a drift shows; band and mean behind them."""
    axes.fill_betweenx(
        [row - 0.4, row + 0.4], estimate.low, estimate.high, color=light(colour), alpha=0.22, linewidth=0
    )
    axes.plot([estimate.value] * 2, [row - 0.4, row + 0.4], color=light(colour), linewidth=2)
    last = max(1, len(rounds) - 1)
    heights = [row - 0.32 + 0.64 * index / last for index in range(len(rounds))]
    axes.plot(rounds, heights, "o", color=light(colour), markersize=3.6, alpha=0.8, markeredgewidth=0)
