"""The noise floor in a sentence or two; a page has it below the costs, and the twin's figures under 'How sure'."""

from __future__ import annotations

from collections.abc import Iterator

from costof.report.blocks import TEXT, Block, Bullets
from costof.report.section import Section
from costof.results.index import Index


class NoiseFloorSection(Section[None, None]):
    name, title, order = "noise_floor", "Noise floor", 90

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if lines := index.noise_lines():
            yield Bullets(lines, label="Noise floor", loose=True, media=TEXT)


SECTION = NoiseFloorSection()
