"""The number of measured slices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from costof.model import Model
from costof.report.blocks import Block, Bullets
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.results.run import Run


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
