"""CPU by role: who pays, in seconds per 1,000 operations, one panel a workload."""

from __future__ import annotations

from costof.analysis.result import Cpu
from costof.document import format as fmt
from costof.document.axes import Panel, Scale
from costof.document.canvas import Legend, Picture, Sheet, columns_for, grid, named, picture
from costof.document.palette import role_colour
from costof.report import words
from costof.report.reading import Reading, Setting

Bars = tuple[tuple[str, Setting], list[Cpu]]
"""Workload and setting, and its bars."""


def cpu(reading: Reading) -> Picture | None:
    """None where the run counted no CPU."""
    shown = _panels(reading)
    if not shown:
        return None
    roles = words.cpu_roles(reading)
    return picture(
        "cpu", "CPU by role", [caption(reading, name, setting, bars) for (name, setting), bars in shown],
        lambda width: _draw(reading, shown, roles, width),
        [Legend(role_colour(index), role) for index, role in enumerate(roles)],
    )  # fmt: skip


def _panels(reading: Reading) -> list[Bars]:
    """Control first, then the arms, for each workload and setting that used any CPU; the twin is left out."""
    shown = []
    for workload in dict.fromkeys(each.workload for each in reading.result.cpu):
        of = {each.arm: each for each in reading.result.cpu if each.workload == workload}
        for setting in reading.settings:
            bars = [of[arm.name] for arm in setting.shown_arms if arm.name in of]
            used = [bar for bar in bars if sum(bar.seconds_per_1000.values()) > 0]
            shown += [((workload, setting), used)] if used else []
    return shown


def caption(reading: Reading, workload: str, setting: Setting, bars: list[Cpu]) -> str:
    """The total of each arm, and the role that grew most."""
    totals = [f"{_seconds(sum(bar.seconds_per_1000.values()))} on {reading.short(bar.arm)}" for bar in bars]
    text = f"{workload}{setting.at}: {fmt.listed(totals)} per 1,000 operations"
    control = next((bar for bar in bars if setting.control and bar.arm == setting.control.name), None)
    others = [bar for bar in bars if bar is not control]
    if control is None or len(others) != 1:
        return text + "."
    grown = {role: used - control.seconds_per_1000.get(role, 0.0) for role, used in others[0].seconds_per_1000.items()}
    role = max(grown, key=lambda each: grown[each])
    return text + (f", most of the rise in {role}." if grown[role] > 0 else ".")


def _seconds(seconds: float) -> str:
    return fmt.with_unit(fmt.number(seconds, words.cpu_decimals(seconds)), "s")


def _draw(reading: Reading, shown: list[Bars], roles: list[str], width: int) -> Sheet:
    most = max(len(bars) for _, bars in shown)
    columns = columns_for(len(reading.settings)) if reading.many_settings else columns_for(len(shown))
    height = 92 + 28 * most if reading.many_settings else 74 + 32 * most
    panels = []
    for index, ((workload, setting), bars) in enumerate(shown):
        panel = _panel(reading, bars, roles, names=named(index, width, columns, many=reading.many_settings))
        panel.title = workload + (f"\n{setting.title}" if setting.title else "")
        panels.append(panel)
    return grid(width, panels, height, columns=columns)


def _panel(reading: Reading, bars: list[Cpu], roles: list[str], *, names: bool) -> Panel:
    longest = max(sum(bar.seconds_per_1000.values()) for bar in bars)
    panel = Panel(
        x=Scale(0, longest * (1.5 if reading.many_settings else 1.3)),
        y=Scale(len(bars) - 0.5, -0.5),
        x_label="s per 1,000 operations",
        most_x_ticks=3 if reading.many_settings else 4,
        y_ticks={row: reading.short(bar.arm) if names else "" for row, bar in enumerate(bars)},
    )
    for row, bar in enumerate(bars):
        start = 0.0
        for index, role in enumerate(roles):
            used = bar.seconds_per_1000.get(role, 0.0)
            panel.box(start, start + used, row, 0.56, role_colour(index), edge="paper")
            start += used
        panel.word(start, row, _seconds(start), right=5, size=11)
    return panel
