"""What the runner is told of an arm: its commands, every word of them filled in."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from costof.errors import CostofError, ErrorText, nearest
from costof.instruments.commands.passwords import without_passwords
from costof.instruments.commands.process import STEP_SECONDS
from costof.instruments.commands.readers import Figure, reader
from costof.instruments.commands.shell import shell_sign, split
from costof.messages.plan import ServiceSettings
from costof.model import Model, Secret

#: '{name}', or '{{name}}' for those very signs.
_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")
#: Remedies for a sign of a shell: in the line of a workload, and in `before`, `after` and `proof`.
ADD_SHELL, CALL_A_SHELL = "add --shell (shell = true in a study's file)", "write sh -c '…'"
QUOTE, BEGIN_WITH_ENV = "put it in single quotes to pass it on as it is", "begin the command with env"


#: In a command line, the seconds of a slice, the rate of a load, and a file of the run's own that a program may write
#: its report to.
SECONDS, RATE, OUTPUT = "seconds", "rate", "output"
LONGEST_SECONDS = 600.0
MOST_WARMUP_RUNS = 100


class Proof(Model):
    """What shows that a level is in force: a command that ends with status 0 and writes what `matches` as a whole."""

    run: str
    matches: str = Field(description="A regular expression for all that it writes, blanks around it left out.")

    @field_validator("matches")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"'{text}' is no regular expression: {error}") from None
        return text


class CommandLevel(Model):
    """What a level changes about commands. Where several levels say something, each adds to it."""

    set: dict[str, str] = Field(default={}, description="What stands in command lines for '{name}'.")
    environment: dict[str, str] = Field(default={}, description="Environment variables of every command.")
    before: list[str] = Field(default=[], description="Commands that bring it into force, before each of its slices.")
    after: list[str] = Field(default=[], description="Commands that undo it, after each, however the slice ended.")
    proof: list[Proof] = Field(default=[], description="Asked before and after every slice.")

    @field_validator("before", "after", mode="before", json_schema_input_type=str | list[str])
    @classmethod
    def _lines(cls, of: Any) -> Any:
        return of if isinstance(of, list) else [of]

    @field_validator("proof", mode="before", json_schema_input_type=Proof | list[Proof])
    @classmethod
    def _proofs(cls, of: Any) -> Any:
        return of if isinstance(of, list) else [of]


class FigureSource(Model):
    """A figure of a program that no reader knows: by a JSON pointer (RFC 6901), or an expression's first group."""

    json_pointer: str | None = Field(default=None, alias="json")
    regex: str | None = None
    label: str = ""
    unit: str
    better: Literal["lower", "higher"] = "lower"
    headline: bool = True

    @model_validator(mode="after")
    def _is_found_one_way(self) -> Self:
        if (self.json_pointer is None) == (self.regex is None):
            raise ValueError("a figure is found by `json` or by `regex`")
        if self.json_pointer and not self.json_pointer.startswith("/"):
            raise ValueError(f"'{self.json_pointer}' is no JSON pointer; it begins with '/'")
        try:
            groups = re.compile(self.regex or "()").groups
        except re.error as error:
            raise ValueError(f"'{self.regex}' is no regular expression: {error}") from None
        if groups < 1:
            raise ValueError(f"'{self.regex}' has no group; put the number in parentheses")
        return self

    def as_figure(self, name: str) -> Figure:
        return Figure(self.label or name, self.unit, self.better, self.headline)


class CommandProgram(Model):
    """The program that a workload runs."""

    run: str = Field(description="Its command line, without a shell. '{name}' is what an arm's levels set.")
    shell: bool = Field(default=False, description="Whether `sh -c` reads the line.")
    read: str | None = Field(default=None, description="A reader by its name: the figures that the program prints.")
    figures: dict[str, FigureSource] = Field(default={}, description="Figures of its output beside the reader's.")
    seconds: float | None = Field(default=None, gt=0, description="Of a slice: the program runs again until then.")
    once: bool = Field(default=False, description="Whether a slice is one run, as where its line holds '{seconds}'.")
    warmup: int = Field(
        default=0,
        ge=0,
        le=MOST_WARMUP_RUNS,
        description="Unmeasured runs before a slice that follows another command's, which may have left caches cold.",
    )
    timeout_seconds: float = Field(default=LONGEST_SECONDS, gt=0, description="Then it is ended, and has failed.")
    directory: Path | None = Field(default=None, description="Where it runs; else where costof was called.")

    @field_validator("read")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None:
            reader(name)
        return name

    @property
    def takes_duration(self) -> bool:
        """Whether it runs once in a slice, for the slice's seconds, so that its time is no figure of it."""
        return self.once or f"{{{SECONDS}}}" in self.run

    @property
    def takes_rate(self) -> bool:
        """Whether it is told how often a second it is to ask."""
        return f"{{{RATE}}}" in self.run

    @property
    def all_figures(self) -> dict[str, Figure]:
        """What it may tell: the reader's figures, and those of the file's own."""
        own = {name: figure.as_figure(name) for name, figure in self.figures.items()}
        return (reader(self.read).figures if self.read else {}) | own


class SecretSource(Model):
    """Where an environment variable that nobody may read comes from when a command is run."""

    file: Path | None = Field(default=None, description="Its first line.")
    environment: str | None = Field(default=None, description="Another variable, of costof's own environment.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.file is None) == (self.environment is None):
            raise ValueError("a secret comes from a `file` or from the `environment`")
        return self


class Program(Model):
    """A workload's command on an arm."""

    argv: list[str]
    once: bool
    timeout_seconds: float
    warmup: int = 0
    read: str | None = None
    figures: dict[str, FigureSource] = {}
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
    programs: Mapping[str, tuple[CommandProgram, Mapping[str, float]]],
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
                once=program.takes_duration,
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


def _program_argv(program: CommandProgram, words: _Words, levels_words: Collection[str]) -> list[str]:
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
        raise CostofError(ErrorText.NOT_A_COMMAND, text=without_passwords(text), detail=str(error)) from None
    if sign := shell_sign(text, directory):
        quoting = BEGIN_WITH_ENV if sign.endswith("=") else QUOTE
        shown = without_passwords(text)
        raise CostofError(ErrorText.SHELL_SIGN, text=shown, sign=sign, remedy=remedy, otherwise=quoting)
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
        raise CostofError(ErrorText.UNKNOWN_WORD, text=without_passwords(text), word=name, nearest=near)
