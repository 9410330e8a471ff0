"""`costof compare`: two runs side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click
from rich.console import Console

from costof.analysis.compare import Change, compare_runs
from costof.analysis.index import Index
from costof.analysis.limits import State, state_of, unusable
from costof.cli.gate import limit_option, status
from costof.document import format as fmt
from costof.document.blocks import Block, CallOut, Cell, Column, Document, Paragraph, Part, Row, Table
from costof.document.terminal import render_terminal
from costof.errors import CostofError, Problem
from costof.ledger.ledger import Ledger
from costof.model import Model
from costof.report import analyse
from costof.statistics.estimate import Verdict
from costof.study.limits import Limit, limits_of
from costof.study.plan import Plan

COLUMNS = [
    Column("with", "text"),
    Column("first"),
    Column("second"),
    Column("change"),
    Column("verdict", "verdict"),
]


class Judged(Model):
    """A limit on what an arm's cost changes by."""

    limit: Limit
    arm: str
    change: str
    state: State


class Comparison(Model):
    """What `--json` prints. The runs are named by their folders."""

    first: str
    second: str
    differences: list[str]
    changes: list[Change]
    limits: list[Judged]


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@limit_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def compare(first: Path, second: Path, limits: tuple[tuple[str, str], ...], as_json: bool) -> None:
    """Did a cost change between two runs of one study?

    With limits, in percent of what the arm took, it ends as `costof gate` does: 0, 4 where one is exceeded, 3 where
    some cannot be told.
    """
    before, after = Ledger.open(first), Ledger.open(second)
    asked = _relative(limits_of(before.plan().study, limits))
    index, other = Index(analyse(before)), Index(analyse(after))
    changes = compare_runs(index.core, other.core)
    found = Comparison(
        first=str(first),
        second=str(second),
        differences=_differences(before.plan(), after.plan()),
        changes=changes,
        limits=[*_judged(changes, asked, (index, other))],
    )
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        render_terminal(document(index, found), Console(highlight=False))
        for each in found.limits:
            subject = f"{index.metric_in_view(each.limit.metric)} {each.limit.said}, {index.label(each.arm)}"
            click.echo(f"{each.state.value}: {subject}: {each.change}")
    sys.exit(status(each.state for each in found.limits))


def document(index: Index, found: Comparison) -> Document:
    """Each effect that both runs have, relative to each run's control, and in words whether it changed."""
    warned: list[Block] = [CallOut("caution", text) for text in found.differences]
    if found.changes:
        shown: Block = Table(COLUMNS, [*_rows(index, found.changes)], "Costs, relative to each run's control")
    else:
        shown = Paragraph("The two runs have no effect in common.")
    subtitle = f"{index.core.study} · first {found.first}, second {found.second}"
    return Document("Did a cost change?", subtitle, index.core.started, [Part("changes", "", [*warned, shown])], "")


def verdict_words(change: Change) -> str:
    """What became of the cost."""
    margin = fmt.share(change.margin)
    return {
        Verdict.COSTS: "costs more",
        Verdict.SAVES: "costs less",
        Verdict.NO_DIFFERENCE: f"no change above {margin}",
        Verdict.NO_COST: f"costs no more than {margin} more",
        Verdict.UNRESOLVED: "no change seen",
    }[change.verdict]


def _rows(index: Index, changes: Sequence[Change]) -> Iterator[Row]:
    for name, group in groupby(changes, key=lambda change: change.metric):
        yield Row([Cell(index.metric_title(name))], "group")
        for change in group:
            figures = [Cell(fmt.relative(each).value) for each in (change.first, change.second)]
            words = Cell(verdict_words(change), verdict=change.verdict)
            yield Row([Cell(change.arm), *figures, Cell.of(fmt.relative(change.change)), words])


def _differences(first: Plan, second: Plan) -> list[str]:
    """Why costs may differ though nothing was changed that anybody asks about."""
    servers = [f"{each.target}" if each.target else "a lab of costof's own" for each in (first, second)]
    if servers[0] == servers[1]:
        return []
    return [f"The first run asked {servers[0]}, the second {servers[1]}: costs may differ by that alone."]


def _relative(limits: list[Limit]) -> list[Limit]:
    """Raises `BAD_LIMIT` for one that is no share: runs may have been made on machines of different speed."""
    for limit in limits:
        if not limit.relative:
            example = "a change of the cost: +10%, or -10% of a rate"
            raise CostofError(Problem.BAD_LIMIT, text=limit.said, metric=limit.metric, example=example)
    return limits


def _judged(changes: Sequence[Change], limits: Sequence[Limit], runs: Sequence[Index]) -> Iterator[Judged]:
    """Judge each limit on each arm; one on what the runs do not have in common cannot be told."""
    for limit in limits:
        of = [change for change in changes if change.metric == limit.metric]
        if not of:
            yield Judged(limit=limit, arm="every arm", change="not measured in both runs", state=State.OPEN)
        for each in of:
            shown = str(fmt.relative(each.change)).replace(fmt.NBSP, " ")
            state = state_of(each.change.through(lambda ratio: ratio - 1), limit)
            arms = [(index, arm) for index in runs if (arm := index.arm(each.arm)) is not None]
            reason = next((why for index, arm in arms if (why := unusable(index, each.metric, arm))), None)
            yield Judged(
                limit=limit, arm=each.arm, change=reason or shown, state=State.OPEN if reason is not None else state
            )
