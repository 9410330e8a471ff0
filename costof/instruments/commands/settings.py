"""Models of commands in two forms: with placeholders, as a study declares them, and filled in for one arm (variant)."""

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
from costof.instruments.commands.process import STEP_SECONDS, Streams
from costof.instruments.commands.readers import Figure, reader
from costof.instruments.commands.shell import shell_sign, split
from costof.messages.plan import ServiceSettings
from costof.model import Model, Secret

#: Matches a placeholder '{name}', or '{{name}}', which stands for the literal text '{name}'.
_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([A-Za-z_]\w*)\}")
#: Advice for a command that contains shell syntax but is not run by a shell: `ADD_SHELL` for measured commands,
#: `CALL_A_SHELL` for other commands, such as those in `before`, `after` and `verify`.
ADD_SHELL, CALL_A_SHELL = "remove -N (set shell = true in a study's file)", "write sh -c '…'"
QUOTE, BEGIN_WITH_ENV = "put it in single quotes to pass it on as it is", "begin the command with env"


DEFAULT_SHELL = ["sh"]
#: Built-in placeholders: the length of the slice (measured window) in seconds, the planned operations a second, and the
#: path of a temporary file for the program's report.
SECONDS, RATE, OUTPUT = "seconds", "rate", "output"
#: The value of the placeholder `rate` if slices (measured windows) have different rates: the command keeps the
#: placeholder, and `Program.at_rate` replaces it by the rate of each slice.
RATE_OF_SLICE = "{rate}"
LONGEST_SECONDS = 600.0
MOST_WARMUP_RUNS = 100


class Verification(Model):
    """A command that checks that a level (setting), such as TLS 1.3, is really in use.

    Its exit status must be 0, and `matches` must match its output.
    """

    run: str
    matches: str = Field(description="A regular expression for the whole output, without leading and trailing blanks.")

    @field_validator("matches")
    @classmethod
    def _compiles(cls, text: str) -> str:
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"'{text}' is not a valid regular expression: {error}") from None
        return text


class CommandLevel(Model):
    """The changes that one level of a factor, such as `transport = "tls"`, makes to the commands of its arms.

    An arm (measured variant) has one level of each factor, so several levels may change its commands.
    """

    set: dict[str, str] = Field(default={}, description="Values of the placeholders '{name}' in command lines.")
    environment: dict[str, str] = Field(default={}, description="Environment variables of every command.")
    before: list[str] = Field(default=[], description="Commands that apply the level before each of its slices.")
    after: list[str] = Field(
        default=[], description="Commands that undo the level after each slice, even if the slice failed."
    )
    setup: list[str] = Field(default=[], description="Commands that run once, before the first slice of the run.")
    cleanup: list[str] = Field(
        default=[], description="Commands that run once, at the end of the run, even if the run failed."
    )
    verify: list[Verification] = Field(
        default=[], description="Commands run before and after every slice to verify the level."
    )

    @model_validator(mode="before")
    @classmethod
    def _has_no_renamed_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "proof" in value:
            raise ValueError("the key `proof` has a new name: write `verify`")
        return value

    @field_validator("before", "after", "setup", "cleanup", mode="before", json_schema_input_type=str | list[str])
    @classmethod
    def _lines(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]

    @field_validator("verify", mode="before", json_schema_input_type=Verification | list[Verification])
    @classmethod
    def _verifications(cls, value: Any) -> Any:
        return value if isinstance(value, list) else [value]


class FigureSource(Model):
    """A figure that the study's author defines: how to find it in the program's output, and how to report it.

    It is found by a JSON pointer (RFC 6901), or by the first group of a regular expression.
    """

    json_pointer: str | None = Field(default=None, alias="json")
    regex: str | None = None
    label: str = ""
    unit: str
    better: Literal["lower", "higher"] = "lower"
    headline: bool = True

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.json_pointer is None) == (self.regex is None):
            raise ValueError("a figure needs either `json` or `regex`")
        if self.json_pointer and not self.json_pointer.startswith("/"):
            raise ValueError(f"'{self.json_pointer}' is not a JSON pointer; it must begin with '/'")
        try:
            groups = re.compile(self.regex or "()").groups
        except re.error as error:
            raise ValueError(f"'{self.regex}' is not a valid regular expression: {error}") from None
        if groups < 1:
            raise ValueError(f"'{self.regex}' has no group; put the number in parentheses")
        return self

    def as_figure(self, name: str) -> Figure:
        return Figure(self.label or name, self.unit, self.better, self.headline)


class ProgramOptions(Model):
    """The options that a program to measure has both in a study and on one arm (variant)."""

    read: str | None = Field(
        default=None, description="Name of the reader (parser) for the program's report, such as 'pgbench'."
    )
    figures: dict[str, FigureSource] = Field(
        default={}, description="Figures in the program's output in addition to the reader's."
    )
    once: bool = Field(
        default=False, description="Run the program once in each slice. A command line with '{seconds}' implies this."
    )
    warmup: int = Field(
        default=0,
        ge=0,
        le=MOST_WARMUP_RUNS,
        description="Number of unmeasured runs before a slice if another command, which may have left caches cold, ran "
        "before it.",
    )
    first_warmup: int = Field(
        default=0, ge=0, le=MOST_WARMUP_RUNS, description="Number of unmeasured runs before the first slice of the run."
    )
    timeout_seconds: float = Field(
        default=LONGEST_SECONDS, gt=0, description="A run that takes longer is ended and counts as failed."
    )
    ignore_failure: bool | list[int] = Field(
        default=False, description="Measure runs that end with a status other than 0, or with one of these statuses."
    )
    directory: Path | None = Field(
        default=None, description="The program's working directory; by default, that of costof."
    )
    stdin: Path | None = Field(default=None, description="A file that the program reads as its standard input.")
    stdout: str = Field(
        default="",
        description="Where the program's output goes: '' into memory, where a reader reads it; 'null'; 'pipe', which "
        "costof empties; or a file, which each run overwrites.",
    )
    shown: Path | None = Field(
        default=None, description="A file to which the program's output and error output are appended."
    )
    keep_runs: bool = Field(default=False, description="Keep the time and the status of each single run.")

    @field_validator("read")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        if name is not None:
            reader(name)
        return name


class CommandProgram(ProgramOptions):
    """A program to measure, as a study declares it, with placeholders in its command lines."""

    run: str = Field(description="The command line. An arm's levels set the values of placeholders '{name}'.")
    shell: bool | str = Field(
        default=False, description="Run the command line with `sh -c`, or with this shell, such as 'bash --norc'."
    )
    seconds: float | None = Field(
        default=None, gt=0, description="Length of a slice. The program is run again and again until it is over."
    )
    prepare: str = Field(default="", description="A command that runs before each run of the program.")
    conclude: str = Field(default="", description="A command that runs after each run of the program.")

    @property
    def takes_duration(self) -> bool:
        """Return whether the program runs only once in each slice (measured window).

        Such a program itself measures for a fixed time, so its run time is not a result and is not reported.
        """
        return self.once or f"{{{SECONDS}}}" in self.run

    @property
    def takes_rate(self) -> bool:
        """Return whether the command line contains '{rate}', that is, whether the program can keep a given rate."""
        return f"{{{RATE}}}" in self.run

    @property
    def all_figures(self) -> dict[str, Figure]:
        """Return all figures by name: those that the reader (parser) finds, and those that the study defines."""
        study_figures = {name: figure.as_figure(name) for name, figure in self.figures.items()}
        return (reader(self.read).figures if self.read else {}) | study_figures


class SecretSource(Model):
    """Where to read the value of a secret environment variable for commands.

    The command runner reads the value at the start of a run, so the study and the plan do not contain it.
    """

    file: Path | None = Field(default=None, description="A file whose first line is the value.")
    environment: str | None = Field(default=None, description="A variable of costof's environment.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.file is None) == (self.environment is None):
            raise ValueError("a secret needs either `file` or `environment`")
        return self


class Program(ProgramOptions):
    """A program to measure on one arm (variant), with the placeholders in its command lines filled in."""

    argv: list[str]
    prepare: list[str] = []
    conclude: list[str] = []

    def at_rate(self, per_second: float | None) -> Program:
        """Return the program with '{rate}' replaced by the rate of a slice (window); unchanged if there is no rate."""
        if per_second is None:
            return self
        rate = f"{per_second:g}"
        lines = {"argv": self.argv, "prepare": self.prepare, "conclude": self.conclude}
        update = {name: [word.replace(RATE_OF_SLICE, rate) for word in words] for name, words in lines.items()}
        return self.model_copy(update=update)

    def ignores(self, status: int) -> bool:
        return status in self.ignore_failure if isinstance(self.ignore_failure, list) else self.ignore_failure

    @property
    def streams(self) -> Streams:
        return Streams(self.stdin, self.stdout or None, self.shown)


class VerificationCommand(Model):
    """A `Verification` with its placeholders filled in. The regular expression `matches` must match all output."""

    argv: list[str]
    matches: str


class CommandSettings(ServiceSettings):
    """All commands of an arm (variant) with filled-in placeholders. `output` is the path that replaced '{output}'."""

    protocol: Literal["command"] = "command"
    addresses: list[str] = []
    programs: dict[str, Program]
    environment: dict[str, str] = {}
    before: list[list[str]] = []
    after: list[list[str]] = []
    setup: list[list[str]] = []
    cleanup: list[list[str]] = []
    verify: list[VerificationCommand] = []
    secrets: dict[str, SecretSource] = {}
    hidden: dict[str, Secret] = Field(default={}, description="Secret environment variables of the commands.")
    files: dict[str, Secret] = Field(
        default={}, description="Content of files, by path, to be written before the first slice beside `output`."
    )
    output: Path

    @property
    def verifying_seconds(self) -> float:
        return len(self.verify) * STEP_SECONDS

    def longest_seconds(self, workload: str) -> float:
        program = self.programs[workload]
        unmeasured = program.warmup + program.first_warmup
        each = 1 + bool(program.prepare) + bool(program.conclude)
        return program.timeout_seconds * each * (1 + unmeasured) + self.verifying_seconds

    def ends_itself(self, workload: str) -> bool:
        return self.programs[workload].once


def new_output() -> Path:
    """Return an unused path for the reports of a run's programs. The command runner creates and removes its folder."""
    return Path(tempfile.gettempdir()) / f"costof-{token_hex(8)}" / "output"


def build_settings(
    level: CommandLevel,
    programs: Mapping[str, tuple[CommandProgram, Mapping[str, float | str]]],
    secrets: dict[str, SecretSource],
    output: Path,
    study_words: Collection[str] = (),
) -> CommandSettings:
    """Fill in the placeholders in the commands of an arm (measured variant). Return the command runner's settings.

    `level` has the merged settings of all levels of the arm. `programs` maps a workload's name to its program and to
    the values of its numeric placeholders, such as `{"seconds": 10}`. `secrets` maps environment variables to their
    sources.

    `study_words` are the names of the placeholders that the study's levels define. In a command that a shell runs, only
    these and the built-in names are placeholders. Other braces, such as those in '${HOME}', are left to the shell.

    Raises `UNKNOWN_WORD`, `NOT_A_COMMAND` and `SHELL_SIGN`.
    """
    words = _Words({OUTPUT: str(output)}, level.set)
    return CommandSettings(
        programs={
            name: Program(
                argv=_program_argv(program, words.with_numbers(numbers), study_words),
                once=program.takes_duration,
                prepare=_optional_argv(program.prepare, words.with_numbers(numbers), program.directory),
                conclude=_optional_argv(program.conclude, words.with_numbers(numbers), program.directory),
                stdout=words.fill(program.stdout),
                **program.model_dump(include=ProgramOptions.model_fields.keys() - {"once", "stdout"}, by_alias=True),
            )
            for name, (program, numbers) in programs.items()
        },
        environment={name: words.fill(value) for name, value in level.environment.items()},
        before=[_argv(line, words) for line in level.before],
        after=[_argv(line, words) for line in reversed(level.after)],
        setup=[_argv(line, words) for line in level.setup],
        cleanup=[_argv(line, words) for line in reversed(level.cleanup)],
        verify=[
            VerificationCommand(argv=_argv(each.run, words), matches=words.fill(each.matches)) for each in level.verify
        ],
        secrets=secrets,
        output=output,
    )


def _program_argv(program: CommandProgram, words: _Words, study_words: Collection[str]) -> list[str]:
    if not program.shell:
        return _argv(program.run, words, program.directory, ADD_SHELL)
    reserved = {SECONDS, RATE, OUTPUT, *words.level_words, *study_words}
    shell = DEFAULT_SHELL if program.shell is True else _argv(program.shell, replace(words, reserved=()))
    return [*shell, "-c", replace(words, reserved=reserved).fill(program.run)]


def _optional_argv(line: str, words: _Words, directory: Path | None) -> list[str]:
    """Return the arguments of a line (`_argv`), or [] if the line is empty once its placeholders are filled in."""
    return _argv(line, words, directory) if words.fill(line).strip() else []


def _argv(line: str, words: _Words, directory: Path | None = None, remedy: str = CALL_A_SHELL) -> list[str]:
    """Fill in a line's placeholders, and then split the line into arguments.

    Because the line is split last, the value of one placeholder can become several arguments, or none.
    """
    text = words.fill(line)
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
    """The values of the placeholders in command lines.

    `values` has the built-in placeholders, such as 'seconds'. `level_words` has the placeholders that levels define.
    Their values may contain built-in placeholders.

    A name in braces that has no value is an error. A line for a shell may also contain the shell's own braces. There,
    only the names in `reserved` must have a value.
    """

    values: Mapping[str, str]
    level_words: Mapping[str, str]
    reserved: Collection[str] | None = None

    def with_numbers(self, numbers: Mapping[str, float | str]) -> _Words:
        """Return a copy that also has the values of a workload's numeric placeholders, `seconds` and `rate`."""
        texts = {name: each if isinstance(each, str) else f"{each:g}" for name, each in numbers.items()}
        return replace(self, values={**self.values, **texts})

    def fill(self, text: str) -> str:
        """Return the text with each '{name}' replaced by its value. Raises `UNKNOWN_WORD` if a name has no value."""
        return _PLACE.sub(lambda match: self._word(text, match), text)

    def _word(self, text: str, match: re.Match[str]) -> str:
        name = match[2]
        if name is None:
            return f"{{{match[1]}}}"
        if name in self.level_words:
            known = {SECONDS: "", RATE: "", **self.values}
            return replace(self, values=known, level_words={}).fill(self.level_words[name])
        if name in self.values:
            return self.values[name]
        if self.reserved is not None and name not in self.reserved:
            return match[0]
        near = nearest(name, [*self.values, *self.level_words])
        raise CostofError(ErrorText.UNKNOWN_WORD, text=without_passwords(text), word=name, nearest=near)
