"""What to do next: what would resolve the headline effects that are unresolved. A page says it at its head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costof import format as fmt
from costof.report.blocks import TEXT, Block, Bullets
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import LONGEST_WAIT, Effect, Sentence


class NextSection(Section[None, None]):
    name, title, order = "next", "Next", 150

    def answer(self, index: Index, data: None) -> list[Sentence]:
        metrics = {metric.name for metric in index.headline_metrics}
        headline = [
            each
            for each in index.core.effects
            if each.metric in metrics and index.effect_to_report(each.metric, each.arm)
        ]
        waiting = [effect for effect in headline if effect.needed_seconds]
        noisy = [effect for effect in headline if effect.too_noisy]
        texts = []
        if waiting:
            longest = fmt.roughly(max(effect.needed_seconds or 0.0 for effect in waiting))
            option = (
                "--restarts" if index.core.starts else "--budget" if index.core.requested_rounds is None else "--rounds"
            )
            texts.append(f"To resolve {_names(index, waiting)}, measure for about {longest} more ({option}).")
        return sentences("next", [*texts, *([_less_noise(index, noisy)] if noisy else [])])

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("next")]:
            yield Bullets(lines, label="Next", media=TEXT)


def _less_noise(index: Index, noisy: Sequence[Effect]) -> str:
    longer = " (--profile default)" if index.core.profile == "quick" else ""
    spent = "the budget" if index.core.requested_rounds is None else "as many rounds"
    why = [effect.unresolved for effect in noisy if effect.unresolved]
    spreads = [each.deviation_between_rounds for each in why if each.deviation_between_rounds is not None]
    smallest = [each.smallest_detectable for each in why if each.smallest_detectable is not None]
    because = unlikely = ""
    if spreads and smallest:
        because = (
            f", because {index.unit}s differ by {fmt.percent(max(spreads))} (standard deviation): the smallest effect "
            f"that this run could have seen is {fmt.percent(max(smallest))}"
        )
    # The bad ends of the intervals.
    costs = [
        max(0.0, effect.ratio.high - 1 if index.metrics[effect.metric].better == "lower" else 1 / effect.ratio.low - 1)
        for effect in noisy
        if effect.ratio is not None and effect.ratio.low > 0
    ]
    if costs:
        unlikely = f" A cost of more than {fmt.with_unit(fmt.number(100 * max(costs), 1), '%')} is unlikely."
    return (
        f"Even {LONGEST_WAIT} times {spent} would not resolve {_names(index, noisy)} here{because}.{unlikely} Measure "
        f"on a machine with nothing else running, or take longer slices{longer}. If a cost of that size does not "
        "matter to you, raise the margin in the study's file."
    )


def _names(index: Index, effects: Sequence[Effect]) -> str:
    return fmt.listed(list(dict.fromkeys(index.metric_in_view(effect.metric) for effect in effects)))


SECTION = NextSection()
