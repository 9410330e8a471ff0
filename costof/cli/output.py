"""The output of commands: options for its form, and files that the user names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from costof.errors import CostofError, ErrorText
from costof.files import write_whole

AnswerForm = Literal["short", "full", "json"]
Command = TypeVar("Command", bound=Callable[..., Any])


def answer_form_options(command: Command) -> Command:
    """Add --full and --json, which choose what is printed about a run. The command receives them as `answer_form`."""
    forms = (("full", "Print all figures instead of the short answer."), ("json", "Print result.json instead."))
    for form, text in reversed(forms):
        option = click.option(f"--{form}", "answer_form", flag_value=form, default="short", help=text, type=str)
        command = option(command)
    return command


def json_lines_option(command: Command) -> Command:
    text = "Print progress and answer as events, one JSON object a line."
    return click.option("--json-lines", is_flag=True, help=text)(command)


def check_json_lines(json_lines: bool, answer_form: AnswerForm, dry_run: bool) -> None:
    """Raise `UsageError` if --json-lines is combined with an option that prints something else."""
    for option, is_set in ((f"--{answer_form}", answer_form != "short"), ("--dry-run", dry_run)):
        if json_lines and is_set:
            raise click.UsageError(f"--json-lines and {option} print different things; remove one")


def write_file(path: Path, content: str | bytes) -> None:
    """Write a file that the user has named. Raises `FILE_NOT_WRITABLE`.

    A regular file is written completely or not at all. Pipes and devices are written directly.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        else:
            write_whole(path, content)
    except OSError as error:
        raise CostofError(ErrorText.FILE_NOT_WRITABLE, path=path, detail=error.strerror) from error
