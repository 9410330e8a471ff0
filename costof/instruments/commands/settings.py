"""What the runner is told of an arm: its commands, every word of them filled in."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Literal

from pydantic import Field

from costof.errors import CostofError, Problem, nearest
from costof.instruments.commands import STEP_SECONDS
from costof.instruments.commands.asked import (
    OUTPUT,
    RATE,
    SECONDS,
    CommandAsked,
    CommandLevel,
    FigureAsked,
    SecretSource,
)
from costof.instruments.commands.passwords import without_passwords
from costof.instruments.commands.shell import shell_sign, split
from costof.messages.plan import ServiceSettings
from costof.model import Model, Secret

#: '{name}', or '{{name}}' for those very signs.
_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")
#: Remedies for a sign of a shell: in the line of a workload, and in `before`, `after` and `proof`.
ADD_SHELL, CALL_A_SHELL = "add --shell (shell = true in a study's file)", "write sh -c '…'"
QUOTE, BEGIN_WITH_ENV = "put it in single quotes to pass it on as it is", "begin the command with env"


class Program(Model):
    """A workload's command on an arm."""

    argv: list[str]
    once: bool
    timeout_seconds: float
    warmup: int = 0
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
        program = self.programs[workload]
        return program.timeout_seconds * (1 + program.warmup) + self.proving_seconds

    def ends_itself(self, workload: str) -> bool:
        return self.programs[workload].once


def new_output() -> Path:
    """A name for a file of a run's own, in a folder that the runner makes and removes."""
    return Path(tempfile.gettempdir()) / f"costof-{token_hex(8)}" / "output"


def filled(
    asked: CommandLevel,
    programs: Mapping[str, tuple[CommandAsked, Mapping[str, float]]],
    secrets: dict[str, SecretSource],
    output: Path,
    levels_words: Collection[str] = (),
) -> CommandSettings:
    """Return the settings of an arm, each of whose programs has numbers that stand for words of its line.

    `levels_words` are those that any level of the study sets: a shell's braces around one of them are refused where the
    arm does not set it. Raises `UNKNOWN_WORD`, `NOT_A_COMMAND` and `SHELL_SIGN`.
    """
    words = _Words({OUTPUT: str(output)}, asked.set)
    return CommandSettings(
        programs={
            name: Program(
                argv=_program_argv(program, words.beside(numbers), levels_words),
                once=program.is_told_how_long,
                timeout_seconds=program.timeout_seconds,
                warmup=program.warmup,
                read=program.read,
                figures=program.figures,
                directory=program.directory,
            )
            for name, (program, numbers) in programs.items()
        },
        environment={name: words.put_into(value) for name, value in asked.environment.items()},
        before=[_argv(line, words) for line in asked.before],
        # What was done last is undone first.
        after=[_argv(line, words) for line in reversed(asked.after)],
        proofs=[Shown(argv=_argv(proof.run, words), matches=words.put_into(proof.matches)) for proof in asked.proof],
        secrets=secrets,
        output=output,
    )


def _program_argv(program: CommandAsked, words: _Words, levels_words: Collection[str]) -> list[str]:
    """Return the words of a workload's line. Raises as `filled`."""
    if not program.shell:
        return _argv(program.run, words, program.directory, ADD_SHELL)
    reserved = {SECONDS, RATE, OUTPUT, *words.of_levels, *levels_words}
    return ["sh", "-c", replace(words, reserved=reserved).put_into(program.run)]


def _argv(line: str, words: _Words, directory: Path | None = None, remedy: str = CALL_A_SHELL) -> list[str]:
    """Split a line into words once values are put in: one of them may be several words, or none."""
    text = words.put_into(line)
    try:
        argv = split(text)
    except ValueError as error:
        raise CostofError(Problem.NOT_A_COMMAND, text=without_passwords(text), detail=str(error)) from None
    if sign := shell_sign(text, directory):
        quoting = BEGIN_WITH_ENV if sign.endswith("=") else QUOTE
        shown = without_passwords(text)
        raise CostofError(Problem.SHELL_SIGN, text=shown, sign=sign, remedy=remedy, otherwise=quoting)
    return argv


@dataclass(frozen=True)
class _Words:
    """The values of '{name}' in a line: numbers, the output file, and what levels set, which may hold the former.

    In a shell's line only `reserved` names must have a value, since other braces are the shell's own.
    """

    given: Mapping[str, str]
    of_levels: Mapping[str, str]
    reserved: Collection[str] | None = None

    def beside(self, numbers: Mapping[str, float]) -> _Words:
        """Add the numbers of a workload's line: seconds and rate."""
        return replace(self, given={**self.given, **{name: f"{number:g}" for name, number in numbers.items()}})

    def put_into(self, text: str) -> str:
        """Replace each '{name}' by its value. Raises `UNKNOWN_WORD`."""
        return _PLACE.sub(lambda match: self._word(text, match), text)

    def _word(self, text: str, match: re.Match[str]) -> str:
        name = match[2]
        if name is None:
            return f"{{{match[1]}}}"
        if name in self.of_levels:
            known = {SECONDS: "", RATE: "", **self.given}
            return replace(self, given=known, of_levels={}).put_into(self.of_levels[name])
        if name in self.given:
            return self.given[name]
        if self.reserved is not None and name not in self.reserved:
            return match[0]
        near = nearest(name, [*self.given, *self.of_levels])
        raise CostofError(Problem.UNKNOWN_WORD, text=without_passwords(text), word=name, nearest=near)
