"""All commands of `costof`, as a page of the site and as manual pages."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from costof import __version__
from costof.cli.main import COMMANDS, cli

HEAD = """# Commands

Generated from the commands: the texts of `costof COMMAND --help`. [Asking](../asking.md) explains exit statuses and the
use of each command.
"""


def contexts() -> Iterator[click.Context]:
    whole = click.Context(cli, info_name="costof")
    for name in cli.list_commands(whole):
        command = cli.get_command(whole, name)
        assert command is not None
        yield click.Context(command, info_name=name, parent=whole)


def page() -> str:
    return HEAD + "".join(_section(context) for context in contexts())


def _section(context: click.Context) -> str:
    lines = [f"\n## costof {context.info_name}\n", cleandoc(context.command.help or ""), "\n```text"]
    lines += [f"{context.command_path} {' '.join(context.command.collect_usage_pieces(context))}", "```"]
    options = [each for each in context.command.get_params(context) if isinstance(each, click.Option)]
    records = [record for each in options if (record := each.get_help_record(context))]
    lines += [
        "\n| option | |",
        "| --- | --- |",
        *(f"| `{_cell(option)}` | {_cell(text)} |" for option, text in records),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_manual_pages(folder: Path) -> None:
    """Write `costof.1` and a manual page for each command, for `man`."""
    from click_man.core import write_man_pages

    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts():
        assert context.info_name is not None
        # By default, click-man cuts the first sentence of the docstring at 45 characters, so set the short help.
        context.command.short_help = COMMANDS[context.info_name][1]
        cli.commands[context.info_name] = context.command
    cli.short_help = "measure what a protection costs a service"
    write_man_pages("costof", cli, version=__version__, target_dir=str(folder))
