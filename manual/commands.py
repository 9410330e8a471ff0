"""All commands of `costof`, as pages of a site and as manual pages."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click

from costof import __version__
from costof.cli.main import COMMANDS, cli

HEAD = """# Commands

Made from the commands themselves: what `costof COMMAND --help` prints. What a run's exit status says, and more of each
command's use, is in [Asking](../asking.md).
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
        *(f"| `{_cell(option)}` | {_cell(words)} |" for option, words in records),
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_manual_pages(folder: Path) -> None:
    """`costof.1`, and one for each command, as a system's `man` reads them."""
    from click_man.core import write_man_pages

    folder.mkdir(parents=True, exist_ok=True)
    for context in contexts():
        assert context.info_name is not None
        # As `costof --help` says it: click-man would cut the first sentence of the docstring off at 45 characters.
        context.command.short_help = COMMANDS[context.info_name][1]
        cli.commands[context.info_name] = context.command
    cli.short_help = "what will this protection cost my service?"
    write_man_pages("costof", cli, version=__version__, target_dir=str(folder))
