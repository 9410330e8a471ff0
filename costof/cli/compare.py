"""`costof compare`: two runs side by side."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from costof.analysis.compare import Change, compare_runs
from costof.analysis.limits import State, state_of
from costof.cli.gate import limit_option, status
from costof.document import format as fmt
from costof.errors import CostofError, Problem
from costof.ledger.ledger import Ledger
from costof.report import analyse
from costof.statistics.estimate import Verdict
from costof.study.limits import Limit, limits_of

HEAD = ("arm", "metric", "first", "second", "change", "")


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@limit_option
def compare(first: Path, second: Path, limits: tuple[tuple[str, str], ...]) -> None:
    """Did a cost change between two runs of one study?

    With limits, in percent of what the arm took, it ends as `costof gate` does: 0, 4 where one is exceeded, 3 where
    some cannot be told.
    """
    before, after = Ledger.open(first), Ledger.open(second)
    asked = limits_of(before.plan().study, limits)
    for limit in asked:
        if not limit.relative:
            example = "a change of the cost: +10%, or -10% of a rate"
            raise CostofError(Problem.BAD_LIMIT, text=limit.said, metric=limit.metric, example=example)
    changes = compare_runs(analyse(before), analyse(after))
    render_comparison(changes, Console(highlight=False))
    found = [*_judged(changes, asked)]
    for text, state in found:
        click.echo(f"{state.value}: {text}")
    sys.exit(status([state for _, state in found]))


def _judged(changes: Sequence[Change], limits: Sequence[Limit]) -> Iterator[tuple[str, State]]:
    """Each limit on each arm; one on what the runs have not in common cannot be told."""
    for limit in limits:
        of = [change for change in changes if change.metric == limit.metric]
        if not of:
            yield f"{limit.metric} {limit.said}: the two runs do not have it in common", State.OPEN
        for each in of:
            text = f"{limit.metric} {limit.said}, {each.arm}: {fmt.relative(each.change)}"
            yield text, state_of(each.change.through(lambda ratio: ratio - 1), limit)


def render_comparison(changes: list[Change], console: Console) -> None:
    """A row for each effect that both runs have, relative to each run's control, and in words whether it changed."""
    if not changes:
        console.print("The two runs have no effect in common.")
        return
    table = Table(box=None, pad_edge=False)
    for heading in HEAD:
        table.add_column(heading, justify="left" if heading in ("arm", "metric", "") else "right")
    for change in changes:
        first, second = (fmt.relative(each).value for each in (change.first, change.second))
        words = verdict_words(change)
        table.add_row(change.arm, change.metric, first, second, str(fmt.relative(change.change)), words)
    console.print(table)


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
