"""`costof compare`: compare the costs of two runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
from rich.console import Console

from costof import format as fmt
from costof.cli.gate import limit_option, status
from costof.errors import CostofError, ErrorText
from costof.model import Model
from costof.report import analyse
from costof.report.blocks import Block, CallOut, Cell, Column, Document, Paragraph, Part, Row, Table
from costof.report.terminal import render_terminal
from costof.results.compare import Change, compare_runs
from costof.results.index import Index
from costof.results.ledger import Ledger
from costof.results.limits import State, limit_state, unusable
from costof.results.series import changed_arms, differences, incomparable, read_conditions
from costof.statistics.estimate import Verdict
from costof.study.options import Limit, parse_limits

COLUMNS = [Column("with", "text"), Column("first"), Column("second"), Column("change"), Column("verdict", "verdict")]


class JudgedLimit(Model):
    """A limit on how much an arm's cost may change between two runs, and whether the measured change is within it.

    An arm is a compared configuration, such as TLS 1.3.
    """

    limit: Limit
    arm: str
    change: str
    state: State


class Comparison(Model):
    """The output of `--json`.

    `first` and `second` are the runs' folders. `incomparable` says why the runs cannot be compared; it is None if they
    can. If the runs cannot be compared, no change has a verdict.
    """

    first: str
    second: str
    differences: list[str]
    incomparable: str | None
    changes: list[Change]
    limits: list[JudgedLimit]


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def compare(first: Path, second: Path, limits: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Compare the costs of two runs of one study.

    The output begins with the differences between the runs. If the study's question, the load or the levels of
    factors differ, the output shows the costs side by side without verdicts.

    With --limit, each limit is a percentage of the value that the arm (compared configuration) had in the first run.
    The exit status is then that of `costof gate`: 0 if all limits are kept, 4 if one is exceeded, 3 if some cannot be
    decided.
    """
    before, after = Ledger.open(first), Ledger.open(second)
    limits_to_check = parse_limits(before.plan().study, limits)
    for limit in limits_to_check:
        # The two runs may come from machines of different speed, so only percentages can be compared.
        if not limit.relative:
            example = "a relative change: +10%, or -10% for a rate"
            raise CostofError(ErrorText.BAD_LIMIT, text=limit.text, metric=limit.metric, example=example)
    index, other = Index(analyse(before)), Index(analyse(after))
    one, another = read_conditions(before), read_conditions(after)
    reason = incomparable(one, another)
    changes = compare_runs(index.core, other.core, {*one.arms} if reason else changed_arms(one, another))
    comparison = Comparison(
        first=str(first),
        second=str(second),
        differences=[*differences(one, another)],
        incomparable=reason,
        changes=changes,
        limits=[*_judge(changes, limits_to_check, (index, other), reason)],
    )
    if as_json:
        click.echo(comparison.model_dump_json(indent=2))
    else:
        render_terminal(document(index, comparison), Console(highlight=False))
        for each in comparison.limits:
            subject = f"{index.metric_in_view(each.limit.metric)} {each.limit.text}, {index.label(each.arm)}"
            click.echo(f"{each.state.value}: {subject}: {each.change}")
    sys.exit(status(each.state for each in comparison.limits))


def document(index: Index, comparison: Comparison) -> Document:
    warned: list[Block] = [CallOut("warning", text) for text in comparison.differences]
    if comparison.changes:
        columns = COLUMNS[: 3 if comparison.incomparable else None]
        shown: Block = Table(columns, [*_rows(index, comparison)], "Costs, relative to each run's control")
    else:
        shown = Paragraph("The two runs have no effect in common.")
    if comparison.incomparable:
        warned.append(Paragraph(f"Changes have no verdict, because {comparison.incomparable}."))
    subtitle = f"{index.core.study} · first {comparison.first}, second {comparison.second}"
    return Document("Did a cost change?", subtitle, index.core.started, [Part("changes", "", [*warned, shown])], "")


def verdict_words(change: Change) -> str:
    if change.verdict is None or change.margin is None:
        return "too uncertain" if min(change.first.low, change.second.low) <= 0 else "not the same arm"
    margin = fmt.share(change.margin)
    return {
        Verdict.COSTS: "costs more",
        Verdict.SAVES: "costs less",
        Verdict.NO_DIFFERENCE: f"no change above {margin}",
        Verdict.NO_COST: f"costs no more than {margin} more",
        Verdict.UNRESOLVED: "no change seen",
    }[change.verdict]


def _rows(index: Index, comparison: Comparison) -> Iterator[Row]:
    for name, group in groupby(comparison.changes, key=lambda change: change.metric):
        yield Row([Cell(index.metric_title(name))], "group")
        for change in group:
            figures = [Cell(fmt.relative(each).value) for each in (change.first, change.second)]
            changed = Cell.of(fmt.relative(change.change)) if change.change else Cell(fmt.NONE)
            verdict = [changed, Cell(verdict_words(change), verdict=change.verdict)]
            yield Row([Cell(change.arm), *figures, *([] if comparison.incomparable else verdict)])


def _judge(
    changes: Sequence[Change], limits: Sequence[Limit], runs: Sequence[Index], incomparable: str | None
) -> Iterator[JudgedLimit]:
    """Check each limit on each arm (compared configuration).

    A limit is undecided if the change is unknown, for example because only one of the runs has measured the metric.
    """
    for limit in limits:
        matching = [change for change in changes if change.metric == limit.metric]
        if not matching:
            yield JudgedLimit(limit=limit, arm="every arm", change="not measured in both runs", state=State.OPEN)
        for each in matching:
            if each.change is None:
                cause = incomparable or "its levels differ between the runs, or an interval reaches down to 0"
                yield JudgedLimit(limit=limit, arm=each.arm, change=cause, state=State.OPEN)
                continue
            shown = str(fmt.relative(each.change)).replace(fmt.NBSP, " ")
            state = limit_state(each.change.through(lambda ratio: ratio - 1), limit)
            arms = [(index, arm) for index in runs if (arm := index.arm(each.arm)) is not None]
            reason = next((why for index, arm in arms if (why := unusable(index, each.metric, arm))), None)
            unsure = reason is not None and state is State.WITHIN
            yield JudgedLimit(
                limit=limit,
                arm=each.arm,
                change=reason if unsure and reason else shown,
                state=State.OPEN if unsure else state,
            )
