"""A new connection from left to right, phase by phase, one bar an arm: where the added time is."""

from __future__ import annotations

from costof.analysis.result import Arm, Metric, Value
from costof.document import format as fmt
from costof.document.axes import Panel, Scale
from costof.document.canvas import NARROW, Legend, Picture, Sheet, picture
from costof.report import words
from costof.report.reading import Reading

COLOURS = {
    "tcp": "tcp",
    "greeting": "greeting",
    "tls": "tls",
    "hello": "hello",
    "auth": "auth",
    "first_operation": "first",
}
LIGHT_INK = {"tls", "auth"}
"""Phases whose bar is dark enough for light lettering."""
BAR = 0.46


def phases(reading: Reading) -> Picture | None:
    """None where the run measured no phases."""
    metrics = [metric for metric in reading.phase_metrics() if _any_time(reading, metric)]
    shown = {
        setting.title: [arm for arm in setting.shown_arms if _values(reading, metrics, arm)]
        for setting in reading.settings
    }
    shown = {title: arms for title, arms in shown.items() if arms}
    if not metrics or not shown:
        return None
    text = [line for title, arms in shown.items() for line in caption(reading, metrics, arms, title)]
    legend = [Legend(COLOURS[metric.phase or ""], metric.label) for metric in metrics]
    return picture(
        "phases", "A new connection, phase by phase", text,
        lambda width: _draw(reading, metrics, shown, width), legend,
    )  # fmt: skip


def _any_time(reading: Reading, metric: Metric) -> bool:
    values = [reading.value(metric.name, arm.name) for arm in reading.shown_arms]
    return any(value is not None and value.mean.value > 0 for value in values)


def _values(reading: Reading, metrics: list[Metric], arm: Arm) -> list[tuple[Metric, Value]]:
    found = [(metric, reading.value(metric.name, arm.name)) for metric in metrics]
    return [(metric, value) for metric, value in found if value is not None and value.mean.value > 0]


def caption(reading: Reading, metrics: list[Metric], arms: list[Arm], title: str = "") -> list[str]:
    """The totals, and the phase that tells each arm most apart from the control."""
    unit = metrics[0].unit
    totals = {arm.name: sum(value.mean.value for _, value in _values(reading, metrics, arm)) for arm in arms}
    where = f"{title}, " if title else ""
    text = [
        f"{where}{arm.label}: {fmt.with_unit(fmt.number(totals[arm.name]), unit)}{_trips_text(reading, metrics, arm)}."
        for arm in arms
    ]
    control = arms[0]
    for arm in arms[1:] if control.control else []:
        text.append(_largest(reading, metrics, control, arm))
    return text


def _trips(reading: Reading, metrics: list[Metric], arm: Arm) -> float | None:
    counted = [value.round_trips for _, value in _values(reading, metrics, arm)]
    return sum(each for each in counted if each is not None) if any(each is not None for each in counted) else None


def _trips_text(reading: Reading, metrics: list[Metric], arm: Arm) -> str:
    trips = _trips(reading, metrics, arm)
    return f" in {words.round_trips(trips)}" if trips is not None else ""


def _largest(reading: Reading, metrics: list[Metric], control: Arm, arm: Arm) -> str:
    theirs = {metric.name: value.mean.value for metric, value in _values(reading, metrics, control)}
    mine = {metric.name: value.mean.value for metric, value in _values(reading, metrics, arm)}
    added = {metric: mine.get(metric.name, 0.0) - theirs.get(metric.name, 0.0) for metric in metrics}
    most = max(added, key=lambda metric: abs(added[metric]))
    total = sum(added.values())
    change = fmt.with_unit(fmt.number(added[most], signed=True), most.unit)
    whole = fmt.with_unit(fmt.number(total, signed=True), most.unit)
    return f"The phase that differs most with {arm.protection} is {most.label}: {change} of {whole} in all."


def _draw(reading: Reading, metrics: list[Metric], shown: dict[str, list[Arm]], width: int) -> Sheet:
    """A panel a setting, each with a time axis of its own: a LAN's connection would be a hair on an ocean's."""
    sizes = [54 + 78 * len(arms) if len(shown) == 1 else 92 + 62 * len(arms) for arms in shown.values()]
    return Sheet(width, [_panel(reading, metrics, arms, title, width) for title, arms in shown.items()], sizes)


def _panel(reading: Reading, metrics: list[Metric], arms: list[Arm], title: str, width: int) -> Panel:
    """A bar an arm, its name and total above the bar so that the bars have the whole width."""
    longest = max(sum(value.mean.value for _, value in _values(reading, metrics, arm)) for arm in arms)
    panel = Panel(
        title=title,
        x=Scale(0, longest * 1.01),
        y=Scale(len(arms) - 1 + BAR / 2 + 0.12, -BAR / 2 - 0.42),
        x_label=f"{metrics[0].unit} since the connection was begun",
    )
    for row, arm in enumerate(arms):
        _bar(panel, reading, metrics, arm, row, longest, width)
    return panel


def _bar(panel: Panel, reading: Reading, metrics: list[Metric], arm: Arm, row: int, longest: float, width: int) -> None:
    start = 0.0
    for metric, value in _values(reading, metrics, arm):
        size, phase = value.mean.value, metric.phase or ""
        panel.box(start, start + size, row, BAR, COLOURS[phase], edge="paper")
        ink = "paper" if phase in LIGHT_INK else "ink"
        lines = _inside(metric, value, size / longest * width * 0.94)
        for index, text in enumerate(lines):
            up = 7 * (len(lines) - 1) - 14 * index
            panel.word(start + size / 2, row, text, up=up, size=10.5, colour=ink, anchor="middle")
        start += size
    trips = _trips(reading, metrics, arm)
    counted = f"  ·  {words.round_trips(trips)}" if trips is not None and width > NARROW else ""
    total = fmt.with_unit(fmt.number(start), metrics[0].unit)
    panel.word(0, row - BAR / 2, f"{arm.label}  ·  {total}{counted}", up=11, size=11.5, bold=True)


def _inside(metric: Metric, value: Value, pixels: float) -> list[str]:
    """What fits into a bar of so many pixels: time and round trips, the time alone, or nothing (the table has it)."""
    time = fmt.absolute(value.mean, metric.unit).value
    if value.round_trips is not None and pixels > 86:
        return [time, words.round_trips(value.round_trips)]
    return next(([text] for text in (time, time.split(fmt.NBSP)[0]) if pixels > 7.2 * len(text)), [])
