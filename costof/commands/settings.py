"""What the runner is told of an arm: its commands, every word of them filled in."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Literal

from pydantic import Field

from costof.commands import STEP_SECONDS
from costof.commands.asked import OUTPUT, RATE, SECONDS, CommandAsked, CommandLevel, FigureAsked, SecretSource
from costof.errors import CostofError, Problem, nearest
from costof.ipc.plan import ServiceSettings
from costof.model import Model, Secret

#: '{name}', or '{{name}}' for those very signs.
_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")


class Program(Model):
    """A workload's command on an arm."""

    argv: list[str]
    once: bool
    timeout_seconds: float
    read: str | None = None
    figures: dict[str, FigureAsked] = {}
    directory: Path | None = None


class Shown(Model):
    """A proof: the command, and what its output must match as a whole."""

    argv: list[str]
    matches: str


class CommandSettings(ServiceSettings):
    """An arm's commands. `output` is where the file is that stands for '{output}'."""

    protocol: Literal["command"] = "command"
    addresses: list[str] = []
    programs: dict[str, Program]
    environment: dict[str, str] = {}
    before: list[list[str]] = []
    after: list[list[str]] = []
    proofs: list[Shown] = []
    secrets: dict[str, SecretSource] = {}
    hidden: dict[str, Secret] = Field(default={}, description="Variables of its environment that nobody else may read.")
    output: Path

    @property
    def proving_seconds(self) -> float:
        return len(self.proofs) * STEP_SECONDS

    def longest_seconds(self, workload: str) -> float:
        return self.programs[workload].timeout_seconds + self.proving_seconds


def new_output() -> Path:
    """A name for a file of a run's own, in a folder that the runner makes and removes."""
    return Path(tempfile.gettempdir()) / f"costof-{token_hex(8)}" / "output"


def filled(
    asked: CommandLevel,
    programs: Mapping[str, tuple[CommandAsked, Mapping[str, float]]],
    secrets: dict[str, SecretSource],
    output: Path,
) -> CommandSettings:
    """Settings of an arm, each of whose programs has numbers that stand for words of its line.

    Raises `UNKNOWN_WORD` and `NOT_A_COMMAND`.
    """
    words = _words(asked, output, {})
    return CommandSettings(
        programs={
            name: Program(
                argv=_argv(program.run, _words(asked, output, numbers), program.shell),
                once=program.is_told_how_long,
                timeout_seconds=program.timeout_seconds,
                read=program.read,
                figures=program.figures,
                directory=program.directory,
            )
            for name, (program, numbers) in programs.items()
        },
        environment={name: _filled(value, words) for name, value in asked.environment.items()},
        before=[_argv(line, words) for line in asked.before],
        # What was done last is undone first.
        after=[_argv(line, words) for line in reversed(asked.after)],
        proofs=[Shown(argv=_argv(proof.run, words), matches=_filled(proof.matches, words)) for proof in asked.proof],
        secrets=secrets,
        output=output,
    )


def _words(asked: CommandLevel, output: Path, numbers: Mapping[str, float]) -> dict[str, str]:
    """What stands for each word: `numbers` in a program's line alone, and in what levels set for it."""
    given = {OUTPUT: str(output), **{name: f"{number:g}" for name, number in numbers.items()}}
    known = {SECONDS: "", RATE: "", **given}
    return {**given, **{name: _filled(value, known) for name, value in asked.set.items()}}


def _argv(line: str, words: Mapping[str, str], shell: bool = False) -> list[str]:
    """A value may be several words, or none: it is put in before the line is split."""
    text = _filled(line, words)
    if shell:
        return ["sh", "-c", text]
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise CostofError(Problem.NOT_A_COMMAND, text=line, detail=str(error)) from None
    if not argv:
        raise CostofError(Problem.NOT_A_COMMAND, text=line, detail="it has no words")
    return argv


def _filled(text: str, words: Mapping[str, str]) -> str:
    def word(match: re.Match[str]) -> str:
        if match[1] is not None:
            return f"{{{match[1]}}}"
        if match[2] not in words:
            near = nearest(match[2], list(words))
            raise CostofError(Problem.UNKNOWN_WORD, text=text, word=match[2], nearest=near)
        return words[match[2]]

    return _PLACE.sub(word, text)
