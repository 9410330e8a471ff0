"""Failures: the share of operations that failed with each arm, compared with the control.

All other figures cover only operations that succeeded. If only the easy operations of an arm succeed, its latency is
misleading. Therefore the answer mentions failures.
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

HEAD = ["workload", "variant", "failed", "operations", "failed more than with the control"]
TITLE = "Failed operations"
METHOD = (
    "The interval of a difference between two shares of failed operations is computed by Newcombe's method (1998). "
    "Latencies and rates cover only operations that succeeded."
)
SUCCEEDED = "Latencies and rates cover only operations that succeeded."
#: If more than this share of operations fail, the report mentions it at its top, even if as many fail with the control.
LEAST_REPORTED = 0.001


class FailuresSection(Section[None, None]):
    name, title, order = "failures", "Failures", 15

    def answer(self, index: Index, data: None) -> list[Sentence]:
        texts = [
            _sentence(index, each)
            for each in sorted(index.core.failures, key=lambda each: each.share, reverse=True)
            if each.arm not in index.replicates and (each.fails_more or each.share > LEAST_REPORTED)
        ]
        # Name only missing figures of commands. The section about the load names the missing figures of overloaded
        # arms.
        texts += [
            missing_words(index, each)
            for each in index.core.missing
            if index.metrics[each.metric].headline and index.metrics[each.metric].view == COMMAND
        ]
        return sentences("warning", texts)

    def blocks(self, index: Index, data: None) -> Iterator[Block]:
        rows = [_row(index, each) for each in index.core.failures if each.arm not in index.replicates]
        if rows:
            yield Table.of(HEAD, rows, title=TITLE, texts=(0, 1))
            yield Paragraph(METHOD, "note", media=FILES)


def missing_words(index: Index, each: MissingFigure) -> str:
    """Return a sentence that says why a figure is missing in all slices or in some."""
    figure = f"'{index.metric_label(each.metric)}'"
    return f"{figure} {'cannot be compared' if each.entirely else 'is missing in some slices'}: {each.reason}."


def _sentence(index: Index, each: FailedOperations) -> str:
    workload = index.workload_label(each.workload)
    failed = f"{fmt.percent(each.share)} of operations failed with {index.label_at(each.arm)} ('{workload}')"
    if not any(value.arm == each.arm for value in index.core.values):
        return f"{failed}."
    if not each.fails_more or each.excess is None:
        return f"{failed}. {SUCCEEDED}"
    points = fmt.number(each.excess * 100, fmt.significant_decimals(each.excess * 100, 2))
    return f"{failed}, {points} percentage points more than with the control. {SUCCEEDED}"


def _row(index: Index, each: FailedOperations) -> list[str | Text]:
    more: str | Text = fmt.NONE
    if each.excess is not None and each.excess_low is not None and each.excess_high is not None:
        decimals = fmt.decimals_for(50 * (each.excess_high - each.excess_low))
        ends = fmt.interval(100 * each.excess_low, 100 * each.excess_high, decimals)
        more = Text(fmt.with_unit(fmt.number(100 * each.excess, decimals, signed=True), "%"), ends)
    return [
        index.workload_label(each.workload),
        index.label_at(each.arm),
        f"{each.failed:,} ({fmt.percent(each.share)})",
        f"{each.begun:,}",
        more,
    ]


SECTION = FailuresSection()
