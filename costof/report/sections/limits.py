"""Limits: whether the measured effects stay within the user's limits (`--limit`), at the top of the report."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import Block, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.limits import Outcome, State, outcomes
from costof.results.models import Core, Sentence
from costof.results.run import Run
from costof.study.options import Limit

HEAD = ["limit", "variant", "measured", "result"]
WORDS = {State.WITHIN: "kept", State.EXCEEDED: "exceeded", State.OPEN: "undecided"}


class LimitsSection(Section[None, list[Limit]]):
    name, title, order = "limits", "Limits", 2
    data = list[Limit]

    def compute(self, run: Run, core: Core, spec: None) -> list[Limit] | None:
        return run.plan.limits or None

    def answer(self, index: Index, data: list[Limit]) -> list[Sentence]:
        """Return one sentence, such as 'The limit is kept.' or '1 of 3 limits is exceeded, 1 is undecided.'"""
        states = [each.state for each in outcomes(index, data)]
        exceeded, undecided = states.count(State.EXCEEDED), states.count(State.OPEN)
        if not exceeded and not undecided:
            kept = "The limit is kept." if len(states) == 1 else f"All {len(states)} limits are kept."
            return [*sentences("answer", [kept]), *sentences("limits", [kept])]
        counts = ((exceeded, "exceeded"), (undecided, "undecided"))
        (first, words), *rest = [(count, f"{'is' if count == 1 else 'are'} {word}") for count, word in counts if count]
        text = f"{first} of {fmt.plural(len(states), 'limit')} {words}"
        texts = [", ".join([text, *(f"{count} {words}" for count, words in rest)]) + "."]
        return [*sentences("answer", texts), *sentences("limits", texts)]

    def brief(self, index: Index, data: list[Limit]) -> Iterator[Block]:
        return self.blocks(index, data)

    def blocks(self, index: Index, data: list[Limit]) -> Iterator[Block]:
        rows = [
            [limit_words(index, each), index.label_at(each.arm.name), measured_words(each), WORDS[each.state]]
            for each in outcomes(index, data)
        ]
        yield Table.of(HEAD, rows, texts=(0, 1, 2, 3))


def limit_words(index: Index, outcome: Outcome) -> str:
    """Return a limit in words, such as "'query on open connection' on the wire +10%"."""
    return f"{index.metric_in_view(outcome.limit.metric)} {outcome.limit.text}"


def measured_words(outcome: Outcome) -> str:
    """Return the measured change, or why there is none. For an undecided limit, add how much longer to measure."""
    effect, more = outcome.effect, outcome.needed_seconds
    if outcome.arm.error:
        return outcome.arm.error
    if outcome.reason:
        return outcome.reason
    if effect is None:
        return "not measured"
    if outcome.limit.relative and effect.ratio is None:
        return "the control's figure is 0, so there is no relative change"
    shown = fmt.relative(effect.ratio) if outcome.limit.relative and effect.ratio else None
    text = str(shown or fmt.absolute(effect.difference, effect.unit, signed=True)).replace(fmt.NBSP, " ")
    return f"{text}; measure for about {fmt.roughly(more)} more" if more else text


SECTION = LimitsSection()
