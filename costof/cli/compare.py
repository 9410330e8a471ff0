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


@click.command()
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
def compare(first: Path, second: Path) -> None:
    """Did a cost change between two runs of one study?"""
    changes = compare_runs(analyse(Ledger.open(first)), analyse(Ledger.open(second)))
    render_comparison(changes, Console(highlight=False))


def render_comparison(changes: list[Change], console: Console) -> None:
    """A row for each effect that both runs have, and in words whether it changed."""
    if not changes:
        console.print("The two runs have no effect in common.")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("arm", "metric", "first", "second", "change", ""):
        table.add_column(heading, justify="left" if heading in ("arm", "metric", "") else "right")
    for change in changes:
        table.add_row(
            change.arm,
            change.metric,
            fmt.absolute(change.first, change.unit, signed=True).value,
            fmt.absolute(change.second, change.unit, signed=True).value,
            str(fmt.absolute(change.change, change.unit, signed=True)),
            "changed" if change.changed else "no change seen",
        )
    console.print(table)
