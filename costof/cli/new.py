"""`costof new`: a study's file, to be filled in."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

import costof.study
from costof.errors import CostofError, ErrorText
from costof.instruments.commands import templates
from costof.instruments.commands.readers import reader, reader_names

#: Without a reader: the time of any command.
PLAIN = "command"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--from", "program", default=PLAIN, metavar="PROGRAM", help="Whose figures it reads, such as pgbench.")
def new(file: Path, program: str) -> None:
    """Write a study's FILE, which ends with .toml: a question of your own, in commands of your own."""
    if file.suffix != ".toml":
        raise CostofError(ErrorText.NOT_A_STUDY_FILE, path=file)
    text = _template(program)
    try:
        with file.open("x") as made:
            made.write(text)
    except FileExistsError:
        raise CostofError(ErrorText.FILE_EXISTS, path=file) from None
    except OSError as error:
        raise CostofError(ErrorText.FILE_NOT_WRITABLE, path=file, detail=error.strerror) from error
    click.echo(f"{file} is written. Fill it in, see what it would run, and run it:\n")
    click.echo(f"    costof run {file} --dry-run\n    costof run {file} --profile quick")


def _template(program: str) -> str:
    """Return the program's own template, or that of any program that a reader knows. Raises `UNKNOWN_READER`."""
    folder = resources.files(templates)
    own = folder / f"{program}.toml"
    schema = f"#:schema {Path(str(resources.files(costof.study) / 'schema.json')).as_uri()}\n"
    if own.is_file():
        return schema + own.read_text()
    if program not in [*reader_names(), PLAIN]:
        reader(program)
    known = reader(program)
    hint = f"# {known.program} is called with {known.hint}.\n" if known.hint else ""
    text = (folder / "any.toml").read_text()
    return schema + text.replace("PROGRAM", known.program).replace("READER", program).replace("# HINT\n", hint)
