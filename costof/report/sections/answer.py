"""The head of the report: the answer in a few sentences, and what must not be overlooked."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import HTML, MARKDOWN, Block, Bullets, CallOut, Details, Headlines, Paragraph
from costof.report.sections import Section
from costof.results.index import Index
from costof.results.models import Core
from costof.statistics.intervals import FEWEST_ROUNDS

NO_ANSWER = "This run measured too little to answer the question."
NOTHING_TO_COMPARE = (
    "No cost can be told: there are no figures of {arms}, and without {it} there is nothing to compare."
)
MOST_DETAILS = 3
"""More are left to the tables on a console, which say the same, and folded on a page."""


class AnswerSection(Section[None, None]):
    name, title, order = "answer", "", 0

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if index.core.partial:
            figures = f" The figures are those of the {index.extent} measured." if index.core.rounds else ""
            yield CallOut("partial", f"{index.core.partial.rstrip('.')}.{figures}")
        details = [sentence.text for sentence in index.sentences("detail")]
        lines = [sentence.text for sentence in index.sentences("answer")] or [_no_answer(index)]
        yield Headlines(lines, long=bool(details))
        if len(details) > MOST_DETAILS:
            yield Bullets(details, media=MARKDOWN)
            summary = f"All {len(details)} further headline figures in words"
            yield Details(summary, [Bullets(details, tone="soft")], media=HTML)
        elif details:
            yield Bullets(details, tone="soft")
        for sentence in index.sentences("warning"):
            yield CallOut("warning", sentence.text)
        for arm in index.arms_in_error:
            yield CallOut("error", index.failure(arm))
        for sentence in index.sentences("next"):
            yield Paragraph(sentence.text, "note", media=HTML)


def too_few_rounds(core: Core) -> str | None:
    """What a run says whose budget was spent before it had as many rounds as a verdict takes; None of any other. Of one
    that was interrupted, or asked for so few rounds, whoever did so knows it."""
    if core.partial or core.starts or core.requested_rounds is not None or not 0 < core.rounds < FEWEST_ROUNDS:
        return None
    needed = fmt.roughly(core.measured_seconds / core.rounds * (FEWEST_ROUNDS + 1))
    return (
        f"{fmt.plural(core.rounds, 'round')} fitted into this budget, and an answer takes {FEWEST_ROUNDS} at least: "
        f"measure for {needed} or more (--budget), or ask for fewer arms (--set)."
    )


def _no_answer(index: Index) -> str:
    """Whether there was too little, or nothing to compare: without a control, or without any other arm."""
    arms = [arm for arm in index.core.arms if not arm.replicate]
    controls, others = ([arm for arm in arms if arm.control == control] for control in (True, False))
    for these in (controls, others):
        if these and all(arm.error for arm in these):
            labels = fmt.listed([*dict.fromkeys(arm.label for arm in these)])
            return NOTHING_TO_COMPARE.format(arms=labels, it="it" if len({arm.label for arm in these}) == 1 else "them")
    return NO_ANSWER


SECTION = AnswerSection()
