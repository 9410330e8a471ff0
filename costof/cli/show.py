"""`costof show` and `costof report`: print the report of an earlier run, or write its report files again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from costof.cli.output import AnswerForm, answer_form_options
from costof.errors import CostofError, ErrorText
from costof.results.ledger import Ledger

if TYPE_CHECKING:
    from costof.report.result import Result

RESULT = "result.json"


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@answer_form_options
def show(folder: Path, answer_form: AnswerForm) -> None:
    """Print the verdict, key figures and checks of an earlier run."""
    from costof.report import analyse

    ledger = Ledger.open(folder)
    print_answer(analyse(ledger), ledger, answer_form)


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--pdf", is_flag=True, help="Also write report.pdf, with a browser: chromium, chrome or edge.")
def report(folder: Path, pdf: bool) -> None:
    """Write the reports of an earlier run again, from its records."""
    from costof.report.printed import find_browser, print_pdf

    ledger, browser = Ledger.open(folder), find_browser() if pdf else None
    write_answer(ledger)
    written = [RESULT, "report.html", "report.md"]
    if browser:
        print_pdf(browser, ledger.folder / "report.html", ledger.folder / "report.pdf")
        written.append("report.pdf")
    for name in written:
        click.echo(str(ledger.folder / name))


def write_answer(ledger: Ledger) -> Result:
    """Write `result.json` and the reports into the folder of the run."""
    from costof.report import analyse, write_reports

    result = analyse(ledger)
    try:
        write_reports(result, ledger.folder)
    except OSError as error:
        raise CostofError(ErrorText.OUTPUT_NOT_WRITABLE, path=ledger.folder, detail=error.strerror) from error
    return result


def print_answer(result: Result, ledger: Ledger, form: AnswerForm) -> None:
    from costof.report import render_terminal

    if form == "json":
        click.echo(result.model_dump_json(indent=2))
        return
    render_terminal(result, Console(highlight=False), ledger.folder, full=form == "full")
