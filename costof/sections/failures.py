"""Failures: how many operations of each arm had no answer, or a wrong one, and whether that is more than the control's.

The figures beside them are of the operations that succeeded. An arm that fails more answers fewer, and perhaps the
easier ones: whoever reads its latency alone is misled, so the answer says it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from costof.analysis.index import Index
from costof.analysis.models import Core, Sentence
from costof.analysis.run import Run
from costof.analysis.section import Section, sentences
from costof.document import format as fmt
from costof.document.blocks import FILES, Block, Paragraph, Table
from costof.document.format import Text
from costof.model import Finite, Model
from costof.statistics.proportions import newcombe
from costof.study.arms import PlannedArm

HEAD = ["workload", "arm", "failed", "of", "more than the control"]
TITLE = "Operations that failed"
METHOD = (
    "The difference of two shares has Newcombe's interval (1998). Latencies and rates are those of the operations that "
    "succeeded."
)
#: A share of failing operations that no answer may be silent about, whether the control has it or not.
WORTH_A_WORD = 0.001


class Failing(Model):
    """Operations of a workload on an arm; shares are of all that were begun."""

    workload: str
    arm: str
    failed: int
    of: int
    more: Finite | None = Field(default=None, description="Share that failed, less the control's. None for a control.")
    more_low: Finite | None = Field(default=None, description="Its 95 % interval.")
    more_high: Finite | None = None

    @property
    def share(self) -> float:
        return self.failed / self.of

    @property
    def fails_more(self) -> bool:
        """Than its control."""
        return self.more_low is not None and self.more_low > 0


class Failures(Model):
    """Of every workload in which any operation failed: all its arms."""

    found: list[Failing]


class FailuresSection(Section[None, Failures]):
    name, title, order = "failures", "Failures", 15
    data = Failures

    def compute(self, run: Run, core: Core, spec: None) -> Failures | None:
        found = []
        for workload in run.plan.study.workloads:
            counts = {arm.name: _counted(run, workload, arm) for arm in run.plan.arms}
            if any(failed for failed, _ in counts.values()):
                found += [_failing(workload, arm, counts) for arm in run.plan.arms if counts[arm.name][1]]
        return Failures(found=found) if found else None

    def answer(self, index: Index, data: Failures) -> list[Sentence]:
        worth = [each for each in data.found if each.arm not in index.twins and _is_worth_a_word(each)]
        return sentences("caution", [_sentence(index, each) for each in worth])

    def blocks(self, index: Index, data: Failures) -> Iterator[Block]:
        rows = [_row(each) for each in data.found if each.arm not in index.twins]
        yield Table.of(HEAD, rows, title=TITLE, texts=(0, 1))
        yield Paragraph(METHOD, "note", media=FILES)


def _counted(run: Run, workload: str, arm: PlannedArm) -> tuple[int, int]:
    """Operations that failed, and all that were begun; slices that prove another arm are nobody's."""
    answers = [piece.answer for piece in run.of(workload, arm.name)]
    failed = sum(error.count for answer in answers for error in answer.errors)
    return failed, failed + sum(answer.operations for answer in answers)


def _failing(workload: str, arm: PlannedArm, counts: dict[str, tuple[int, int]]) -> Failing:
    failed, of = counts[arm.name]
    control = counts.get(arm.baseline or "", (0, 0))
    if not control[1]:
        return Failing(workload=workload, arm=arm.name, failed=failed, of=of)
    more, low, high = newcombe(control, (failed, of))
    return Failing(workload=workload, arm=arm.name, failed=failed, of=of, more=more, more_low=low, more_high=high)


def _is_worth_a_word(each: Failing) -> bool:
    return each.fails_more or each.share > WORTH_A_WORD


def _sentence(index: Index, each: Failing) -> str:
    failed = f"{fmt.percent(each.share)} of the operations of '{each.workload}' failed with {index.label_at(each.arm)}"
    if not each.fails_more or each.more is None:
        return f"{failed}. Its other figures are of the operations that succeeded."
    points = fmt.number(each.more * 100, fmt.significant_decimals(each.more * 100, 2))
    return (
        f"{failed}, {points} percentage points more than with its control. Its other figures are of the operations "
        "that succeeded."
    )


def _row(each: Failing) -> list[str | Text]:
    more: str | Text = fmt.NONE
    if each.more is not None and each.more_low is not None and each.more_high is not None:
        decimals = fmt.decimals_for(50 * (each.more_high - each.more_low))
        ends = fmt.interval(100 * each.more_low, 100 * each.more_high, decimals)
        more = Text(fmt.with_unit(fmt.number(100 * each.more, decimals, signed=True), "%"), ends)
    return [each.workload, each.arm, f"{each.failed:,} ({fmt.percent(each.share)})", f"{each.of:,}", more]


SECTION = FailuresSection()
