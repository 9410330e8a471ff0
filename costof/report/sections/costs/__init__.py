"""What each arm costs: the sentences that answer the question, and the tables of all effects."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import FILES, HTML, TERMINAL, Block, Paragraph
from costof.report.section import Section
from costof.report.sections.costs.sentences import statements
from costof.report.sections.costs.tables import is_side_effect, table, views
from costof.results.index import Index
from costof.results.models import Sentence

NO_ROUNDS = "No round was completed, so there is no figure to show."
SIDE_EFFECTS = (
    "A side effect is a difference in a phase that TLS itself does not change. TCP and the greeting come before it: a "
    "server that still closes the connection before takes longer to accept the next one. What the hello saves, another "
    "phase has taken over: a server that forks for each connection does so in the TLS request, where there is one."
)
NO_EFFECTS = "No arm could be compared with the control, so there is no cost to show."


class CostsSection(Section[None, None]):
    name, title, order = "costs", "What it costs", 20

    def answer(self, index: Index, data: None) -> list[Sentence]:
        return statements(index)

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        found = views(index)
        if not found:
            yield Paragraph(NO_EFFECTS if index.core.rounds else NO_ROUNDS, "empty")
        for view in found:
            yield table(index, view, FILES)
            yield table(index, view, TERMINAL)
        if found:
            published = index.core.published
            legend = " ".join(
                [
                    f"Brackets hold the 95 % interval over {index.unit}s.",
                    f"Relative figures are means of the {index.unit}s' ratios.",
                    *([published.cited] if published else []),
                ]
            )
            other = "farther" if index.core.distances else "other"
            more = f" All metrics of the {other} settings are in the full report." if index.many_settings else ""
            yield Paragraph(legend + (" Never mixed into our estimates." if published else ""), "note", media=FILES)
            yield Paragraph(legend + more, "note", media=TERMINAL)
        if any(
            effect and is_side_effect(effect, metric, arm) for view in found for metric, arm, effect in view.effects
        ):
            yield Paragraph(SIDE_EFFECTS, "note")
        if lines := index.noise_lines():
            yield Paragraph(" ".join(lines), label="Noise floor.", media=HTML)
        if index.core.errors:
            yield Paragraph(_errors(index), label="Errors.", media=HTML)


def _errors(index: Index) -> str:
    """'4 operations failed: 3 timeout and 1 reset.'"""
    classes: dict[str, int] = {}
    for error in index.core.errors:
        classes[error.error_class] = classes.get(error.error_class, 0) + error.count
    parts = [f"{number:,} {name}" for name, number in classes.items()]
    return f"{fmt.plural(sum(classes.values()), 'operation')} failed: {fmt.listed(parts)}."


SECTION = CostsSection()
