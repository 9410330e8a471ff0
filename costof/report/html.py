"""A document as one self-contained HTML file, without network access or fonts; it is complete without scripts.

Jinja's autoescape is on for everything, because labels, details and facts come from users and servers.
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
    parts = [(part, blocks) for part in document.parts if (blocks := part.select(Medium.HTML))]
    return environment.get_template("page.html.j2").render(document=document, parts=parts)


def _breakable(name: str) -> Markup:
    """Allow a line break after each underscore, so that narrow columns do not break words."""
    return Markup("_<wbr>").join(name.split("_"))


def _on_page(blocks: list[Block]) -> list[Block]:
    return select_blocks(blocks, Medium.HTML)
