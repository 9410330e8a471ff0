"""`costof clean`: list and remove databases that killed runs left on the user's own servers."""

from __future__ import annotations

import sys

import click

from costof.cli.options import server_options
from costof.programs.access import Access


@click.command()
@server_options
@click.option("--yes", is_flag=True, help="Remove the databases without confirmation.")
def clean(access: Access, yes: bool) -> None:
    """List databases that killed runs left on your own servers (the target), and remove them.

    It removes a database only if no run uses it. The database must also have costof's marker, or be empty and have a
    name of the form that costof uses. Without --yes, the command asks for confirmation on a terminal; elsewhere it only
    lists the databases.
    """
    from costof.programs.leftovers import open_leftovers

    with open_leftovers(access) as server:
        leftovers = [each for each in server.find() if access.database in (None, each.database)]
        for leftover in leftovers:
            marker = leftover.marker
            origin = f"left by run {marker.run} ({marker.maker})" if marker else "empty, left by an unknown run"
            line = f"{leftover.database}  {leftover.in_use or origin}"
            # The line contains text that was read from the user's server. Replace control characters, which could
            # manipulate the terminal.
            click.echo("".join(sign if sign.isprintable() else "?" for sign in line))
        idle = [leftover for leftover in leftovers if leftover.in_use is None]
        if not idle:
            click.echo(f"nothing to remove on {server.shown}")
            return
        what = "this database" if len(idle) == 1 else f"these {len(idle)} databases"
        if not yes and not sys.stdin.isatty():
            click.echo(f"nothing was removed; add --yes to remove {what} not used by any run")
        elif yes or click.confirm(f"Remove {what} not used by any run?", err=True):
            for leftover in idle:
                removed = server.remove(leftover)
                click.echo(f"{'removed' if removed else 'not removed, because it has changed:'} {leftover.database}")
