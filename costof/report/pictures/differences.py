"""The rounds' paired differences: every dot is one round, the band is the interval, the twin shows the noise."""

from __future__ import annotations

from costof.analysis.result import Arm, Effect, Metric
from costof.document import format as fmt
from costof.document.axes import Panel, Scale
from costof.document.canvas import Legend, Picture, Sheet, columns_for, grid, named, picture, setting_title
from costof.document.palette import arm_colour
from costof.report.reading import Reading, Setting, verdict_words
from costof.statistics.estimate import Estimate

ROW_HEIGHT = 54
CROWDED_ROW_HEIGHT = 34
"""With more than three rows a panel, and several settings, the dots are set closer."""


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


def _draw(reading: Reading, shown: list[tuple[Metric, Setting]], width: int) -> Sheet:
    rows = max(
        len(_effects(reading, metric, setting)) + (reading.noise(metric.name, setting.context) is not None)
        for metric, setting in shown
    )
    height = CROWDED_ROW_HEIGHT if rows > 3 and reading.many_settings else ROW_HEIGHT
    columns = columns_for(len(reading.settings))
    panels = [
        _panel(reading, metric, setting, names=named(index, width, columns, many=reading.many_settings))
        for index, (metric, setting) in enumerate(shown)
    ]
    return grid(width, panels, 84 + (18 if reading.many_settings else 0) + height * rows, columns=columns)


def _panel(reading: Reading, metric: Metric, setting: Setting, *, names: bool) -> Panel:
    """A row for each arm and, last, one for the twin, on one scale with the zero line through all."""
    rows = [
        (arm.protection, effect.difference, effect.differences, reading.colour(arm))
        for arm, effect in _effects(reading, metric, setting)
    ]
    if (floor := reading.noise(metric.name, setting.context)) is not None:
        rows.append(("twin", floor.difference, floor.differences, "control"))
    unit = fmt.UNITS.get(metric.unit, metric.unit)
    many = setting_title(metric.label, setting.title, columns_for(len(reading.settings)))
    everything = [each for _, mean, rounds, _ in rows for each in (mean.low, mean.high, *rounds)]
    panel = Panel(
        title=many if setting.title else f"{metric.label}, {metric.view}",
        x=Scale.around([*everything, 0.0], 0.06),
        y=Scale(len(rows) - 0.45, -0.55),
        x_label=unit if reading.many_settings else f"difference from {reading.control_name}, {unit}",
        most_x_ticks=3 if reading.many_settings else 5,
        y_ticks={row: name if names else "" for row, (name, *_) in enumerate(rows)},
    )
    for row, (_, mean, rounds, colour) in enumerate(rows):
        _row(panel, row, mean, rounds, colour)
    panel.upright(0, "ink", 1)
    return panel


def _row(panel: Panel, row: int, estimate: Estimate, rounds: list[float], colour: str) -> None:
    """Dots in the order of the rounds from top to bottom, so that a drift shows; band and mean behind them."""
    panel.box(estimate.low, estimate.high, row, 0.8, colour, opacity=0.22)
    panel.line([(estimate.value, row - 0.4), (estimate.value, row + 0.4)], colour, 2)
    last = max(1, len(rounds) - 1)
    for index, each in enumerate(rounds):
        panel.dot(each, row - 0.32 + 0.64 * index / last, colour, 3.6, opacity=0.8)
