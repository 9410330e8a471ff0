"""`costof versus`: compare commands without a study file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costof.cli.answer_form import AnswerForm, answer_form_options
from costof.cli.gate import limit_option
from costof.cli.json_lines import check_json_lines, json_lines_option
from costof.cli.options import hosts_options
from costof.cli.run import run_study
from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.instruments.commands.settings import MOST_WARMUP_RUNS
from costof.study.commands import COMMAND
from costof.study.library import read_study
from costof.study.plan import Options

if TYPE_CHECKING:
    from costof.messages.plan import HostsSettings

#: Maximum length of a label that is made from a command.
LONGEST_LABEL = 48


@click.command()
@click.argument("commands", nargs=-1, metavar="COMMAND COMMAND…")
@click.option(
    "--name",
    "-n",
    "names",
    multiple=True,
    help="Name for a command; give it once for each command, in their order. Default: the command itself.",
)
@click.option(
    "--read", metavar="READER", help="Read the figures that this program prints, such as wrk. Default: measure time."
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that a command is measured at a time; also replaces {seconds} in a command.",
)
@click.option(
    "--warmup",
    type=click.IntRange(0, MOST_WARMUP_RUNS),
    default=0,
    metavar="N",
    help="Run a command N times unmeasured each time it follows another command.",
)
@click.option("--shell", is_flag=True, help="Run each command with `sh -c`.")
@click.option("--profile", default="quick", help="How much to measure: quick, or default (longer and more precise).")
@click.option("--budget", metavar="TIME", help="Maximum measuring time, such as 45s, 5m or 1h30m.")
@click.option(
    "--precision", metavar="PERCENT", help="Stop when headline costs are known to within this percentage, such as 2%."
)
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@limit_option
@hosts_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run. Default: runs/<time>-versus.")
@answer_form_options
@json_lines_option
@click.option("--seed", type=int, help="Seed for the random order of measurements.")
@click.option("--dry-run", is_flag=True, help="Print the plan and all commands, without running them.")
def versus(
    commands: tuple[str, ...],
    names: tuple[str, ...],
    read: str | None,
    seconds: float | None,
    warmup: int,
    shell: bool,
    hosts: HostsSettings | None,
    out: Path | None,
    answer_form: AnswerForm,
    json_lines: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Compare the costs of commands with the first COMMAND.

    The commands are measured in turns, round after round, so that disturbances of the machine affect all of them alike.
    """
    check_json_lines(json_lines, answer_form, dry_run)
    command_settings = {"run": "{command}", "shell": shell, "read": read, "seconds": seconds, "warmup": warmup}
    study = read_study("versus", _content(commands, names, command_settings))
    plan_options = Options(hosts=hosts.address if hosts else None, **options)
    sys.exit(run_study(study, plan_options, None, out, answer_form, dry_run, hosts, json_lines))


def _content(commands: Sequence[str], names: Sequence[str], settings: dict[str, Any]) -> dict[str, Any]:
    """Return a study that compares the commands. Raises `TOO_FEW_COMMANDS` and `COMMAND_NAMES_MISMATCH`."""
    if len(commands) < 2:
        raise CostofError(ErrorText.TOO_FEW_COMMANDS)
    if names and len(set(names)) != len(commands):
        raise CostofError(ErrorText.COMMAND_NAMES_MISMATCH, names=len(set(names)), commands=len(commands))
    # A level's name is part of an arm's name, so it cannot be the command itself; the labels show the commands.
    levels = list(names) or [chr(ord("a") + at) if at < 26 else f"command-{at + 1}" for at in range(len(commands))]
    labels = list(names) or _labels(commands)
    settings["once"] = any("{seconds}" in command for command in commands)
    return {
        "title": f"What does {listed(labels[1:])} cost against {labels[0]}?",
        "service": COMMAND,
        "control": {"command": levels[0]},
        "factors": {
            "command": {
                "levels": {
                    level: {"label": label.replace("{", "{{").replace("}", "}}"), "set": {"command": command}}
                    for level, label, command in zip(levels, labels, commands, strict=True)
                }
            }
        },
        "workloads": {"run": {"command": {name: value for name, value in settings.items() if value is not None}}},
    }


def _labels(commands: Sequence[str]) -> list[str]:
    """Return a label for each command, short enough for a table; different commands get different labels."""
    texts = [" ".join(command.split()) for command in commands]
    labels = [_shortened(text) for text in texts]
    if len(set(labels)) < len(set(texts)):
        # Leave out the first words that all commands share.
        words = [text.split() for text in texts]
        shared = len([*takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False))])
        labels = [_shortened(" ".join(["…", *each[shared:]])) for each in words]
    if len(set(labels)) < len(set(texts)):
        labels = [f"{number} {label}" for number, label in enumerate(labels, 1)]
    return labels


def _shortened(words: str) -> str:
    """Return at most `LONGEST_LABEL` characters of a command, in quotation marks.

    With the marks, a sentence that begins with the label does not capitalize the command.
    """
    return f"“{words if len(words) <= LONGEST_LABEL else words[: LONGEST_LABEL - 1] + '…'}”"
