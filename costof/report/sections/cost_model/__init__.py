"""Near and far: what an operation takes at any distance, how well that predicts, and a calculator for others."""

from __future__ import annotations

from collections.abc import Iterator

from costof.report.blocks import FILES, TERMINAL, Block, Bullets, Paragraph, Part
from costof.report.section import Section, sentences
from costof.report.sections.cost_model.calculator import calculator, extras
from costof.report.sections.cost_model.curve import figure
from costof.report.sections.cost_model.model import CostModel, Operation, cost_model
from costof.report.sections.cost_model.service import MOST_TOLD, for_a_service, said_already
from costof.report.sections.cost_model.tables import near_end, parameters, predictions, summaries, worst
from costof.results.index import Index, Lead
from costof.results.models import Core, Sentence
from costof.results.run import Run

#: Where the model itself stands; the calculator is at the section's own place, before all costs.
DETAILS = 100
FORMULA = "Time of an operation = own time + round trips × round-trip time (+ bytes ÷ bandwidth)."
SOURCES = (
    "Round trips and bytes were counted on the wire and are exact. Own time is what an operation takes by itself, "
    "estimated from the rounds of the nearest setting. Round-trip times are those that TCP measured on the links. "
    "Intervals hold the uncertainty of both."
)


class CostModelSection(Section[list[Operation], CostModel]):
    name, title, order = "cost_model", "Near and far: the cost model", 4
    spec, data = list[Operation], CostModel

    def metrics(self, spec: list[Operation]) -> list[str]:
        return [name for each in spec for name in (each.metric, *each.predicts)]

    def compute(self, run: Run, core: Core, spec: list[Operation]) -> CostModel:
        return cost_model(run, core.distances, spec)

    def blocks(self, index: Index, data: CostModel) -> Iterator[Block]:
        off = worst(index, data)
        if lines := summaries(index, data):
            yield Bullets([*lines, *([off] if off else [])], label="Near and far", media=TERMINAL)
        yield Paragraph(FORMULA, "lead", media=FILES)
        yield Paragraph(f"{SOURCES} {off}" if off else SOURCES, media=FILES)
        if found := figure(index, data):
            yield found
        yield parameters(index, data)
        if note := near_end(index, data):
            yield Paragraph(note, "note", media=FILES)
        yield from predictions(index, data)

    def lead(self, index: Index, data: CostModel) -> Lead:
        """Of several distances it says in a sentence what else takes one for each; many arms it does not rank."""
        if data.load is not None:
            # What it costs there was measured.
            return Lead()
        leads = index.many_settings and 0 < len(extras(index, data)) <= MOST_TOLD
        return Lead(leads=leads, follow=said_already(index, data))

    def answer(self, index: Index, data: CostModel) -> list[Sentence]:
        """What it costs a service, before what a loop as fast as it goes makes of it."""
        return sentences("answer", [*for_a_service(index, data)] if data.load is None else [])

    def parts(self, index: Index, data: CostModel) -> list[Part]:
        model = Part(self.name, self.title, [*self.blocks(index, data)], DETAILS)
        return [Part("calculator", "At your own load", [*calculator(index, data)]), model]


SECTION = CostModelSection()
