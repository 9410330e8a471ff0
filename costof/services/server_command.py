"""Base class for commands of the user that print a figure of the user's own servers, such as their CPU time."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod

from costof.errors import CostofError
from costof.instruments.commands import process

#: Time limit for the command. The command may connect to another machine.
MAX_SECONDS = 30.0


class ServerCommand(ABC):
    """A command that the user gives in an option, such as `--server-cpu`.

    Subclasses parse what the command prints, and choose the errors for their option.
    """

    def __init__(self, command: str) -> None:
        """Split the command into words without running it. Raises the error from `_invalid` if that fails."""
        try:
            self._argv = shlex.split(command)
        except ValueError as error:
            raise self._invalid(command, str(error)) from None
        if not self._argv:
            raise self._invalid(command, "it is empty")
        self.command = command

    def _output(self) -> str:
        """Run the command and return what it printed. Raises the error from `_unread` if the command fails."""
        try:
            ended = process.run(self._argv, os.environ, MAX_SECONDS)
        except process.NotStartedError as error:
            raise self._unread(str(error)) from None
        if ended.failure:
            raise self._unread(f"{ended.failure}{process.last_line(ended)}")
        return ended.output

    @abstractmethod
    def _invalid(self, text: str, detail: str) -> CostofError:
        """Return the error for a text that cannot be split into a command."""

    @abstractmethod
    def _unread(self, detail: str) -> CostofError:
        """Return the error for a command that failed, or that did not print the figure."""


def printed(output: str) -> str:
    """Return the beginning of a command's output as part of an error message: "it printed '…'"."""
    return f"it printed '{output.strip()[:200]}'"
