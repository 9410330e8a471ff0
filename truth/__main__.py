"""`make truth`: runs or continues the campaign, and writes its page. `--quick` runs a small campaign."""

from __future__ import annotations

import sys

import click

from truth import page
from truth.campaign import ROOT, judge_again, run_campaign
from truth.design import FULL, QUICK
from truth.ledgers import Ledgers
from truth.rows import Rows

#: The folder in which the page and the data of a full campaign are committed.
DOCS = ROOT / "docs"


@click.command()
@click.option("--quick", is_flag=True, help="Run a campaign of ten minutes in the folder runs/truth-quick.")
@click.option("--again", is_flag=True, help="Measure nothing; analyse all kept runs again with the current code.")
@click.option("--page", "page_only", is_flag=True, help="Measure nothing; write the page from the existing data.")
def main(quick: bool, again: bool, page_only: bool) -> None:
    """Run the missing trials and write the page.

    A trial is missing if neither the campaign's folder nor docs has its data.
    """
    sizes = QUICK if quick else FULL
    folder = ROOT / "runs" / ("truth-quick" if quick else "truth")
    rows, ledgers, failed = Rows(folder, None if quick else DOCS / page.FOLDER), Ledgers(folder), 0
    try:
        if again:
            failed = judge_again(rows, ledgers)
        elif not page_only:
            failed = run_campaign(sizes, rows, ledgers)
    except KeyboardInterrupt:
        click.echo("interrupted; run the command again to continue")
    page.write(rows, folder if quick else DOCS, sizes)
    if failed:
        sys.exit(f"{failed} trials failed; run the command again to retry them")


if __name__ == "__main__":
    main()
