"""`costof new`: write a template of a study file."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

import costof.study
from costof.errors import CostofError, ErrorText
from costof.instruments.commands import templates
from costof.instruments.commands.readers import reader, reader_names

#: The template for programs whose output costof does not read. It measures the time of commands.
PLAIN = "command"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "program",
    default=PLAIN,
    metavar="PROGRAM",
    help="Program that prints the figures to compare, such as pgbench.",
)
def new(file: Path, program: str) -> None:
    """Write FILE, a template for a study of your own commands. The file's name must end with .toml."""
    if file.suffix != ".toml":
        raise CostofError(ErrorText.NOT_A_STUDY_FILE, path=file)
    text = _template(program)
    try:
        with file.open("x") as new_file:
            new_file.write(text)
    except FileExistsError:
        raise CostofError(ErrorText.FILE_EXISTS, path=file) from None
    except OSError as error:
        raise CostofError(ErrorText.FILE_NOT_WRITABLE, path=file, detail=error.strerror) from error
    click.echo(f"Wrote {file}. Fill it in, check its plan, and run it:\n")
    click.echo(f"    costof run {file} --dry-run\n    costof run {file} --profile quick")


def _template(program: str) -> str:
    """Return the program's template.

    A program without a template gets the general one, which names the reader (the parser) of the program's output.
    Raises `UNKNOWN_READER`.
    """
    folder = resources.files(templates)
    template = folder / f"{program}.toml"
    schema = f"#:schema {Path(str(resources.files(costof.study) / 'schema.json')).as_uri()}\n"
    if template.is_file():
        return schema + template.read_text()
    if program not in [*reader_names(), PLAIN]:
        reader(program)
    known = reader(program)
    hint = f"# {known.program} is called with {known.hint}.\n" if known.hint else ""
    text = (folder / "any.toml").read_text()
    return schema + text.replace("PROGRAM", known.program).replace("READER", program).replace("# HINT\n", hint)
