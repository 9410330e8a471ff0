"""The answer on a terminal: sentences first, then the table with intervals, then what limits it.

The layout follows the console's width: intervals stand beside their values from `WIDE` columns on and below them on a
narrower one, so that no figure is ever cut. Nothing depends on colour, and a pipe gets the same words without it.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from costof.analysis.result import Cell, Result
from costof.analysis.result import Table as StudyTable
from costof.document import format as fmt
from costof.document.format import Shown
from costof.report import ab, distance, split, trees, winning_back, words
from costof.report.reading import EffectRow, PublishedRow, Reading, ViewRows
from costof.statistics.estimate import Estimate, Verdict

WIDE = 112
"""From here on an interval fits beside its value."""
NARROWEST = 76
"""Below this no table fits, and the effects are printed as lines."""
MOST_DETAILS = 6
"""More are left to the tables, which say the same."""
PROSE = 100
"""Sentences are not set wider than this: long lines are hard to follow."""
NAMES, NAMES_NARROW = 34, 16
"""Names of arms and published series are set no wider than this, and than that below `ROOMY` columns."""
ROOMY = 96
VERDICT_STYLES = {
    Verdict.COSTS: "bold yellow",
    Verdict.SAVES: "bold cyan",
    Verdict.NO_COST: "green",
    Verdict.UNRESOLVED: "magenta",
}
ASCII = str.maketrans({"−": "-", "×": "x", "–": "-", "·": "-", "“": '"', "”": '"', "…": "...", "µ": "u", "─": "-"})


def render_terminal(result: Result, console: Console, folder: Path | None = None) -> None:
    """Print the result; `folder` is where its reports lie (the run's name is printed where it is not given)."""
    reading = Reading(result)
    parts = [part for section in SECTIONS for part in section(reading, console.width)]
    where = folder / "report.html" if folder else Path(result.run) / "report.html"
    body = Group(*parts, _labelled("Full report", [str(where)], console.width))
    unicode = (console.encoding or "utf-8").lower().startswith("utf")
    if console.is_terminal and unicode:
        console.print(body, highlight=False)
    else:
        console.file.write(_plain(body, console.width, unicode=unicode))


def _plain(body: RenderableType, width: int, *, unicode: bool) -> str:
    """For a pipe: no colours and no trailing blanks; where a minus sign cannot be encoded, a hyphen, no traceback."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None).print(body, highlight=False)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    text = "\n".join(lines) + "\n"
    return text if unicode else text.translate(ASCII).encode("ascii", "replace").decode("ascii")


def _text(text: str, style: str = "") -> Text:
    """Text without markup, and with ordinary spaces so that `grep '14.2 ms'` finds what it sees."""
    return Text(text.replace(fmt.NBSP, " "), style=style)


def _prose(text: str, width: int, style: str = "") -> RenderableType:
    return Padding(_text(text, style), (0, max(0, width - PROSE), 0, 2))


def _labelled(label: str, lines: list[str], width: int, style: str = "") -> RenderableType:
    """'Noise floor   words that wrap under themselves'; below 60 columns the label stands on a line of its own."""
    grid = Table.grid(padding=(0, 2), expand=False)
    grid.add_column(width=12, no_wrap=True, style="bold")
    grid.add_column(overflow="fold", max_width=max(20, min(width, PROSE + 14) - 16))
    for index, line in enumerate(lines):
        grid.add_row(_text(label if index == 0 else ""), _text(line, style))
    return Padding(grid, (1, 0, 0, 2))


def _heading(reading: Reading, width: int) -> Iterator[RenderableType]:
    yield Text()
    yield _prose(reading.result.question, width, "bold")
    yield _prose(words.subtitle(reading), width, "dim")


def _answer(reading: Reading, width: int) -> Iterator[RenderableType]:
    if reading.result.partial:
        yield Padding(_text(f"PARTIAL RUN: {reading.result.partial}", "bold yellow"), (1, 2, 0, 2))
    yield Text()
    answers = reading.sentences("answer")
    for sentence in answers:
        yield _prose(sentence.text, width, "bold")
    if not answers:
        yield _prose(words.NO_ANSWER, width, "bold")
    details = reading.sentences("detail")
    if 0 < len(details) <= MOST_DETAILS:
        yield Text()
        yield from (_prose(f"· {sentence.text}", width) for sentence in details)
    for sentence in reading.sentences("caution"):
        yield _prose(f"Caution: {sentence.text}", width, "yellow")
    for arm in reading.arms_in_error:
        yield _prose(reading.failure(arm), width, "red")


def _tables(reading: Reading, width: int) -> Iterator[RenderableType]:
    for table in reading.tables:
        yield _study_table(table, width)
    reason = words.empty_reason(reading)
    if reason:
        yield Padding(_text(reason), (1, 0, 0, 2))
    for view in reading.views:
        # Near the servers a cost is easiest to see; farther away what answers the question is enough for a console.
        rows = view.rows if view.setting is reading.nearest else view.headline
        yield _view_table(reading, replace(view, rows=rows), width)
    if reading.views:
        yield _prose(_legend(reading), width, "dim")


def _legend(reading: Reading) -> str:
    published = words.published_source(reading)
    other = "farther" if reading.result.cost_model else "other"
    more = f" All metrics of the {other} settings are in the full report." if reading.many_settings else ""
    return words.INTERVALS + (f" {published}" if published else "") + more


def _study_table(table: StudyTable, width: int) -> RenderableType:
    """A table of the study itself; its intervals are put in only where the console is wide."""
    grid = Table(
        box=box.SIMPLE_HEAD,
        title=_text(table.title) if table.title else None,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        show_edge=False,
        padding=(0, 2 if width >= ROOMY else 0, 0, 0),
    )
    for index, column in enumerate(table.columns):
        whole = index == 0 and width >= NARROWEST
        grid.add_column(_text(column), justify="right" if index else "left", overflow="fold", no_wrap=whole)
    names = NAMES if width >= ROOMY else NAMES_NARROW
    for row in table.rows:
        name, *figures = (_cell(cell.text, cell.estimate, wide=width >= WIDE) for cell in row)
        grid.add_row(*map(_text, (_hanging(name, "", names), *figures)))
    note = [_prose(table.note, width, "dim")] if table.note else []
    return Group(Text(), Padding(grid, (0, 0, 0, 2)), *note)


def _cell(text: str, estimate: Estimate | None, *, wide: bool) -> str:
    if estimate is None or "[" in text:
        return text if wide else text.replace(" [", "\n[")
    shown = fmt.interval(estimate.low, estimate.high, fmt.decimals_of(estimate))
    return f"{text} {shown}" if wide else f"{text}\n{shown}"


def _view_table(reading: Reading, view: ViewRows, width: int) -> RenderableType:
    if width < NARROWEST:
        return _view_list(reading, view, width)
    wide, names = width >= WIDE, NAMES if width >= ROOMY else NAMES_NARROW
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2 if wide else 0, 0, 0), show_edge=False)
    units = {row.metric.unit for row in view.rows}
    unit = fmt.UNITS.get(one := next(iter(units)), one) if len(units) == 1 else ""
    grid.add_column(_text(unit), overflow="fold", min_width=16)
    for name in (reading.control_name, reading.arm_heading):
        grid.add_column(_text(name), justify="right", no_wrap=True)
    for name in ("difference", "relative"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("verdict", overflow="fold", min_width=10)
    for _, rows in groupby(view.rows, key=lambda row: row.metric.name):
        for index, row in enumerate(rows):
            label = row.metric.label if unit else fmt.titled(row.metric.label, row.metric.unit)
            if reading.many_arms and index == 0:
                grid.add_row(_text(label))
            name = _hanging(row.arm.protection, "  ", names) if reading.many_arms else label
            _add_effect(grid, row, name, wide=wide, names=names)
    return Group(Text(), _prose(view.title, width, "bold"), Padding(grid, (0, 0, 0, 2)))


def _add_effect(grid: Table, row: EffectRow, label: str, *, wide: bool, names: int) -> None:
    """The row of an effect and, under it in the same columns, the published figure."""
    words_of = (
        row.verdict
        if wide
        else row.verdict.replace("; about ", "\n~").replace("; ", "\n").replace(" above ", "\nabove ")
    )
    verdict = _text(words_of, VERDICT_STYLES[row.effect.verdict])
    difference, relative = _shown(row.difference, wide=wide), _shown(row.relative, wide=wide)
    grid.add_row(_text(label), _text(row.control), _text(row.value), difference, relative, verdict)
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    for theirs in _published(row.published):
        cells = (theirs.control, theirs.value, theirs.difference, theirs.relative)
        grid.add_row(_text(_hanging(theirs.name, indent, names)), *(_text(cell) for cell in cells), Text(), style="dim")


def _published(rows: list[PublishedRow]) -> list[PublishedRow]:
    """Several series of which the ratio alone is known as one row, from the least to the greatest."""
    ratios = sorted(row.ratio for row in rows if row.ratio is not None)
    if len(ratios) < 2 or len(ratios) < len(rows):
        return rows
    least, greatest = fmt.bare_ratio(ratios[0]), fmt.bare_ratio(ratios[-1])
    return [PublishedRow("published", "", "", "", f"{least.removesuffix(f'{fmt.NBSP}%')} to {greatest}")]


def _hanging(name: str, indent: str, width: int) -> str:
    """A long name of an arm or a series on two lines, the second under the first."""
    return textwrap.fill(name, width, initial_indent=indent, subsequent_indent=indent + "  ")


def _shown(shown: Shown, *, wide: bool) -> Text:
    text = _text(shown.value)
    return text.append((" " if wide else "\n") + shown.interval, style="dim") if shown.interval else text


def _view_list(reading: Reading, view: ViewRows, width: int) -> RenderableType:
    """The same effects as lines that wrap, for a console too narrow for a table."""
    lines: list[RenderableType] = [Text(), _prose(view.title, width, "bold")]
    for row in view.rows:
        label = f"{row.metric.label} ({row.arm.protection})" if reading.many_arms else row.metric.label
        figures = f"{fmt.with_unit(row.difference.value, row.metric.unit)} {row.difference.interval}, {row.relative}"
        lines.append(_prose(f"{label}: {row.verdict}; {figures}", width))
    return Group(*lines)


def _reasons(reading: Reading, width: int) -> Iterator[RenderableType]:
    explanations = [sentence.text for sentence in reading.sentences("explanation")]
    if explanations:
        yield _labelled("Why", explanations, width)
    lines = words.break_evens(reading)
    if lines:
        yield _labelled("Break-even", lines, width)
    noise = words.noise_floor(reading)
    if noise:
        yield _labelled("Noise floor", [noise], width)


def _winning_back(reading: Reading, width: int) -> Iterator[RenderableType]:
    result = reading.result
    if result.cures:
        yield _rows(winning_back.cure_title(result), winning_back.CURE_HEAD, winning_back.cure_rows(result), width)
    if result.sizing:
        rows = winning_back.sizing_rows(result)
        head = winning_back.sizing_head(result.sizing)
        yield _rows("How many new clients a core takes", head[:5], rows, width)
    if checks := winning_back.check_rows(result):
        yield _rows("Bursts: predicted and measured", winning_back.CHECK_HEAD, checks, width)


def _rows(title: str, head: list[str], rows: list[list[str]], width: int) -> RenderableType:
    cells = [[Cell(text=text) for text in row] for row in rows]
    return _study_table(StudyTable(name="", title=title, columns=head, rows=cells), width)


def _trees(reading: Reading, width: int) -> Iterator[RenderableType]:
    if lines := trees.lines(reading.result):
        yield _labelled("Trees", lines, width)


def _split(reading: Reading, width: int) -> Iterator[RenderableType]:
    if split.steps(reading, reading.nearest):
        rows = split.rows(reading, reading.nearest)
        yield _rows(split.title(reading, reading.nearest), split.HEAD, rows, width)


def _as_ab(reading: Reading, width: int) -> Iterator[RenderableType]:
    for table in ab.summary(reading):
        yield _study_table(table, width)


def _near_and_far(reading: Reading, width: int) -> Iterator[RenderableType]:
    model = reading.result.cost_model
    summaries = distance.summaries(reading) if model else []
    if model and summaries:
        off = distance.worst(reading, model)
        yield _labelled("Near and far", [f"{line}." for line in summaries] + ([off] if off else []), width)


def _cpu(reading: Reading, width: int) -> Iterator[RenderableType]:
    lines = words.cpu_lines(reading, reading.nearest)
    if not lines:
        return
    roles, limits = words.cpu_roles(reading), words.cpu_limits(reading)
    gap = 2 if width >= NARROWEST else 0
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap, 0, 0))
    grid.add_column(
        _text("CPU s per 1,000 operations" + reading.nearest.at), overflow="fold", min_width=None if limits else 14
    )
    grid.add_column("arm", overflow="fold")
    for role in [*roles, "total"]:
        grid.add_column(_text(role), justify="right", overflow="fold")
    for name in limits:
        grid.add_column(_text(name), justify="right", overflow="fold")
    previous, names = None, NAMES if width >= ROOMY else NAMES_NARROW
    for line in lines:
        cells = [line.roles.get(role, fmt.NONE) for role in roles]
        workload = line.workload if line.workload != previous else ""
        cells = [
            workload,
            _hanging(line.arm, "", names),
            *cells,
            line.total,
            *(line.limits.get(name, fmt.NONE) for name in limits),
        ]
        grid.add_row(*map(_text, cells))
        previous = line.workload
    yield Group(Text(), Padding(grid, (0, 0, 0, 2)))
    for sentence in words.bottlenecks(reading):
        yield _prose(sentence, width, "yellow")


def _limits(reading: Reading, width: int) -> Iterator[RenderableType]:
    errors = words.error_lines(reading)
    if errors:
        yield _labelled("Errors", errors, width, "red")
    warnings = list(reading.result.warnings)
    if thrown := words.thrown_out(reading):
        warnings.append(f"{fmt.plural(thrown, 'slice')} thrown out: the evidence was not the arm's.")
    if warnings:
        yield _labelled("Warnings", warnings, width, "yellow")
    following = [sentence.text for sentence in reading.sentences("next")]
    if following:
        yield _labelled("Next", following, width)


SECTIONS: list[Callable[[Reading, int], Iterator[RenderableType]]] = [
    _heading,
    _answer,
    _tables,
    _winning_back,
    _trees,
    _split,
    _as_ab,
    _reasons,
    _near_and_far,
    _cpu,
    _limits,
]
"""What is printed, in this order; a section that has nothing to say yields nothing."""
