"""CPU time of a user's own servers, which a command of the user's tells."""

from __future__ import annotations

import math
import os
import shlex

from costof.commands import process
from costof.errors import CostofError, Problem

#: To ask another machine, over a connection that is opened for it.
MOST_SECONDS = 30.0


class ServerCpu:
    """`command` prints how many seconds of CPU time the servers have used since whenever it began to count; of several
    lines the sum counts. Raises `BAD_SERVER_CPU` for one that is no command."""

    def __init__(self, command: str) -> None:
        try:
            self._argv = shlex.split(command)
        except ValueError as error:
            raise CostofError(Problem.BAD_SERVER_CPU, text=command, detail=str(error)) from None
        if not self._argv:
            raise CostofError(Problem.BAD_SERVER_CPU, text=command, detail="it has no words")
        self.command = command
        self._last = 0.0

    def seconds(self) -> float:
        """So far. Raises `SERVER_CPU_UNREAD`, also where it is less than before: servers that were started anew."""
        try:
            ended = process.run(self._argv, os.environ, MOST_SECONDS)
        except process.NotStartedError as error:
            raise self._unread(str(error)) from None
        if ended.wrong:
            raise self._unread(f"{ended.wrong}{process.last_line(ended)}")
        try:
            told = [float(line) for line in ended.output.split("\n") if line.strip()]
        except ValueError:
            raise self._unread(f"it printed '{ended.output.strip()[:200]}'") from None
        seconds = sum(told)
        if not told or not math.isfinite(seconds):
            raise self._unread(f"it printed '{ended.output.strip()[:200]}'")
        if seconds < self._last:
            raise self._unread(f"it printed {seconds:g} after {self._last:g}")
        self._last = seconds
        return seconds

    def _unread(self, detail: str) -> CostofError:
        return CostofError(Problem.SERVER_CPU_UNREAD, program=self._argv[0], detail=detail)
