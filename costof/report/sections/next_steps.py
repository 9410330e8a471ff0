"""Next steps: advice on headline effects without a verdict. The HTML page shows this advice at its top."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costof import format as fmt
from costof.report.blocks import TEXT, Block, Bullets
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import LONGEST_WAIT, Effect, Sentence


class NextSection(Section[None, None]):
    name, title, order = "next", "Next steps", 150

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
            texts.append(f"Measure for about {longest} more ({option}) to resolve {_names(index, waiting)}.")
        return sentences("next", [*texts, *([_less_noise(index, noisy)] if noisy else [])])

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if lines := [sentence.text for sentence in index.sentences("next")]:
            yield Bullets(lines, label="Next", media=TEXT)


def _less_noise(index: Index, noisy: Sequence[Effect]) -> str:
    longer = " (--profile default)" if index.core.profile == "quick" else ""
    more = f"{LONGEST_WAIT} times " + ("the budget" if index.core.requested_rounds is None else "as many rounds")
    why = [effect.unresolved for effect in noisy if effect.unresolved]
    spreads = [each.deviation_between_rounds for each in why if each.deviation_between_rounds is not None]
    smallest = [each.smallest_detectable for each in why if each.smallest_detectable is not None]
    reason = unlikely = ""
    if spreads and smallest:
        reason = (
            f" The smallest effect that this run could detect is {fmt.percent(max(smallest))}, because {index.unit}s "
            f"differ by {fmt.percent(max(spreads))} (standard deviation)."
        )
    # For each effect, the largest cost that its interval still includes.
    costs = [
        max(0.0, effect.ratio.high - 1 if index.metrics[effect.metric].better == "lower" else 1 / effect.ratio.low - 1)
        for effect in noisy
        if effect.ratio is not None and effect.ratio.low > 0
    ]
    size = "an unresolved cost"
    if costs:
        largest = fmt.with_unit(fmt.number(100 * max(costs), 1), "%")
        unlikely, size = f" A cost above {largest} is unlikely.", f"a cost of up to {largest}"
    margins = fmt.listed([*dict.fromkeys(fmt.share(index.metrics[effect.metric].margin) for effect in noisy)])
    return (
        f"{_names(index, noisy)} would stay unresolved even with {more}.{reason}{unlikely} Measure on an "
        f"idle machine, or use longer slices{longer}. If {size} does not matter to you, raise 'margin' in "
        f"the study's file (now {margins})."
    )


def _names(index: Index, effects: Sequence[Effect]) -> str:
    return fmt.listed(list(dict.fromkeys(index.metric_in_view(effect.metric) for effect in effects)))


SECTION = NextSection()
