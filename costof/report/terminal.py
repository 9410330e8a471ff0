"""A document on a terminal.

The layout depends on the terminal's width: from `WIDE` columns on, intervals are beside their values, otherwise below
them, so that no figure is cut off. Colour is never the only sign of anything, so a pipe gets the same text without
colours.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from costof import format as fmt
from costof.report.blocks import (
    Block,
    Bullets,
    CallOut,
    Cell,
    Checks,
    Details,
    Document,
    Headlines,
    Interactive,
    KeyFigures,
    Lines,
    Medium,
    Paragraph,
    Plot,
    Table,
    select_blocks,
)
from costof.report.how_sure import MARKS, Check
from costof.report.key_figures import KeyFigure
from costof.report.plots import legend, plot
from costof.report.summary import BESIDE_VERDICT
from costof.statistics.estimate import Estimate, Verdict

WIDE = 112
"""A terminal with at least this many columns has room for an interval beside its value."""
NARROWEST = 76
"""A terminal with fewer columns has no room for a table of verdicts. Its rows are printed there as sentences."""
PROSE = 100
"""Maximum width of sentences, because longer lines are hard to read."""
NAMES = (34, 28, 22, 16)
"""Maximum widths of names in characters, tried in this order until the table fits."""
HEADING = 16
"""The heading of a column of figures is not wrapped if it is at most this wide, even if the figures are narrower."""
UNBROKEN: Any = {"break_long_words": False, "break_on_hyphens": False}
ROOMY = 96
"""On a terminal that is at least this wide, tables have more space between their columns."""
VERDICT_STYLES = {
    Verdict.COSTS: "bold yellow",
    Verdict.SAVES: "bold cyan",
    Verdict.NO_DIFFERENCE: "green",
    Verdict.NO_COST: "green",
    Verdict.UNRESOLVED: "magenta",
}
STYLES = {"plain": "", "lead": "", "soft": "", "note": "dim", "warning": "yellow", "error": "red", "empty": ""}
ASCII = str.maketrans(
    {
        "−": "-",
        "×": "x",
        "–": "-",
        "·": "-",
        "“": '"',
        "”": '"',
        "…": "...",
        "→": "->",
        "µ": "u",
        "─": "-",
        "✓": "+",
        "✗": "!",
        "│": "|",
        "└": "+",
        "●": "o",
    }
)


def render_terminal(document: Document, console: Console) -> None:
    body = _body(document, console.width)
    unicode = (console.encoding or "utf-8").lower().startswith("utf")
    if console.is_terminal and unicode:
        console.print(body, highlight=False)
    else:
        console.file.write(_plain(body, console.width, unicode=unicode))


def count_lines(document: Document, width: int) -> int:
    """Return the number of lines that the document takes on a terminal of this width."""
    return len(_plain(_body(document, width), width, unicode=True).splitlines())


def _body(document: Document, width: int) -> RenderableType:
    head: list[RenderableType] = [Text()]
    head += [_prose(document.title, width, "bold")] if document.title else []
    head.append(_prose(document.subtitle, width, "dim"))
    blocks = [block for part in document.parts for block in part.select(Medium.TERMINAL)]
    return Group(*head, *(each for block in blocks for each in _block(block, width)))


def _plain(body: RenderableType, width: int, *, unicode: bool) -> str:
    """Return the text for a pipe: without colours or trailing blanks, and in ASCII unless `unicode` is true."""
    buffer = io.StringIO()
    Console(file=buffer, width=width, color_system=None).print(body, highlight=False)
    lines = (line.rstrip() for line in buffer.getvalue().splitlines())
    text = "\n".join(lines) + "\n"
    return text if unicode else text.translate(ASCII).encode("ascii", "replace").decode("ascii")


def _text(text: str, style: str = "") -> Text:
    """Return a text that is not parsed as markup. It has ordinary spaces, so that `grep '14.2 ms'` finds it."""
    return Text(text.replace(fmt.NBSP, " "), style=style)


def _prose(text: str, width: int, style: str = "") -> RenderableType:
    return Padding(_filled(text, min(width, PROSE + 2) - 2, style), (0, 0, 0, 2))


def _filled(text: str, width: int, style: str = "") -> Text:
    """Return the text wrapped to the width, without a line break between a number and its unit."""
    return _text(textwrap.fill(text, width, break_on_hyphens=False), style)


def marks(checks: Sequence[Check]) -> str:
    """Return all checks in one line, without their details."""
    return "   ".join(f"{MARKS[each.passed]} {each.label}".replace(" ", fmt.NBSP) for each in checks)


def _after_label(label: str, text: str, width: int) -> RenderableType:
    """Return a text after a bold label, as in 'How sure: high'."""
    filled = _filled(f"{label}: {text}", min(width, PROSE + 2) - 2)
    filled.stylize("bold", 0, len(label) + 1)
    return Padding(filled, (0, 0, 0, 2))


def _block(block: Block, width: int) -> Iterator[RenderableType]:
    match block:
        case Paragraph(tone="empty"):
            yield Padding(_text(block.text), (1, 0, 0, 2))
        case Paragraph(label=label) if label in BESIDE_VERDICT:
            yield _after_label(label, block.text, width)
        case Paragraph():
            yield _prose(block.text, width, STYLES[block.tone])
        case Headlines():
            yield Text()
            yield from (_prose(line, width, "bold") for line in block.lines)
        case Bullets(label=""):
            yield Text()
            yield from (_prose(f"· {line}", width, STYLES[block.tone]) for line in block.lines)
        case Bullets():
            yield _labelled(block.label, block.lines, width, STYLES[block.tone])
        case Lines(lines=lines):
            yield Text()
            yield from (_labelled(label, [text], width, above=0) for label, text in lines)
        case Checks(checks=checks):
            plain = [each for each in checks if each.passed and not each.detail]
            passed = marks(plain)
            others = [each.words for each in checks if each not in plain]
            yield _labelled("Checks", [*filter(None, [passed]), *others], width)
        case KeyFigures(figures=figures):
            yield Text()
            yield from (Padding(each, (0, 0, 0, 2)) for each in _key_figures(figures, width))
            notes = dict.fromkeys(figure.note for figure in figures if figure.note)
            yield from (_prose(note.replace(COMPUTED, f"{COMPUTED}:", 1), width, "dim") for note in notes)
        case CallOut(kind="partial"):
            yield Padding(_text(f"PARTIAL RUN: {block.text}", "bold yellow"), (1, 2, 0, 2))
        case CallOut():
            words = f"Warning: {block.text}" if block.kind == "warning" else block.text
            yield _prose(words, width, STYLES[block.kind])
        case Plot(title=title, series=series, limit=limit):
            yield Text()
            yield _prose(title, width, "bold")
            yield from (Padding(_text(line), (0, 0, 0, 2)) for line in plot(series, width - 2, limit))
            yield _prose(legend(series), width, "dim")
        case Table():
            yield from _table(block, width)
        case Details(blocks=inner) | Interactive(instead=inner):
            for each in select_blocks(inner, Medium.TERMINAL):
                yield from _block(each, width)


COMPUTED = "computed"
"""The first word of the note on a key figure that was computed and not measured.

The table has only this word, after the figure's name. The whole note is below the table.
"""
BAR = 11
"""Width of an interval's bar in characters."""
MOST_LINES = 2
"""Key figures are in a table for each quantity only if the names of the arms need at most this many lines."""
LEAST_LABEL, ENOUGH_LABEL = 16, 24
"""Widths in characters for the labels of key figures.

If the labels have less room than ENOUGH_LABEL, the gaps between columns become narrower. If that is not enough, the
relative figures are left out. Labels always get at least LEAST_LABEL.
"""


class FigureColumn(NamedTuple):
    """A column of key figures. Figures are aligned on the right."""

    head: str
    read: Callable[[KeyFigure], str]
    justify: Literal["left", "right"] = "right"


def _figure_columns(*, relative: bool, ends: bool) -> list[FigureColumn]:
    interval = "95 % interval"
    return [
        FigureColumn("without", lambda figure: figure.one_side(figure.without)),
        FigureColumn("with", lambda figure: figure.one_side(figure.value)),
        FigureColumn("added", lambda figure: figure.added),
        *([FigureColumn("relative", lambda figure: figure.relative)] if relative else []),
        *([FigureColumn(interval, lambda figure: fmt.absolute(figure.difference).interval)] if ends else []),
        FigureColumn("" if ends else interval, lambda figure: _bar(figure.difference), "left"),
        FigureColumn("", lambda figure: figure.verdict_word, "left"),
    ]


def _key_figures(figures: Sequence[KeyFigure], width: int) -> Iterator[RenderableType]:
    """Yield a table for each arm with a row for each figure, whose interval is drawn as a bar ('│' is 0).

    If several arms have the same few quantities, yield a table for each quantity with a row for each arm.

    On a terminal of at least `ROOMY` columns, the ends of the interval are beside the bar. If this leaves too little
    room for the figures' names, the gaps become narrower. If that is not enough, the relative figures are left out.
    """
    layouts = ((2, True), (1, True), (1, False)) if width >= ROOMY else ((1, False),)
    for gap, relative in layouts:
        columns = _figure_columns(relative=relative, ends=width >= ROOMY)
        rows = [[column.read(figure) for column in columns] for figure in figures]
        heads = [column.head for column in columns]
        widths = [max(map(cell_len, cells)) for cells in zip(heads, *rows, strict=True)]
        room = max(LEAST_LABEL, min(NAMES[0], width - 2 - sum(widths) - gap * len(widths)))
        if room >= ENOUGH_LABEL:
            break
    for title, group in _tables([*zip(figures, rows, strict=True)], room):
        grid = Grid(box=None, show_header=False, pad_edge=False, padding=(0, gap, 0, 0))
        grid.add_column(width=room)
        for column, each in zip(columns, widths, strict=True):
            grid.add_column(width=each, justify=column.justify, no_wrap=True)
        fits = cell_len(title) <= room
        if not fits:
            yield _text(textwrap.fill(title, width - 2, **UNBROKEN), "bold")
        grid.add_row(*(_text(head, "dim") for head in [title if fits else "", *heads]))
        for label, figure, (*figures_, bar, verdict) in group:
            style = VERDICT_STYLES[figure.verdict]
            grid.add_row(_text(_folded(label, room)), *map(_text, figures_), _text(bar, style), _text(verdict, style))
        yield grid


class FigureRow(NamedTuple):
    label: str
    figure: KeyFigure
    cells: list[str]


def _tables(figures: Sequence[tuple[KeyFigure, list[str]]], room: int) -> Iterator[tuple[str, list[FigureRow]]]:
    """Yield the title and the rows of each table of key figures.

    If all arms have the same quantities, and these are fewer than the arms, there is a table for each quantity.
    Otherwise there is a table for each arm.
    """
    by_arm: dict[str, list[str]] = {}
    for figure, _ in figures:
        by_arm.setdefault(figure.arm_label, []).append(_quantity(figure))
    quantities = next(iter(by_arm.values()))
    alike = all(each == quantities and cell_len(arm) <= MOST_LINES * room for arm, each in by_arm.items())
    if alike and len(quantities) < len(by_arm):
        for quantity in quantities:
            rows = [FigureRow(each.arm_label, each, cells) for each, cells in figures if _quantity(each) == quantity]
            yield quantity, rows
        return
    for arm in by_arm:
        group = [(figure, cells) for figure, cells in figures if figure.arm_label == arm]
        shared = _shared_end([figure.label for figure, _ in group])
        yield arm + shared, [FigureRow(_quantity(figure, shared), figure, cells) for figure, cells in group]


def _quantity(figure: KeyFigure, without: str = "") -> str:
    return figure.label.removesuffix(without) + (f", {COMPUTED}" if figure.note else "")


def _shared_end(labels: Sequence[str]) -> str:
    """Return the end that several labels share, such as ', with data in memory'; '' if they share none."""
    start, separator, end = labels[0].rpartition(", with ")
    shared = separator + end
    return shared if start and len(labels) > 1 and all(label.endswith(shared) for label in labels) else ""


def _bar(difference: Estimate) -> str:
    """Return an interval as a bar such as '│    ─●─  ', on a scale from 0 ('│') to the farthest end of the interval."""
    low, high = min(0.0, difference.low), max(0.0, difference.high)
    return interval_bar(difference, low, high) if high > low else "│"


def interval_bar(estimate: Estimate, scale_low: float, scale_high: float, zero_inside: str = "│") -> str:
    """Return an interval as a bar on a scale. Zero is drawn as '│', or as `zero_inside` if the interval includes it."""

    def place(value: float) -> int:
        return round((value - scale_low) / (scale_high - scale_low) * (BAR - 1))

    signs = [" "] * BAR
    low, zero, high = place(estimate.low), place(0.0), place(estimate.high)
    signs[low : high + 1] = "─" * (high - low + 1)
    signs[zero] = zero_inside if low < zero < high else "│"
    signs[place(estimate.value)] = "●"
    return "".join(signs)


def _labelled(label: str, lines: list[str], width: int, style: str = "", above: int = 1) -> RenderableType:
    room = max(20, min(width, PROSE + 14) - 16)
    grid = Grid.grid(padding=(0, 2), expand=False)
    grid.add_column(width=12, no_wrap=True, style="bold")
    grid.add_column(overflow="fold", max_width=room)
    for index, line in enumerate(lines):
        grid.add_row(_text(label if index == 0 else ""), _filled(line, room, style))
    return Padding(grid, (above, 0, 0, 2))


def _table(table: Table, width: int) -> Iterator[RenderableType]:
    yield Text()
    if table.title:
        yield _prose(table.title, width, "bold")
    if table.has_verdicts and width < NARROWEST:
        yield from (_prose(line, width) for line in _sentences(table))
    else:
        yield from (Padding(each, (0, 0, 0, 2)) for each in _grids(table, width))
    if table.note:
        yield _prose(table.note, width, "dim")


def _sentences(table: Table) -> Iterator[str]:
    """Yield a sentence for each measured row, such as 'connect, ms (tls): costs; control: plain 5.1, this arm 7.2'."""
    group, head = "", table.group if table.grouped else table.columns[0].text
    unit = f", {head}" if head else ""
    for row in table.rows:
        if row.kind == "group":
            group = row.cells[0].text + unit
        elif row.kind != "published":
            name, *cells = row.cells
            pairs = list(zip(table.columns[1:], cells, strict=True))
            verdicts = "; ".join(cell.text for column, cell in pairs if column.kind == "verdict")
            figures = ", ".join(f"{column.text} {cell.whole}" for column, cell in pairs if column.kind == "figure")
            yield f"{f'{group} ({name.text})' if group else name.text + unit}: {verdicts}; {figures}"


def _grids(table: Table, width: int) -> Iterator[RenderableType]:
    """Yield a grid for each group of rows, with the group's name above it.

    If the terminal is wide enough, no cell is wrapped. Otherwise cells are wrapped between words. In tables with
    verdicts, figures are never wrapped.
    """
    gap = 2 if width >= (WIDE if table.has_verdicts else ROOMY) else 0
    heads = [table.group if table.grouped else table.columns[0].text, *(each.text for each in table.columns[1:])]
    room = width - 2 - (gap + 1) * (len(heads) - 1)
    for whole, longest in product((True, False), NAMES):
        rows = [_cells(table, index, width, longest) for index in range(len(table.rows))]
        if widths := _widths(table, heads, rows, room, whole=whole):
            break
    grid = _grid(table, heads, widths, gap)
    for row, cells in zip(table.rows, rows, strict=True):
        if row.kind == "group" and widths:
            yield grid
            yield cells[0]
            grid = _grid(table, [], widths, gap)
        else:
            grid.add_row(*cells, style="dim" if row.kind == "published" else "")
    yield grid


def _grid(table: Table, heads: Sequence[str], widths: Sequence[int] | None, gap: int) -> Grid:
    """Return a grid without rows. `heads` is empty for a grid that continues the one above it."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap, 0, 0), show_header=bool(heads))
    for index, column in enumerate(table.columns):
        figure, width = column.kind == "figure", widths[index] if widths else None
        head = heads[index] if heads else ""
        if width:
            # Wrap the heading here. In a table with verdicts, rich does not wrap columns of figures (`no_wrap`), so it
            # would cut off a heading that is longer than the figures.
            head = textwrap.fill(head, width, **UNBROKEN)
        grid.add_column(
            _text(head),
            justify="right" if figure else "left",
            overflow="fold",
            no_wrap=figure and table.has_verdicts,
            width=width,
        )
    return grid


def _widths(
    table: Table, heads: Sequence[str], rows: Sequence[Sequence[Text]], room: int, *, whole: bool
) -> list[int] | None:
    """Return widths of the columns that fit into `room` without breaking a word; None if that is not possible.

    The widest columns are narrowed first. The first column is not narrowed, because its names already have line breaks.
    If `whole` is true, figures, intervals and verdicts are not wrapped.
    """
    cells = [[text.plain for text in row] for row in rows if len(row) > 1]
    widths, least = [], []
    for index, (column, head) in enumerate(zip(table.columns, heads, strict=True)):
        lines = [line for row in cells if index < len(row) for line in row[index].split("\n")]
        words = [word for line in [head, *lines] for word in line.split(" ")]
        kept = index == 0 or (whole and column.kind != "text") or (table.has_verdicts and column.kind == "figure")
        width = max(map(cell_len, ["", *lines]))
        # The heading may take several lines, so that a long one does not widen a column of short figures.
        folded = [head] if column.kind != "figure" else textwrap.wrap(head, max(width, HEADING), **UNBROKEN)
        widths.append(max(map(cell_len, [*folded, *lines, ""])))
        least.append(max(map(cell_len, [*words, *(lines if kept else [])])))
    while sum(widths) > room:
        able = [index for index, width in enumerate(widths) if width > least[index]]
        if not able:
            return None
        widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _cells(table: Table, index: int, width: int, longest: int) -> list[Text]:
    row = table.rows[index]
    name = "" if table.repeats(index) else row.cells[0].text
    if row.kind != "group":
        name = _folded(name, longest, "  " * (table.grouped + (row.kind == "published")))
    return [_text(name), *(_cell(cell, width, longest) for cell in row.cells[1:])]


def _folded(name: str, longest: int, indent: str = "") -> str:
    """Return the name wrapped to lines of at most `longest` characters, only at spaces and after '-' and '@'."""
    folded = textwrap.fill(
        name.replace("@", "@ "), longest, initial_indent=indent, subsequent_indent=indent + "  ", break_long_words=False
    )
    return folded.replace("@ ", "@")


def _cell(cell: Cell, width: int, longest: int) -> Text:
    wide = width >= WIDE
    if cell.verdict is not None:
        narrow = cell.text.replace("; about ", "\n~").replace("; ", "\n").replace(" above ", "\nabove ")
        return _text(cell.text if wide else narrow, VERDICT_STYLES[cell.verdict])
    text = _text(cell.text if " " in cell.text else _folded(cell.text, longest))
    return text.append((" " if wide else "\n") + cell.interval.replace(fmt.NBSP, " "), "dim") if cell.interval else text
