"""`costof clean`: list what killed runs have left on a user's own servers, and remove it."""

from __future__ import annotations

import sys

import click

from costof.cli.options import server_options
from costof.programs.access import Access


@click.command()
@server_options
@click.option("--yes", is_flag=True, help="Remove them without asking.")
def clean(access: Access, yes: bool) -> None:
    """List databases that killed runs have left on a target, and remove them.

    It removes only what carries costof's marker, and empty databases with a name that costof made, where no run uses
    them. Without --yes it asks first, and where nobody can be asked it only lists.
    """
    from costof.programs.leftovers import open_leftovers

    with open_leftovers(access) as server:
        found = [each for each in server.find() if access.database in (None, each.database)]
        for leftover in found:
            marker = leftover.marker
            left = f"left by run {marker.run} ({marker.maker})" if marker else "empty, left by some run"
            line = f"{leftover.database}  {leftover.in_use or left}"
            # What stands in a marker is somebody's data, and this a terminal.
            click.echo("".join(sign if sign.isprintable() else "?" for sign in line))
        idle = [leftover for leftover in found if leftover.in_use is None]
        if not idle:
            click.echo(f"nothing to remove on {server.shown}")
            return
        what = "this database" if len(idle) == 1 else f"these {len(idle)} databases"
        if not yes and not sys.stdin.isatty():
            click.echo(f"nothing was removed; say --yes to remove {what} that no run uses")
        elif yes or click.confirm(f"Remove {what} that no run uses?", err=True):
            for leftover in idle:
                removed = server.remove(leftover)
                click.echo(f"{'removed' if removed else 'left alone, it has changed:'} {leftover.database}")
