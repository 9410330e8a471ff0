"""The top of the report: a few sentences that answer the question of the study, warnings and errors."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import HTML, MARKDOWN, Block, Bullets, CallOut, Details, Headlines, Paragraph
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import Core, Sentence
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.study.commands import COMMAND

NO_ANSWER = "This run measured too little to answer the question."
NOTHING_TO_COMPARE = "There are no figures of {arms}, so there is no cost to compare."
CHOSEN_END = (
    " Intervals of costs are {times} times as wide as after a planned end, so that they hold at whatever moment the "
    "run is stopped; --resume completes it."
)
MOST_DETAILS = 3
"""If the report has more detail sentences than this, terminals omit them, because the tables have the same figures.
Pages show the sentences after a click."""


class AnswerSection(Section[None, None]):
    name, title, order = "answer", "", 0

    def answer(self, index: Index, data: None) -> list[Sentence]:
        """Return the control's figures if it is the only arm, else []: other sections have sentences about costs."""
        arms = [arm for arm in index.core.arms if not arm.replicate]
        is_alone = len(arms) == 1 and arms[0].control
        lines = figures_alone(index.core, arms[0].name, arms[0].label) if is_alone else []
        return sentences("answer", [f"{line}." for line in lines])

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if index.core.partial:
            figures = f" The figures cover the {index.extent} that were measured." if index.core.rounds else ""
            yield CallOut("partial", f"{index.core.partial.rstrip('.')}.{figures}{chosen_end(index.core)}")
        details = [sentence.text for sentence in index.sentences("detail")]
        leading, lines = (
            [sentence.text for sentence in index.sentences(kind)] for kind in ("leading_warning", "answer")
        )
        yield Headlines([*leading, *(lines or [_no_answer(index)])], long=bool(details))
        if len(details) > MOST_DETAILS:
            yield Bullets(details, media=MARKDOWN)
            summary = f"All {len(details)} further main figures in words"
            yield Details(summary, [Bullets(details, tone="soft")], media=HTML)
        elif details:
            yield Bullets(details, tone="soft")
        for sentence in index.sentences("warning"):
            yield CallOut("warning", sentence.text)
        for arm in index.arms_in_error:
            yield CallOut("error", index.failure(arm))
        for sentence in index.sentences("next"):
            yield Paragraph(sentence.text, "note", media=HTML)


def chosen_end(core: Core) -> str:
    """Return a sentence that says how much wider the intervals are if the user may have ended the run early; else ''.

    A user who watches the figures may end the run at a favourable moment. The intervals must therefore be valid
    whenever a run ends. The sentence begins with a space, because it is appended to a text.
    """
    return CHOSEN_END.format(times=fmt.number(core.widening, 1)) if core.partial and core.widening > 1 else ""


def too_few_rounds(core: Core) -> str | None:
    """Return a message if the budget was too small for the rounds that a verdict needs; otherwise None.

    For a run that was interrupted, or that got a number of rounds by `--rounds`, return None: the user knows why.
    """
    if core.partial or core.starts or core.requested_rounds is not None or not 0 < core.rounds < FEWEST_ROUNDS:
        return None
    needed = fmt.roughly(core.measured_seconds / core.rounds * (FEWEST_ROUNDS + 1))
    return (
        f"Only {fmt.plural(core.rounds, 'round')} fitted into the budget; an answer needs at least {FEWEST_ROUNDS}. "
        f"Measure for {needed} or more (--budget), or measure fewer variants."
    )


def figures_alone(core: Core, arm: str, label: str) -> list[str]:
    """Return a text for each headline figure of the only arm of a run, such as 'a takes 12.3 ms [12.0, 12.6]'."""
    metrics = {metric.name: metric for metric in core.metrics if metric.headline}
    values = [value for value in core.values if value.arm == arm and value.metric in metrics]
    return [
        f"{label} takes {mean}" if metric.phase == COMMAND else f"{label}: '{metric.label}' is {mean}"
        for value in values
        for metric in [metrics[value.metric]]
        for mean in [fmt.absolute(value.mean, metric.unit)]
    ]


def _no_answer(index: Index) -> str:
    """Return why there is no answer: all controls failed, all other arms failed, or too little was measured."""
    arms = [arm for arm in index.core.arms if not arm.replicate]
    controls, protected = ([arm for arm in arms if arm.control == control] for control in (True, False))
    for group in (controls, protected):
        if group and all(arm.error for arm in group):
            return NOTHING_TO_COMPARE.format(arms=fmt.listed([*dict.fromkeys(arm.label for arm in group)]))
    return NO_ANSWER


SECTION = AnswerSection()
