"""`costof completion`: what a shell reads to complete costof's commands, options and studies."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what SHELL reads to complete costof's commands, options and studies.

    For bash into ~/.local/share/bash-completion/completions/costof, for zsh into a file _costof in a folder of
    $fpath, for fish into ~/.config/fish/completions/costof.fish.
    """
    made_by = get_completion_class(shell)
    assert made_by is not None
    click.echo(made_by(context.find_root().command, {}, "costof", "_COSTOF_COMPLETE").source())
