"""The option `--json-lines` of commands that measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from costof.cli.answer_form import AnswerForm

Command = TypeVar("Command", bound=Callable[..., Any])


def json_lines_option(command: Command) -> Command:
    text = "Print progress and answer as events, one JSON object a line."
    return click.option("--json-lines", is_flag=True, help=text)(command)


def check_json_lines(json_lines: bool, answer_form: AnswerForm, dry_run: bool) -> None:
    """Raise `UsageError` if --json-lines is combined with an option that prints something else."""
    for option, is_set in ((f"--{answer_form}", answer_form != "short"), ("--dry-run", dry_run)):
        if json_lines and is_set:
            raise click.UsageError(f"--json-lines and {option} print different things; remove one")
