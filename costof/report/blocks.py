"""Blocks of a report: paragraphs, tables and figures, independent of the medium that shows them.

The `media` of a block say where it is shown, because a terminal has less room than a page. Texts in blocks are plain:
the renderer of each medium escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from costof.format import Text
from costof.report.canvas import Legend, Sheet
from costof.report.how_sure import Check
from costof.report.key_figures import KeyFigure
from costof.report.plots import Series
from costof.report.summary import Summary
from costof.statistics.estimate import Verdict


class Medium(Enum):
    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    HTML = "html"


Media = frozenset[Medium]
EVERYWHERE: Media = frozenset(Medium)
TERMINAL: Media = frozenset({Medium.TERMINAL})
MARKDOWN: Media = frozenset({Medium.MARKDOWN})
HTML: Media = frozenset({Medium.HTML})
FILES = MARKDOWN | HTML
TEXT = TERMINAL | MARKDOWN


@dataclass(frozen=True, kw_only=True)
class Block:
    media: Media = EVERYWHERE


@dataclass(frozen=True)
class Paragraph(Block):
    """A paragraph. On a page, `label` such as 'Noise floor.' comes before the text."""

    text: str
    tone: Literal["plain", "lead", "note", "warning", "empty"] = "plain"
    label: str = ""


@dataclass(frozen=True)
class Headlines(Block):
    """The main sentences at the top of the report. If `long` is true, a page prints them in smaller letters."""

    lines: list[str]
    long: bool = False


@dataclass(frozen=True)
class KeyFigures(Block):
    """The figures of the summary, each with its interval as a bar on a scale."""

    figures: list[KeyFigure]


@dataclass(frozen=True)
class Lines(Block):
    """Short texts with their labels, such as ('Why', 'TLS needs 2 more round trips.')."""

    lines: list[tuple[str, str]]


@dataclass(frozen=True)
class Heading(Block):
    text: str


@dataclass(frozen=True)
class Bullets(Block):
    """A list of sentences. A terminal prints `label` beside them.

    If `loose` is true, Markdown has each sentence as a paragraph and not as an item of a list.
    """

    lines: list[str]
    label: str = ""
    tone: Literal["plain", "soft", "warning", "error"] = "plain"
    loose: bool = False


@dataclass(frozen=True)
class Checks(Block):
    checks: list[Check]


@dataclass(frozen=True)
class CallOut(Block):
    """A note that must not be overlooked: an incomplete run, a warning about figures, or an arm that failed."""

    kind: Literal["partial", "warning", "error"]
    text: str


@dataclass(frozen=True)
class Cell:
    """A cell of a table. A page prints `full`, if given, instead of the shorter `text`.

    After the text, a page also prints `code`, a name from the study's file.
    """

    text: str
    interval: str = ""
    verdict: Verdict | None = None
    code: str = ""
    full: str = ""

    @property
    def whole(self) -> str:
        return f"{self.text} {self.interval}".rstrip()

    @classmethod
    def of(cls, content: str | Text | Cell) -> Cell:
        if isinstance(content, Cell):
            return content
        return cls(content.value, content.interval) if isinstance(content, Text) else cls(content)


@dataclass(frozen=True)
class Column:
    """A column of a table. `width` is in percent of the page's width."""

    text: str
    kind: Literal["text", "figure", "verdict"] = "figure"
    unit: str = ""
    width: float | None = None


@dataclass(frozen=True)
class Row:
    """A row of a table. The page's script finds a row by its `key`.

    - A row of the kind "group" has one cell: the heading of the rows below it.
    - A row of the kind "published" has figures from the literature, to compare with the measured figures in the row
      above it. Markdown does not print this row. Instead, it prints the text `aside` in an additional last column of
      the row above.
    """

    cells: list[Cell]
    kind: Literal["plain", "headline", "published", "group"] = "plain"
    aside: str = ""
    key: str = ""


@dataclass(frozen=True)
class Table(Block):
    """A table. If its rows are grouped, `group` says by what, such as 'workload'.

    Markdown prints the headings of the groups in an additional first column, whose heading is `group`.
    """

    columns: list[Column]
    rows: list[Row]
    title: str = ""
    note: str = ""
    group: str = ""

    @classmethod
    def of(
        cls,
        head: Sequence[str | Column],
        rows: Iterable[Sequence[str | Text | Cell]],
        *,
        title: str = "",
        note: str = "",
        texts: Sequence[int] = (0,),
        media: Media = EVERYWHERE,
    ) -> Table:
        """Return a table of plain rows. Columns with an index in `texts` hold words. The others hold figures."""
        columns = [
            each if isinstance(each, Column) else Column(each, "text" if index in texts else "figure")
            for index, each in enumerate(head)
        ]
        return cls(columns, [Row([*map(Cell.of, row)]) for row in rows], title, note, media=media)

    @property
    def grouped(self) -> bool:
        return any(row.kind == "group" for row in self.rows)

    @property
    def has_verdicts(self) -> bool:
        return any(column.kind == "verdict" for column in self.columns)

    def repeats(self, index: int) -> bool:
        """Return whether a row's first cell can be left blank, because the cell above it has the same text.

        Return False if the second column has no words, because rows with blank first cells would look alike.
        """
        two = len(self.columns) > 1 and self.columns[1].kind == "text"
        return two and index > 0 and self.rows[index].cells[0] == self.rows[index - 1].cells[0]


@dataclass(frozen=True)
class Figure(Block):
    """A picture with a caption in sentences. `draw` returns the picture for a width in CSS pixels.

    `reading` explains how to read the picture. The top of a page shows the picture with the highest `rank`. A picture
    with rank 0 is never shown there.
    """

    name: str
    title: str
    caption: list[str]
    draw: Callable[[int], Sheet]
    legend: list[Legend] = field(default_factory=list)
    reading: str = ""
    rank: int = 0


@dataclass(frozen=True)
class Plot(Block):
    """A plot of characters. `title` names both axes. A dashed line marks the height `limit`."""

    title: str
    series: list[Series]
    limit: float | None = None
    media: Media = field(default=TERMINAL, kw_only=True)


@dataclass(frozen=True)
class Details(Block):
    """Blocks that a page shows after a click."""

    summary: str
    blocks: list[Block]


@dataclass(frozen=True)
class Field:
    """A number that the user enters. `key` is its name in the page's URL.

    `slider` is the range of the field's slider, from its low to its high end. The slider is logarithmic, but linear
    below 1 if the low end is 0.
    """

    name: str
    label: str
    value: str
    key: str
    hint: str = ""
    slider: tuple[float, float] | None = None


@dataclass(frozen=True)
class Presets:
    """Buttons that set the value of a field. `values` maps the label of each button to the value that it sets."""

    field: str
    label: str
    values: dict[str, str]


@dataclass(frozen=True)
class Interactive(Block):
    """A form at the top of a page. The page's script computes the figures of the table `output` from `data`.

    Each row of `output` is a protection, and has its name as `key`. The form shows one row. If `output` has several
    rows, the user selects the row in a menu, and the page also has the whole table.

    - `example`: the initial values of the fields, in words.
    - `fixed`: the values that the user cannot change, in words.
    - `notes`: how the figures are computed.
    - `instead`: the blocks that are shown if the browser runs no scripts.
    """

    name: str
    title: str
    fields: list[Field]
    example: str
    notes: list[str]
    presets: Presets
    output: Table
    script: str
    data: object
    instead: list[Block]
    instead_title: str = "At the distances of this run"
    fixed: str = ""


@dataclass(frozen=True)
class Part:
    """A part of the report with a title. A part without a title is at the top of the report.

    Parts are sorted by `order`. If it is None, the part has the `order` of the section that made it.
    """

    name: str
    title: str
    blocks: list[Block]
    order: int | None = None

    def select(self, medium: Medium) -> list[Block]:
        return select_blocks(self.blocks, medium)


def select_blocks(blocks: Sequence[Block], medium: Medium) -> list[Block]:
    return [block for block in blocks if medium in block.media]


@dataclass(frozen=True)
class Handout:
    """The content to share: the short answer, the run's checks and versions, and the command that repeats the run.

    `versions` has the version of each program by name: costof, the measured servers, and the programs that measured.
    """

    question: str
    run: str
    extent: str
    started: str
    summary: Summary
    checks: list[Check]
    versions: dict[str, str]
    command: str


@dataclass(frozen=True)
class Document:
    """A whole report. `origin`, at the foot of a page, names the run from which the report was made.

    `handout` is the short form that readers share. A page with a handout begins with the handout's verdict and figures.
    """

    title: str
    subtitle: str
    started: str
    parts: list[Part]
    origin: str
    handout: Handout | None = None
