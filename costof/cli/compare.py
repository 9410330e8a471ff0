"""`costof compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from costof.analysis.compare import Change, compare_runs
from costof.document import format as fmt
from costof.ledger.ledger import Ledger
from costof.report import analyse
from costof.statistics.estimate import Verdict

HEAD = ("arm", "metric", "first", "second", "change", "")


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
def compare(first: Path, second: Path) -> None:
    """Did a cost change between two runs of one study?"""
    changes = compare_runs(analyse(Ledger.open(first)), analyse(Ledger.open(second)))
    render_comparison(changes, Console(highlight=False))


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
