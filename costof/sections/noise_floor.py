"""The noise floor in a sentence or two; a page has it below the costs, and the twin's figures under 'How sure'."""

from __future__ import annotations

from collections.abc import Iterator

from costof.analysis.index import Index
from costof.analysis.section import Section
from costof.document.blocks import TEXT, Block, Bullets


class NoiseFloorSection(Section[None, None]):
    name, title, order = "noise_floor", "Noise floor", 90

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if lines := index.noise_lines():
            yield Bullets(lines, label="Noise floor", loose=True, media=TEXT)


SECTION = NoiseFloorSection()
