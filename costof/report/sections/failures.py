"""Failures: how many operations of each arm had no answer, or a wrong one, and whether that is more than the control's.

The figures beside them are of the operations that succeeded. An arm that fails more answers fewer, and perhaps the
easier ones: whoever reads its latency alone is misled, so the answer says it.
"""

from __future__ import annotations

from collections.abc import Iterator

from costof import format as fmt
from costof.format import Text
from costof.report.blocks import FILES, Block, Paragraph, Table
from costof.report.sections import Section, sentences
from costof.results.index import Index
from costof.results.models import FailedOperations, MissingFigure, Sentence
from costof.study.commands import COMMAND

HEAD = ["workload", "arm", "failed", "of", "more than the control"]
TITLE = "Operations that failed"
METHOD = (
    "The difference of two shares has Newcombe's interval (1998). Latencies and rates are those of the operations that "
    "succeeded."
)
#: A share of failing operations that no answer may be silent about, whether the control has it or not.
WORTH_A_WORD = 0.001


class FailuresSection(Section[None, None]):
    name, title, order = "failures", "Failures", 15

    def answer(self, index: Index, data: None) -> list[Sentence]:
        texts = [
            _sentence(index, each)
            for each in index.core.failures
            if each.arm not in index.replicates and (each.fails_more or each.share > WORTH_A_WORD)
        ]
        # The answer already names loads that were too much; the question is answered by headlines alone.
        texts += [
            missing_words(index, each)
            for each in index.core.missing
            if index.metrics[each.metric].headline and index.metrics[each.metric].view == COMMAND
        ]
        return sentences("warning", texts)

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        rows = [_row(each) for each in index.core.failures if each.arm not in index.replicates]
        if rows:
            yield Table.of(HEAD, rows, title=TITLE, texts=(0, 1))
            yield Paragraph(METHOD, "note", media=FILES)


def missing_words(index: Index, each: MissingFigure) -> str:
    """Return why a figure cannot be compared, or in how many slices it is missing."""
    figure = f"'{index.metric_label(each.metric)}'"
    return f"{figure} {'cannot be compared' if each.entirely else 'is of fewer slices'}: {each.reason}."


def _sentence(index: Index, each: FailedOperations) -> str:
    failed = f"{fmt.percent(each.share)} of the operations of '{each.workload}' failed with {index.label_at(each.arm)}"
    if not any(value.arm == each.arm for value in index.core.values):
        return f"{failed}."
    if not each.fails_more or each.excess is None:
        return f"{failed}. Its other figures are of the operations that succeeded."
    points = fmt.number(each.excess * 100, fmt.significant_decimals(each.excess * 100, 2))
    return (
        f"{failed}, {points} percentage points more than with its control. Its other figures are of the operations "
        "that succeeded."
    )


def _row(each: FailedOperations) -> list[str | Text]:
    more: str | Text = fmt.NONE
    if each.excess is not None and each.excess_low is not None and each.excess_high is not None:
        decimals = fmt.decimals_for(50 * (each.excess_high - each.excess_low))
        ends = fmt.interval(100 * each.excess_low, 100 * each.excess_high, decimals)
        more = Text(fmt.with_unit(fmt.number(100 * each.excess, decimals, signed=True), "%"), ends)
    return [each.workload, each.arm, f"{each.failed:,} ({fmt.percent(each.share)})", f"{each.begun:,}", more]


SECTION = FailuresSection()
