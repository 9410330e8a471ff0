"""How often it was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from costof.analysis.index import Index
from costof.analysis.models import Core, Sentence
from costof.analysis.run import Run
from costof.analysis.section import Section, sentences
from costof.document.blocks import Block, Bullets
from costof.model import Model


class Slices(Model):
    slices: int


class SlicesSection(Section[None, Slices]):
    name, title, order = "slices", "How often", 55
    data = Slices

    def compute(self, run: Run, core: Core, spec: None) -> Slices:
        return Slices(slices=len(run.slices))

    def answer(self, index: Index, data: Slices) -> Sequence[Sentence]:
        return sentences("answer", [f"It took {data.slices} slices."])

    def blocks(self, index: Index, data: Slices) -> Iterable[Block]:
        yield Bullets([f"{data.slices} slices & no more"], label=self.title)


SECTION = SlicesSection()
