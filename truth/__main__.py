"""`make truth`: carry the campaign out, or go on with it, and write its page. `--quick` is a small one."""

from __future__ import annotations

import sys

import click

from truth import page, relay
from truth.campaign import ROOT, carry_out, judge_again
from truth.design import FULL, QUICK
from truth.ledgers import Ledgers
from truth.rows import Rows

#: What is committed of a full campaign.
DOCS = ROOT / "docs"


@click.command()
@click.option("--quick", is_flag=True, help="Ten minutes, into runs/truth-quick.")
@click.option("--again", is_flag=True, help="Measure nothing: judge the ledgers that are kept by today's analysis.")
@click.option("--page", "page_alone", is_flag=True, help="Measure nothing: write the page of what is there.")
def main(quick: bool, again: bool, page_alone: bool) -> None:
    """Trials that are there already are not repeated, nor those of another machine that are committed."""
    sizes = QUICK if quick else FULL
    folder = ROOT / "runs" / ("truth-quick" if quick else "truth")
    rows, ledgers, failed = Rows(folder, None if quick else DOCS / page.FOLDER), Ledgers(folder), 0
    try:
        if again:
            failed = judge_again(rows, ledgers)
        elif not page_alone:
            relay.build()
            failed = carry_out(sizes, rows, ledgers)
    except KeyboardInterrupt:
        click.echo("ended; the next start goes on from here")
    page.write(rows, folder if quick else DOCS, sizes)
    if failed:
        sys.exit(f"{failed} trials failed; the next start tries them again")


if __name__ == "__main__":
    main()
