"""`make truth`: runs or continues the campaign, and writes its page. `--quick` runs a small campaign."""

from __future__ import annotations

import sys

import click

from truth import page, plan
from truth.campaign import ROOT, check_commit, check_machine, judge_again, run_campaign
from truth.design import FULL, QUICK
from truth.ledgers import Ledgers
from truth.rows import Rows

#: The folder in which the page and the data of a full campaign are committed.
DOCS = ROOT / "docs"


@click.command()
@click.option("--quick", is_flag=True, help="Run a campaign of ten minutes in the folder runs/truth-quick.")
@click.option("--again", is_flag=True, help="Measure nothing; analyse all kept runs again with the current code.")
@click.option("--plan", "plan_only", is_flag=True, help="Measure nothing; write the plan, docs/truth-plan.md.")
@click.option("--page", "page_only", is_flag=True, help="Measure nothing; write the page from the existing data.")
def main(quick: bool, again: bool, plan_only: bool, page_only: bool) -> None:
    """Run the missing trials and write the page.

    A trial is missing if its data is neither in the campaign's folder nor in docs.
    """
    if plan_only:
        (DOCS / plan.PAGE).write_text(plan.text())
        return
    sizes = QUICK if quick else FULL
    folder = ROOT / "runs" / ("truth-quick" if quick else "truth")
    rows, ledgers, failed = Rows(folder, None if quick else DOCS / page.FOLDER), Ledgers(folder), 0
    if not (quick or again or page_only):
        check_commit(rows)
        check_machine()
    try:
        if again:
            failed = judge_again(rows, ledgers)
        elif not page_only:
            failed = run_campaign(sizes, rows, ledgers)
    except KeyboardInterrupt:
        click.echo("interrupted; run the command again to continue")
    finally:
        if not page.write(rows, folder if quick else DOCS, sizes):
            click.echo("the page was not written: some true costs have no runs yet")
    if failed:
        sys.exit(f"{failed} trials failed; run the command again to retry them")


if __name__ == "__main__":
    main()
