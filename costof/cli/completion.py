"""`costof completion`: shell completion of commands, options and studies."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script with which SHELL completes costof's commands, options and studies.

    Save the script as ~/.local/share/bash-completion/completions/costof (bash), as _costof in a folder of $fpath (zsh),
    or as ~/.config/fish/completions/costof.fish (fish).
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None
    click.echo(completion_class(context.find_root().command, {}, "costof", "_COSTOF_COMPLETE").source())
