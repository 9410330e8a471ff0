"""`costof versus`: commands against each other, without a study's file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costof.cli.gate import limit_option
from costof.cli.options import hosts_options
from costof.cli.run import ask
from costof.errors import CostofError, ErrorText
from costof.format import listed
from costof.instruments.commands.settings import MOST_WARMUP_RUNS
from costof.study.commands import COMMAND
from costof.study.library import read_study
from costof.study.plan import Options

if TYPE_CHECKING:
    from costof.messages.plan import HostsSettings

#: Of a label that is a command.
LONGEST_LABEL = 48


@click.command()
@click.argument("commands", nargs=-1, metavar="COMMAND COMMAND…")
@click.option("--name", "-n", "names", multiple=True, help="Of each command, in their order; else itself.")
@click.option("--read", metavar="READER", help="What reads their figures, such as wrk; else their time is measured.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Of a slice; '{seconds}' stands for it.")
@click.option(
    "--warmup",
    type=click.IntRange(0, MOST_WARMUP_RUNS),
    default=0,
    metavar="N",
    help="Run a command N times, unmeasured, after another command was measured.",
)
@click.option("--shell", is_flag=True, help="Have `sh -c` read each command.")
@click.option("--profile", default="quick", help="quick or default.")
@click.option("--budget", metavar="TIME", help="Longest measuring time, such as 45s, 5m or 1h30m.")
@click.option("--precision", metavar="PERCENT", help="Stop once headline costs are known to within this, such as 2%.")
@click.option("--rounds", metavar="N", help="Measure exactly N rounds (2 or more), however long they take.")
@limit_option
@hosts_options
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the run; else runs/<time>-versus.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of the table.")
@click.option("--seed", type=int, help="Seed of the order of the slices.")
@click.option("--dry-run", is_flag=True, help="Print the plan and every command that would run.")
def versus(
    commands: tuple[str, ...],
    names: tuple[str, ...],
    read: str | None,
    seconds: float | None,
    warmup: int,
    shell: bool,
    hosts: HostsSettings | None,
    out: Path | None,
    as_json: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """What do the others cost against the first COMMAND?

    In turns, round after round, so that whatever disturbs the machine disturbs them alike.
    """
    asked = {"run": "{command}", "shell": shell, "read": read, "seconds": seconds, "warmup": warmup}
    study = read_study("versus", _content(commands, names, asked))
    given = Options(hosts=hosts.address if hosts else None, **options)
    sys.exit(ask(study, given, None, out, as_json, dry_run, hosts))


def _content(commands: Sequence[str], names: Sequence[str], asked: dict[str, Any]) -> dict[str, Any]:
    """Return a study's content that compares them. Raises `TOO_FEW_COMMANDS` and `COMMAND_NAMES_MISMATCH`."""
    if len(commands) < 2:
        raise CostofError(ErrorText.TOO_FEW_COMMANDS)
    if names and len(set(names)) != len(commands):
        raise CostofError(ErrorText.COMMAND_NAMES_MISMATCH, names=len(set(names)), commands=len(commands))
    # Each a name that an arm can have, and its command as the label.
    levels = list(names) or [chr(ord("a") + at) if at < 26 else f"command-{at + 1}" for at in range(len(commands))]
    labels = list(names) or _labels(commands)
    asked["once"] = any("{seconds}" in command for command in commands)
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
        "workloads": {"run": {"command": {name: value for name, value in asked.items() if value is not None}}},
    }


def _labels(commands: Sequence[str]) -> list[str]:
    """Return a label for each command, short enough for a table; those of different commands differ."""
    texts = [" ".join(command.split()) for command in commands]
    labels = [_shortened(text) for text in texts]
    if len(set(labels)) < len(set(texts)):
        # They differ behind what they share.
        words = [text.split() for text in texts]
        shared = len([*takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False))])
        labels = [_shortened(" ".join(["…", *each[shared:]])) for each in words]
    if len(set(labels)) < len(set(texts)):
        labels = [f"{number} {label}" for number, label in enumerate(labels, 1)]
    return labels


def _shortened(words: str) -> str:
    """Return at most `LONGEST_LABEL` characters in quotation marks, which no sentence begins in a capital letter."""
    return f"“{words if len(words) <= LONGEST_LABEL else words[: LONGEST_LABEL - 1] + '…'}”"
