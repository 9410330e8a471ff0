"""`costof ycsb`: YCSB's command line, executed by costof's own load generator, the engine."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import get_args

import click

from costof.cli.ycsb.client import Tally, execute, results, status_line
from costof.cli.ycsb.databases import BINDINGS, Database, open_database
from costof.cli.ycsb.job import Phase, Properties, check_names, make_job, read_properties, unused
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, CostofError, ErrorText, WarningText
from costof.messages.answers import SliceAnswer
from costof.messages.process import engine

DEFAULT_FIELDS = 10


@click.command()
@click.argument("phase", type=click.Choice(get_args(Phase)))
@click.argument("database", type=click.Choice(BINDINGS))
@click.option("-P", "files", multiple=True, metavar="FILE", help="Property file; workloada to workloadf are built in.")
@click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="A property; overrides files.")
@click.option("-threads", metavar="N", help="Number of simultaneous operations. Default: 1.")
@click.option("-target", metavar="N", help="Operations a second of all threads together. Default: as fast as possible.")
@click.option("-s", "status", is_flag=True, help="Print status lines to standard error.")
@click.option("-jvm-args", "jvm_args", multiple=True, hidden=True)
@click.option("-cp", "classpath", multiple=True, hidden=True)
@click.option("-db", "binding", multiple=True, hidden=True)
@click.option("-l", "label", multiple=True, hidden=True)
def ycsb(
    phase: Phase,
    database: str,
    files: tuple[str, ...],
    assignments: tuple[str, ...],
    threads: str | None,
    target: str | None,
    status: bool,
    **java_options: tuple[str, ...],
) -> None:
    """Run YCSB's load or run phase on your own DATABASE, with YCSB's options and output.

    Like YCSB it writes into the table that you name. Unlike YCSB, `load` refuses a table with records unless you set
    insertstart. Nothing is ever emptied or dropped. Put passwords into a -P file: everyone on the machine can read a
    command line.
    """
    options = {name: text for name, text in (("threadcount", threads), ("target", target)) if text is not None}
    properties = read_properties(files, assignments, options)
    check_names(database, properties)
    job = make_job(phase, properties)
    opened = open_database(database, properties, job.table)
    _warn_of_unused(properties, opened, [f"-{name.replace('_', '-')}" for name, value in java_options.items() if value])
    has_records = opened.holds_records(int(job.ycsb.get("field_count", DEFAULT_FIELDS)))
    # The phase `load` must not mix its records with existing records. The phase `run` needs the records of a load.
    if job.phase == "load" and has_records and not job.grows:
        raise CostofError(ErrorText.YCSB_TABLE_OCCUPIED, table=job.table, target=opened.shown)
    if job.reads and not has_records:
        raise CostofError(ErrorText.YCSB_TABLE_EMPTY, table=job.table, target=opened.shown)
    endpoint = opened.endpoint()
    if endpoint.transport.verify == "none":
        _warn(WarningText.NOT_VERIFIED.text(arms=opened.shown, how="as its URL demands"))

    def show(tally: Tally, answer: SliceAnswer) -> None:
        click.echo(status_line(job, tally, answer, datetime.now().astimezone()), err=True)

    tally = execute(job, endpoint, engine(), show if status else None)
    for line in results(tally):
        click.echo(line)
    for name, count in tally.failed.items():
        _warn(WarningText.YCSB_FAILED.text(count=count, name=name, detail=tally.first_failures[name]))
    if tally.operations == 0:
        sys.exit(EXIT_FAILED)
    sys.exit(EXIT_PARTIAL if tally.failed or tally.interrupted else EXIT_ANSWERED)


def _warn_of_unused(properties: Properties, database: Database, java_options: list[str]) -> None:
    """Print the names of unused options, without their values, which may be secrets."""
    idle, unknown = unused(properties, database.PROPERTIES)
    idle += java_options + [f"{name} (of the URL)" for name in database.unused_options()]
    if idle:
        _warn(WarningText.YCSB_WITHOUT_EFFECT.text(names=", ".join(idle)))
    if unknown:
        _warn(WarningText.YCSB_UNKNOWN.text(names=", ".join(unknown)))


def _warn(text: str) -> None:
    click.echo(f"costof: {text}", err=True)
