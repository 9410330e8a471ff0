"""Forms in which commands print an answer: short, with all figures, or as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import click

AnswerForm = Literal["short", "full", "json"]


def answer_form_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the form of the answer, as the parameter `answer_form`."""
    forms = (("full", "Print all figures instead of the short answer."), ("json", "Print result.json instead."))
    for form, text in reversed(forms):
        option = click.option(f"--{form}", "answer_form", flag_value=form, default="short", help=text, type=str)
        command = option(command)
    return command
