"""A document as one self-contained HTML file, without network access or fonts.

A browser without scripts still shows the whole report. The top of the page has the answer, its picture and the
calculator, and fits on a screen of 1280 × 800 pixels. Everything else is in sections that open with a click. Jinja's
autoescape is on everywhere, because labels, details and facts come from users and servers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import resources
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from costof.report import palette
from costof.report.blocks import (
    Block,
    Bullets,
    CallOut,
    Checks,
    Details,
    Document,
    Figure,
    Headlines,
    Interactive,
    Lines,
    Medium,
    Part,
    select_blocks,
)
from costof.report.canvas import BOLD, NARROW, WIDE, Sheet
from costof.report.handout import HANDOUT_FILE, XML_NAMESPACE, card, interval_scale, markdown, wrapped
from costof.report.key_figures import MOST_TILES, first_of_each_arm

HEAD_WIDTH, HEAD_HEIGHT = 690, 420
"""Maximum size in pixels of the picture at the top of the page, so that no scrolling is needed at 1280 × 800."""
VERDICT_ROWS, VERDICT_SIZE, VERDICT_WIDTH, ROW_HEIGHT = 2, 22, 1200, 30
"""`HEAD_HEIGHT` leaves room for this many rows of the verdict. For each further row, the picture is shorter by
`ROW_HEIGHT`. Size (of the font), width and height are in pixels."""


@dataclass
class Layout:
    """The blocks of a page by their place.

    `picture` is at the top. If it is a figure of `sections` and not a shortened copy, its section has a link instead.
    """

    alerts: list[Block] = field(default_factory=list)
    lead: list[Block] = field(default_factory=list)
    picture: Figure | None = None
    form: Interactive | None = None
    below: list[Block] = field(default_factory=list)
    in_words: list[Block] = field(default_factory=list)
    sections: list[tuple[Part, list[Block]]] = field(default_factory=list)


def render_html(document: Document, template: str = "page.html.j2") -> str:
    """Return a page with the document's blocks. `template`, a file in `templates/`, says which blocks it shows."""
    environment = Environment(
        loader=PackageLoader("costof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        kind=lambda block: type(block).__name__,
        on_page=lambda blocks: select_blocks(blocks, Medium.HTML),
        palette=palette,
        drawings=_drawings,
        WIDE=WIDE,
        HEAD_WIDTH=HEAD_WIDTH,
        scale=interval_scale,
        verdict_colours=palette.VERDICT_COLOURS,
    )
    environment.filters["breakable"] = _breakable
    handout = document.handout
    drawn = card(handout) if handout else ""
    return environment.get_template(template).render(
        document=document,
        layout=arrange(document),
        handout=handout,
        tiles=first_of_each_arm(handout.summary.figures, MOST_TILES) if handout else [],
        markdown=markdown(handout) if handout else "",
        card=Markup(drawn.replace(XML_NAMESPACE, "")),  # noqa: S704  # it is escaped where it is drawn
        card_url="data:image/svg+xml," + quote(drawn),
        file_name=HANDOUT_FILE.format(run=handout.run) if handout else "",
        reasons=Lines(handout.summary.reasons) if handout and handout.summary.reasons else None,
        script=resources.files("costof.report.templates").joinpath("page.js").read_text(encoding="utf-8"),
    )


def arrange(document: Document) -> Layout:
    """Return the blocks by their place on the page. The picture of the highest rank and the form move to the top."""
    layout, in_head = Layout(), document.handout is not None
    parts = [(part, blocks) for part in document.parts if (blocks := part.select(Medium.HTML))]
    figures = [block for _, blocks in parts for block in blocks if isinstance(block, Figure) and block.rank]
    chosen = max(figures, key=lambda figure: figure.rank, default=None)
    if document.handout and chosen is not None:
        verdict = document.handout.summary.lines
        rows = sum(len(wrapped(line, BOLD * VERDICT_SIZE, VERDICT_WIDTH)) for line in verdict)
        layout.picture = _in_head(chosen, HEAD_HEIGHT - ROW_HEIGHT * max(0, rows - VERDICT_ROWS))
    for part, blocks in parts:
        if not part.title:
            for block in blocks:
                _place(layout, block, in_head=in_head)
            continue
        layout.form = next((block for block in blocks if isinstance(block, Interactive)), layout.form)
        # Leave out a form with a single row of output: the top of the page already shows this row.
        rest = [block for block in blocks if not (isinstance(block, Interactive) and len(block.output.rows) == 1)]
        # Leave out a section that would have only the link to the picture at the top.
        if any(block is not layout.picture for block in rest):
            layout.sections.append((part, rest))
    layout.below.sort(key=lambda block: not isinstance(block, Checks))
    return layout


def _place(layout: Layout, block: Block, *, in_head: bool) -> None:
    match block:
        case CallOut(kind="partial"):
            layout.alerts.append(block)
        case Headlines() | Bullets() | Details() if in_head:
            layout.in_words.append(block)
        case Headlines():
            layout.lead.append(block)
        case _:
            layout.below.append(block)


def _in_head(figure: Figure, height: float) -> Figure:
    """Return the figure itself if it fits into the top of the page; otherwise a copy with the rows of panels that fit.

    `height` is the available height in pixels.
    """

    def fitting(sheet: Sheet) -> Sheet:
        rows = [count for count in range(1, len(sheet.heights)) if sum(sheet.heights[:count]) <= height]
        count = len(sheet.heights) if sum(sheet.heights) <= height else max(rows, default=1)
        return replace(sheet, panels=sheet.panels[: count * sheet.columns], heights=sheet.heights[:count])

    sheet = figure.draw(HEAD_WIDTH)
    shown = fitting(sheet)
    if shown == sheet:
        return figure
    title = f"{figure.title} (first {len(shown.panels)} of {len(sheet.panels)}; all are below)"
    return replace(figure, name=f"{figure.name}-head", title=title, draw=lambda width: fitting(figure.draw(width)))


def _drawings(figure: Figure, wide: int) -> dict[str, str]:
    """Return the figure as SVG, `wide` pixels wide for a wide window, and narrower for a narrow one."""
    return {
        size: figure.draw(width).svg(f"{figure.name}-{size}", figure.title, " ".join(figure.caption))
        for size, width in (("wide", wide), ("narrow", NARROW))
    }


def _breakable(name: str) -> Markup:
    """Allow a line break after each underscore, so that narrow columns do not break words."""
    return Markup("_<wbr>").join(name.split("_"))
