"""A document as one self-contained HTML file. No network, no font; what runs a script shows something else without it.

Jinja's autoescape is on for everything: labels, details and facts are other people's words.
"""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from costof.report import palette
from costof.report.blocks import Block, Document, Medium, select_blocks
from costof.report.canvas import picture


def render_html(document: Document) -> str:
    environment = Environment(
        loader=PackageLoader("costof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        kind=lambda block: type(block).__name__, on_page=_on_page, palette=palette, picture=picture
    )
    environment.filters["breakable"] = _breakable
    parts = [(part, found) for part in document.parts if (found := part.select(Medium.HTML))]
    return environment.get_template("page.html.j2").render(document=document, parts=parts)


def _breakable(name: str) -> Markup:
    """May go on in the next line after each underscore, so that no word of it is broken in a narrow column."""
    return Markup("_<wbr>").join(name.split("_"))


def _on_page(blocks: list[Block]) -> list[Block]:
    return select_blocks(blocks, Medium.HTML)
