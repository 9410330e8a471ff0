"""CPU by role (client, server, …): CPU seconds per 1,000 operations, and the share of time in which a CPU was withheld.

A CPU is withheld from a role that has used up its CPU quota (throttling), and from the whole machine by the hypervisor
(steal).
"""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import FILES, HTML, Block, Cell, Column, Details, Figure, Row, Table
from costof.report.canvas import Legend, Panel, Scale, Sheet, columns_for, grid, named
from costof.report.palette import role_colour
from costof.report.sections import Section
from costof.results.index import Context, Index
from costof.results.load import CLIENT
from costof.results.models import Cpu

LEAST_SHOWN = 0.005
"""Smaller shares of throttling and steal are not shown."""
MEANINGS = {
    "throttled": "“Throttled” is the share of the time for which a program had to wait, because it had used up its CPU "
    "limit. The heading of a column on throttling names its program, such as 'throttled: haproxy'.",
    "steal": "“Steal” is the share of the machine's CPU time that the hypervisor gave to other virtual machines.",
}
Bars = tuple[str, Context, list[Cpu]]
"""The content of one panel of the figure: a workload, a context (such as a distance), and the CPU time of each arm."""

HOW_TO_READ = "Each bar is the CPU time of all programs together for 1,000 operations; its colours are the programs."


class CpuSection(Section[None, None]):
    name, title, order = "cpu", "CPU", 120

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        # In studies of commands, CPU time is one of the metrics and needs no section of its own.
        if not index.core.cpu or all(metric.view in ("command", "cpu") for metric in index.core.metrics):
            return
        busy = _bottlenecks(index)
        if busy.rows:
            yield busy
        if shown := _bars(index):
            roles = _roles(index.core.cpu)
            caption = [_caption(index, *bars) for bars in shown]
            legend = [Legend(role_colour(number), role) for number, role in enumerate(roles)]
            yield Figure(
                "cpu",
                "CPU by role",
                caption,
                lambda width: _draw(index, shown, roles, width),
                legend,
                HOW_TO_READ,
                media=HTML,
            )
        for context in index.contexts:
            table = _table(index, context)
            if context is index.nearest:
                yield table
            elif table.rows:
                yield Details(table.title, [table], media=FILES)


def _roles(cpu: list[Cpu]) -> list[str]:
    return list(dict.fromkeys(role for each in cpu for role in each.seconds_per_1000))


def _table(index: Index, context: Context) -> Table:
    arms = {arm.name for arm in index.core.arms if arm.context == context.name and not arm.replicate}
    roles = _roles(index.core.cpu)
    # There is a column for the throttling of a role, or for steal, only if its share is large enough on some arm.
    waits = [_limits(cpu) for cpu in index.core.cpu]
    limits = [
        name
        for name in dict.fromkeys(name for each in waits for name in each)
        if any(each.get(name, 0.0) >= LEAST_SHOWN for each in waits)
    ]
    rows = []
    for workload in dict.fromkeys(cpu.workload for cpu in index.core.cpu if cpu.arm in arms):
        rows.append(Row([Cell(index.workload_label(workload))], "group"))
        for cpu in (cpu for cpu in index.core.cpu if cpu.arm in arms and cpu.workload == workload):
            used = [cpu.seconds_per_1000.get(role) for role in roles]
            seconds = [fmt.NONE if each is None else _number(each) for each in used]
            waited = [_limits(cpu).get(name, 0.0) for name in limits]
            shares = [fmt.percent(share) if share >= LEAST_SHOWN else fmt.NONE for share in waited]
            total = _number(sum(cpu.seconds_per_1000.values()))
            rows.append(Row([*map(Cell, [index.short(cpu.arm), *seconds, total, *shares])]))
    columns = [Column("variant", "text"), *map(Column, [*roles, "total", *limits])]
    note = " ".join(text for word, text in MEANINGS.items() if any(name.startswith(word) for name in limits))
    return Table(columns, rows, f"CPU seconds per 1,000 operations{context.suffix}", note, group="workload")


def _number(seconds: float) -> str:
    """Format seconds with three significant digits, but not below a millisecond, the resolution of the counters."""
    return fmt.number(seconds, min(3, fmt.significant_decimals(seconds)))


def _limits(cpu: Cpu) -> dict[str, float]:
    """Return the shares of time in which a CPU was withheld, by column heading: 'throttled: server', …, 'steal'."""
    return {**{f"throttled: {role}": share for role, share in cpu.throttled.items()}, "steal": cpu.steal}


def _bottlenecks(index: Index) -> Table:
    """Return a table of the programs that used most of one core, by workload. The client's rows are first."""
    arms: dict[tuple[str, str], list[str]] = {}
    measured: dict[str, int] = {}
    for cpu in index.core.cpu:
        arm = index.arm(cpu.arm)
        if arm is None or cpu.arm in index.replicates:
            continue
        measured[cpu.workload] = measured.get(cpu.workload, 0) + 1
        if cpu.busiest:
            arms.setdefault((cpu.busiest, cpu.workload), []).append(f"{index.short(cpu.arm)}{arm.at}")
    rows = [
        [role, index.workload_label(workload), "all arms" if len(names) == measured[workload] > 2 else ", ".join(names)]
        for (role, workload), names in sorted(arms.items(), key=lambda item: item[0][0] != CLIENT)
    ]
    return Table.of(["program", "workload", "arms"], rows, title="Programs that used most of one core")


def _bars(index: Index) -> list[Bars]:
    shown = []
    for workload in dict.fromkeys(each.workload for each in index.core.cpu):
        cpu_by_arm = {each.arm: each for each in index.core.cpu if each.workload == workload}
        for context in index.contexts:
            bars = [cpu_by_arm[arm.name] for arm in context.shown_arms if arm.name in cpu_by_arm]
            used = [bar for bar in bars if sum(bar.seconds_per_1000.values()) > 0]
            shown += [(workload, context, used)] if used else []
    return shown


def _caption(index: Index, workload: str, context: Context, bars: list[Cpu]) -> str:
    totals = [f"{_number(sum(bar.seconds_per_1000.values()))}{fmt.NBSP}s on {index.short(bar.arm)}" for bar in bars]
    label = fmt.capital(index.workload_label(workload))
    text = f"{label}{context.at}: 1,000 operations need a CPU time of {fmt.listed(totals)}"
    control = next((bar for bar in bars if context.control and bar.arm == context.control.name), None)
    protected = [bar for bar in bars if bar is not control]
    if control is None or len(protected) != 1:
        return text + "."
    used = protected[0].seconds_per_1000.items()
    added = {role: seconds - control.seconds_per_1000.get(role, 0.0) for role, seconds in used}
    role = max(added, key=lambda each: added[each])
    return text + (f". The CPU time of the {role} rises most." if added[role] > 0 else ".")


def _draw(index: Index, shown: list[Bars], roles: list[str], width: int) -> Sheet:
    most, many = max(len(bars) for *_, bars in shown), index.many_contexts
    columns = columns_for(len(index.contexts)) if many else columns_for(len(shown))
    panels = []
    for number, (workload, context, bars) in enumerate(shown):
        panel = _panel(index, bars, roles, names=named(number, width, columns, many=many))
        panel.title = index.workload_label(workload) + (f"\n{context.title}" if context.title else "")
        panels.append(panel)
    return grid(width, panels, 92 + 28 * most if many else 74 + 32 * most, columns=columns)


def _panel(index: Index, bars: list[Cpu], roles: list[str], *, names: bool) -> Panel:
    panel = Panel(
        x=Scale(0, max(sum(bar.seconds_per_1000.values()) for bar in bars) * (1.5 if index.many_contexts else 1.3)),
        y=Scale(len(bars) - 0.5, -0.5),
        x_label="s per 1,000 operations",
        most_x_ticks=3 if index.many_contexts else 4,
        y_ticks={row: index.short(bar.arm) if names else "" for row, bar in enumerate(bars)},
    )
    for row, bar in enumerate(bars):
        start = 0.0
        for number, role in enumerate(roles):
            used = bar.seconds_per_1000.get(role, 0.0)
            panel.box(start, start + used, row, 0.56, role_colour(number), edge="paper")
            start += used
        panel.word(start, row, fmt.with_unit(_number(start), "s"), right=5, size=11)
    return panel


SECTION = CpuSection()
