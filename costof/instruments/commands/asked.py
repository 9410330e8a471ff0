"""What a study's file says of commands: the program of a workload, and what a level changes about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from costof.instruments.commands.readers import Figure, reader
from costof.model import Model

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


class FigureAsked(Model):
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


class CommandAsked(Model):
    """The program that a workload runs."""

    run: str = Field(description="Its command line, without a shell. '{name}' is what an arm's levels set.")
    shell: bool = Field(default=False, description="Whether `sh -c` reads the line.")
    read: str | None = Field(default=None, description="A reader by its name: the figures that the program prints.")
    figures: dict[str, FigureAsked] = Field(default={}, description="Figures of its output beside the reader's.")
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
    def is_told_how_long(self) -> bool:
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
