"""`costof export`: convert a run to the formats of other programs."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from costof.cli.output import write_file
from costof.errors import CostofError, ErrorText
from costof.results.ledger import Ledger

FORMATS = ("csv", "parquet", "hdr", "openmetrics", "bencher")


@click.command()
@click.argument("folder", metavar="RUN", type=click.Path(path_type=Path))
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="Output format.")
@click.option("--out", type=click.Path(path_type=Path), help="Output file. Default: standard output.")
def export(folder: Path, form: str, out: Path | None) -> None:
    """Export a run for other programs.

    csv and parquet contain a row for each phase (timed part of an operation) of each slice (measured window). hdr
    contains the histograms as an HdrHistogram log. openmetrics and bencher (Bencher Metric Format) contain the answer's
    figures with their intervals.
    """
    content = _content(Ledger.open(folder), form)
    if out is None:
        sys.stdout.buffer.write(content)
        return
    write_file(out, content)


def _content(ledger: Ledger, form: str) -> bytes:
    from costof.report import analyse, export
    from costof.results.run import read_run

    binary, text = io.BytesIO(), io.StringIO(newline="")
    try:
        match form:
            case "csv":
                export.write_csv(read_run(ledger), text)
            case "hdr":
                export.write_hdr(read_run(ledger), text)
            case "parquet":
                export.write_parquet(read_run(ledger), binary)
            case "bencher":
                export.write_bencher(analyse(ledger), text)
            case _:
                export.write_openmetrics(analyse(ledger), binary)
    except ImportError as error:
        raise CostofError(ErrorText.NEEDS_EXPORT, form=form, library=error.name) from None
    return binary.getvalue() or text.getvalue().encode()
