"""A document as GitHub-flavoured Markdown, for pasting into a ticket or pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from costof import format as fmt
from costof.report.blocks import (
    Block,
    Bullets,
    CallOut,
    Checks,
    Details,
    Document,
    Heading,
    Headlines,
    Interactive,
    Medium,
    Paragraph,
    Row,
    Table,
    select_blocks,
)

SPECIAL = re.compile(r"[\\`*<>|~]|^[#+-](?= )|(?<!\w)_|_(?!\w)|\](?=[(:\[])")
"""Characters that are markup in GitHub's Markdown. Brackets of intervals and `snake_case` are safe and not escaped."""
CALL_OUTS = {"partial": "> **Partial run.** {}", "warning": "Warning: {}", "error": "**Arm in error.** {}"}


def render_markdown(document: Document) -> str:
    texts = [f"# {escape(document.title)}", f"{escape(document.subtitle)} · {escape(document.started)}"]
    if document.handout is not None:
        summary = document.handout.summary
        texts += [f"**{escape(line)}**" for line in summary.lines]
        texts += [f"**{label}:** {escape(text)}" for label, text in summary.beside_verdict]
    for part in document.parts:
        if blocks := part.select(Medium.MARKDOWN):
            texts += [f"## {escape(part.title)}"] if part.title else []
            texts += render_blocks(blocks)
    return "\n\n".join(texts).replace(fmt.NBSP, " ") + "\n"


def render_blocks(blocks: Iterable[Block]) -> list[str]:
    """Return the blocks as paragraphs, lists and tables."""
    return [text for block in blocks for text in _block(block)]


def escape(text: str) -> str:
    """Return the text with special characters escaped, so that it has no markup, no HTML, and does not end a cell."""
    return SPECIAL.sub(lambda special: "\\" + special.group(), " ".join(text.split()))


def pipe_table(head: Sequence[str], rows: Iterable[Sequence[str]], rules: Sequence[str] = ()) -> str:
    """Return a table of cells that are already escaped. `rules` such as "---:" align the columns."""
    lines = (head, rules or ["---"] * len(head), *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield escape(block.text)
        case Headlines():
            yield "\n".join(f"**{escape(line)}**" for line in block.lines)
        case Heading():
            yield f"### {escape(block.text)}"
        case Bullets(loose=True):
            yield from map(escape, block.lines)
        case Bullets():
            yield "\n".join(f"- {escape(line)}" for line in block.lines)
        case Checks(checks=checks):
            yield "\n".join(f"- {escape(each.words)}" for each in checks)
        case CallOut():
            yield CALL_OUTS[block.kind].format(escape(block.text))
        case Table():
            yield from _table(block)
        case Details(blocks=inner) | Interactive(instead=inner):
            for each in select_blocks(inner, Medium.MARKDOWN):
                yield from _block(each)


def _table(table: Table) -> Iterator[str]:
    """Yield the title, the table and the note.

    The text of a group row becomes the first cell of each row in the group. Figures from the literature ("published"
    rows) become the last cell of the row above them.
    """
    if table.title:
        yield f"### {escape(table.title)}"
    words = [column.kind != "figure" for column in table.columns]
    head = [column.text for column in table.columns]
    if table.grouped:
        head, words = [table.group, *head], [True, *words]
    if beside := any(row.kind == "published" for row in table.rows):
        head, words = [*head, "published"], [*words, False]
    rules = ["---" if left else "---:" for left in words]
    head, *rows = ([escape(cell) for cell in cells] for cells in [head, *_rows(table, beside=beside)])
    yield pipe_table(head, rows, rules)
    if table.note:
        yield escape(table.note)


def _rows(table: Table, *, beside: bool) -> Iterator[list[str]]:
    group: list[str] = []
    for index, row in enumerate(table.rows):
        if row.kind == "group":
            group = [row.cells[0].text]
        elif row.kind != "published":
            published = ["; ".join(_published(table.rows, index))] if beside else []
            yield [*group, *(cell.whole for cell in row.cells), *published]


def _published(rows: list[Row], index: int) -> Iterator[str]:
    for row in rows[index + 1 :]:
        if row.kind != "published":
            return
        yield row.aside
