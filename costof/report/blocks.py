"""What a report is made of: parts with blocks, which every renderer shows in its own way and knows nothing more of.

A block says in `media` where it is shown: a console has room for less than a page. Words in blocks are plain text;
a renderer escapes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from costof.format import Text
from costof.model import Model
from costof.report.canvas import Legend, Sheet
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
    """`label` stands before the words on a page, such as 'Noise floor.'."""

    text: str
    tone: Literal["plain", "lead", "note", "warning", "empty"] = "plain"
    label: str = ""


@dataclass(frozen=True)
class Headlines(Block):
    """The sentences that a reader came for; set smaller where more follows."""

    lines: list[str]
    long: bool = False


@dataclass(frozen=True)
class Heading(Block):
    text: str


@dataclass(frozen=True)
class Bullets(Block):
    """Sentences of one kind. On a console they stand beside their `label`; `loose` ones are paragraphs in a file."""

    lines: list[str]
    label: str = ""
    tone: Literal["plain", "soft", "warning", "error"] = "plain"
    loose: bool = False


MARKS = {True: "✓", False: "✗", None: "–"}


class Check(Model):
    """Something that has to be so for the figures to be worth much; `but` says what is not.

    `passed` is None where the run could not check it.
    """

    passed: bool | None
    label: str
    detail: str = ""

    @property
    def words(self) -> str:
        return f"{MARKS[self.passed]} {self.label}{f': {self.detail}' if self.detail else ''}"


@dataclass(frozen=True)
class Checks(Block):
    checks: list[Check]


@dataclass(frozen=True)
class CallOut(Block):
    """What must not be overlooked: the run is partial, a figure needs care, an arm failed."""

    kind: Literal["partial", "warning", "error"]
    text: str


@dataclass(frozen=True)
class Cell:
    """`code` and `full`, a longer form of `text`, are shown where there is room: on a page."""

    text: str
    interval: str = ""
    verdict: Verdict | None = None
    code: str = ""
    full: str = ""

    @property
    def whole(self) -> str:
        return f"{self.text} {self.interval}".rstrip()

    @classmethod
    def of(cls, shown: str | Text | Cell) -> Cell:
        if isinstance(shown, Cell):
            return shown
        return cls(shown.value, shown.interval) if isinstance(shown, Text) else cls(shown)


@dataclass(frozen=True)
class Column:
    """`width` is a share of a page's width in percent."""

    text: str
    kind: Literal["text", "figure", "verdict"] = "figure"
    unit: str = ""
    width: float | None = None


@dataclass(frozen=True)
class Row:
    """A group row has one cell, and the rows below it are its own. `aside` says a published row in one cell."""

    cells: list[Cell]
    kind: Literal["plain", "headline", "published", "group"] = "plain"
    aside: str = ""
    key: str = ""


@dataclass(frozen=True)
class Table(Block):
    """`group` heads the column of the group rows, where a medium has one for them."""

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
        """Plain rows under plain headings; the columns with the numbers `texts` hold words, the others figures."""
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
        """Return whether a row's first cell repeats that of the row above, with a second column of words beside it."""
        two = len(self.columns) > 1 and self.columns[1].kind == "text"
        return two and index > 0 and self.rows[index].cells[0] == self.rows[index - 1].cells[0]


@dataclass(frozen=True)
class Figure(Block):
    """A picture with its caption in sentences. `draw` gets the width in CSS pixels."""

    name: str
    title: str
    caption: list[str]
    draw: Callable[[int], Sheet]
    legend: list[Legend] = field(default_factory=list)


@dataclass(frozen=True)
class Details(Block):
    """Blocks that a page shows once they are asked for."""

    summary: str
    blocks: list[Block]


@dataclass(frozen=True)
class Field:
    name: str
    label: str
    value: str
    hint: str = ""


@dataclass(frozen=True)
class Choice:
    """One of the output's rows to be looked at alone: option -> label, the options being the rows' keys."""

    name: str
    label: str
    options: dict[str, str]


@dataclass(frozen=True)
class Presets:
    """Values of one field that are one click away: label -> value."""

    field: str
    label: str
    values: dict[str, str]


@dataclass(frozen=True)
class Interactive(Block):
    """A form whose script fills the `output` table from `data`; `instead` is shown where no script runs."""

    name: str
    fields: list[Field]
    choice: Choice
    presets: Presets
    output: Table
    script: str
    data: object
    instead: list[Block]


@dataclass(frozen=True)
class Part:
    """A part of the report under a title of its own; one without a title belongs to the report's head. `order` is its
    place among all parts; None is that of its section."""

    name: str
    title: str
    blocks: list[Block]
    order: int | None = None

    def select(self, medium: Medium) -> list[Block]:
        return select_blocks(self.blocks, medium)


def select_blocks(blocks: Sequence[Block], medium: Medium) -> list[Block]:
    return [block for block in blocks if medium in block.media]


@dataclass(frozen=True)
class Document:
    """A whole report. `made` says where it comes from, at the foot of a page."""

    title: str
    subtitle: str
    started: str
    parts: list[Part]
    origin: str
