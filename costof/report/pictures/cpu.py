"""CPU by role: who pays, in seconds per 1,000 operations, one panel a workload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costof.report import format as fmt
from costof.report import words
from costof.report.palette import light, role_colour
from costof.report.pictures.canvas import Legend, Picture, calm, few_ticks, panel_title, panels, picture, plain_numbers
from costof.report.reading import Reading
from costof.result import Cpu

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def cpu(reading: Reading) -> Picture | None:
    """None where the run counted no CPU."""
    workloads = _by_workload(reading)
    if not workloads:
        return None
    roles = words.cpu_roles(reading)
    return picture(
        "cpu", "CPU by role", [caption(reading, name, bars) for name, bars in workloads.items()],
        lambda width: _draw(workloads, roles, width),
        [Legend(role_colour(index), role) for index, role in enumerate(roles)],
    )  # fmt: skip


def _by_workload(reading: Reading) -> dict[str, list[Cpu]]:
    """Control first, then the arms, for each workload that used any CPU; the twin is left out."""
    order = [arm.name for arm in reading.shown_arms]
    found: dict[str, list[Cpu]] = {}
    for each in reading.result.cpu:
        if each.arm in order and sum(each.seconds_per_1000.values()) > 0:
            found.setdefault(each.workload, []).append(each)
    return {name: sorted(bars, key=lambda bar: order.index(bar.arm)) for name, bars in found.items()}


def caption(reading: Reading, workload: str, bars: list[Cpu]) -> str:
    """The total of each arm, and the role that grew most."""
    totals = [f"{_seconds(sum(bar.seconds_per_1000.values()))} on {bar.arm}" for bar in bars]
    text = f"{workload}: {fmt.listed(totals)} per 1,000 operations"
    control = next((bar for bar in bars if bar.arm == reading.control_name), None)
    others = [bar for bar in bars if bar is not control]
    if control is None or len(others) != 1:
        return text + "."
    grown = {role: used - control.seconds_per_1000.get(role, 0.0) for role, used in others[0].seconds_per_1000.items()}
    role = max(grown, key=lambda each: grown[each])
    return text + (f", most of the rise in {role}." if grown[role] > 0 else ".")


def _seconds(seconds: float) -> str:
    return fmt.with_unit(fmt.number(seconds, words.cpu_decimals(seconds)), "s")


def _draw(workloads: dict[str, list[Cpu]], roles: list[str], width: int) -> Figure:
    most = max(len(bars) for bars in workloads.values())
    made, axes = panels(width, len(workloads), 74 + 32 * most, columns=3 if len(workloads) == 3 else 2)
    for each, (name, bars) in zip(axes, workloads.items(), strict=True):
        _panel(each, name, bars, roles)
    return made


def _panel(axes: Axes, workload: str, bars: list[Cpu], roles: list[str]) -> None:
    longest = max(sum(bar.seconds_per_1000.values()) for bar in bars)
    for row, bar in enumerate(bars):
        start = 0.0
        for index, role in enumerate(roles):
            used = bar.seconds_per_1000.get(role, 0.0)
            axes.barh(row, used, 0.56, left=start, color=light(role_colour(index)), edgecolor=light("paper"), lw=1)
            start += used
        axes.annotate(_seconds(start), (start, row), (5, 0), textcoords="offset points", va="center", fontsize=11)
    axes.set_yticks(range(len(bars)), [bar.arm for bar in bars])
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlim(0, longest * 1.3)
    few_ticks(axes, 4)
    calm(axes)
    plain_numbers(axes.xaxis)
    panel_title(axes, workload)
    axes.set_xlabel("s per 1,000 operations")
