"""`costof ycsb`: YCSB's own command line, carried out by the engine."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import get_args

import click

from costof.cli.ycsb.client import Tally, carry_out, results, status_line
from costof.cli.ycsb.databases import BINDINGS, Database, open_database
from costof.cli.ycsb.job import Phase, Properties, check_names, job_of, read_properties, unused
from costof.errors import EXIT_ANSWERED, EXIT_FAILED, EXIT_PARTIAL, CostofError, ErrorText, WarningText
from costof.messages.answers import SliceAnswer
from costof.messages.process import engine

DEFAULT_FIELDS = 10


@click.command()
@click.argument("phase", type=click.Choice(get_args(Phase)))
@click.argument("database", type=click.Choice(BINDINGS))
@click.option("-P", "files", multiple=True, metavar="FILE", help="Property file; workloada to workloadf are built in.")
@click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="A property; wins over files.")
@click.option("-threads", metavar="N", help="Operations in flight; 1 without.")
@click.option("-target", metavar="N", help="Operations a second, of all threads; as fast as possible without.")
@click.option("-s", "status", is_flag=True, help="Status lines on standard error.")
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
    **of_java: tuple[str, ...],
) -> None:
    """YCSB's load or run phase on your own DATABASE, with YCSB's options and output.

    Like YCSB it writes into the table that you name. Unlike YCSB, `load` refuses a table that holds records, unless
    insertstart says where to go on; nothing is ever emptied or dropped. Put passwords into a -P file: everybody on the
    machine can read a command line.
    """
    options = {name: text for name, text in (("threadcount", threads), ("target", target)) if text is not None}
    properties = read_properties(files, assignments, options)
    check_names(database, properties)
    job = job_of(phase, properties)
    asked = open_database(database, properties, job.table)
    _tell_unused(properties, asked, [f"-{name.replace('_', '-')}" for name, given in of_java.items() if given])
    holds = asked.holds_records(int(job.ycsb.get("field_count", DEFAULT_FIELDS)))
    # A load must not mix its records into the user's, and a run needs what a load has left.
    if job.phase == "load" and holds and not job.grows:
        raise CostofError(ErrorText.YCSB_TABLE_OCCUPIED, table=job.table, target=asked.shown)
    if job.reads and not holds:
        raise CostofError(ErrorText.YCSB_TABLE_EMPTY, table=job.table, target=asked.shown)
    endpoint = asked.endpoint()
    if endpoint.transport.verify == "none":
        _tell(WarningText.NOT_VERIFIED.text(arms=asked.shown, how="as its URL asks"))

    def show(tally: Tally, answer: SliceAnswer) -> None:
        click.echo(status_line(job, tally, answer, datetime.now().astimezone()), err=True)

    tally = carry_out(job, endpoint, engine(), show if status else None)
    for line in results(tally):
        click.echo(line)
    for name, count in tally.failed.items():
        _tell(WarningText.YCSB_FAILED.text(count=count, name=name, detail=tally.first_failures[name]))
    if tally.operations == 0:
        sys.exit(EXIT_FAILED)
    sys.exit(EXIT_PARTIAL if tally.failed or tally.interrupted else EXIT_ANSWERED)


def _tell_unused(properties: Properties, database: Database, of_java: list[str]) -> None:
    """Name unused options without values: a value may be a secret."""
    idle, unknown = unused(properties, database.PROPERTIES)
    idle += of_java + [f"{name} (of the URL)" for name in database.unused_options()]
    if idle:
        _tell(WarningText.YCSB_WITHOUT_EFFECT.text(names=", ".join(idle)))
    if unknown:
        _tell(WarningText.YCSB_UNKNOWN.text(names=", ".join(unknown)))


def _tell(text: str) -> None:
    click.echo(f"costof: {text}", err=True)
