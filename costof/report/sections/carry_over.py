"""Carry-over: warnings about metrics whose figures depend on which arm was measured just before."""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.report.blocks import FILES, Block, Paragraph
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import CarryOver, Sentence
from costof.study.commands import COMMAND

ORDER = (
    "The order of measurements matters: '{metric}' is {change} right after another {arm} was measured than right after "
    "the same {arm}. {balanced}"
)
BALANCED = "Each {arm} follows every {arm} equally often, so no {arm} is at a disadvantage, but intervals are wider"
WARM_UP = ". Use --warmup-each 1 to run a command once, unmeasured, after each change."
METHOD = (
    "The order matters if the figure of a slice (measured window) depends on which {arm} was measured just before. A "
    "regression compares slices right after another {arm} with slices right after the same one (Jones & Kenward 2014, "
    "chapter 5). The probability of a false warning is 1 % in a run."
)


class CarryOverSection(Section[None, None]):
    name, title, order = "carry_over", "Carry-over between slices", 95

    def answer(self, index: Index, data: None) -> list[Sentence]:
        return sentences("warning", [_sentence(index, each) for each in index.core.carry_over])

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        if index.core.carry_over:
            arm = _arm(index, index.core.carry_over[0].metric)
            yield Paragraph(METHOD.format(arm=arm), "note", media=FILES)


def _sentence(index: Index, each: CarryOver) -> str:
    metric, arm = index.metrics[each.metric], _arm(index, each.metric)
    more = each.ratio.value > 1
    word = ("longer" if more else "shorter") if metric.better == "lower" else ("higher" if more else "lower")
    balanced = BALANCED.format(arm=arm) + (WARM_UP if metric.view == COMMAND else ".")
    change = f"{fmt.percent(abs(each.ratio.value - 1))} {word}"
    return ORDER.format(metric=metric.label, change=change, arm=arm, balanced=balanced)


def _arm(index: Index, metric: str) -> str:
    return "command" if index.metrics[metric].view == COMMAND else "variant"


SECTION = CarryOverSection()
