"""Limits: whether what was measured keeps those that were set before, which an answer says first."""

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

HEAD = ["limit", "with", "measured", "the limit is"]
WORDS = {State.WITHIN: "kept", State.EXCEEDED: "exceeded", State.OPEN: "open: it cannot be told yet"}


class LimitsSection(Section[None, list[Limit]]):
    name, title, order = "limits", "Limits", 2
    data = list[Limit]

    def compute(self, run: Run, core: Core, spec: None) -> list[Limit] | None:
        return run.plan.limits or None

    def answer(self, index: Index, data: list[Limit]) -> list[Sentence]:
        """'The limit is kept.', 'Of 3 limits 1 is exceeded and 1 cannot be told yet.'"""
        states = [each.state for each in outcomes(index, data)]
        exceeded, unknown = states.count(State.EXCEEDED), states.count(State.OPEN)
        if not exceeded and not unknown:
            kept = "The limit is kept." if len(states) == 1 else f"All {len(states)} limits are kept."
            return sentences("answer", [kept])
        told = [f"{exceeded} {'is' if exceeded == 1 else 'are'} exceeded"] if exceeded else []
        told += [f"{unknown} cannot be told yet"] if unknown else []
        return sentences("answer", [f"Of {fmt.plural(len(states), 'limit')} {' and '.join(told)}."])

    def blocks(self, index: Index, data: list[Limit]) -> Iterator[Block]:
        rows = [
            [limit_words(index, each), index.label_at(each.arm.name), measured_words(each), WORDS[each.state]]
            for each in outcomes(index, data)
        ]
        yield Table.of(HEAD, rows, texts=(0, 1, 2, 3))


def limit_words(index: Index, outcome: Outcome) -> str:
    """ "'reused query' on the wire +10%"."""
    return f"{index.metric_in_view(outcome.limit.metric)} {outcome.limit.said}"


def measured_words(outcome: Outcome) -> str:
    effect, more = outcome.effect, outcome.needed_seconds
    if outcome.arm.error:
        return outcome.arm.error
    if outcome.reason:
        return outcome.reason
    if effect is None:
        return "it was not measured"
    if outcome.limit.relative and effect.ratio is None:
        return "the control has none, so there is no share of it"
    shown = fmt.relative(effect.ratio) if outcome.limit.relative and effect.ratio else None
    text = str(shown or fmt.absolute(effect.difference, effect.unit, signed=True)).replace(fmt.NBSP, " ")
    return f"{text}; measure for about {fmt.roughly(more)} more" if more else text


SECTION = LimitsSection()
