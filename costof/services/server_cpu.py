"""CPU time of a user's own servers, which a command of the user's tells."""

from __future__ import annotations

import math
import os
import re
import shlex

from costof.commands import process
from costof.errors import CostofError, Problem

#: To ask another machine, over a connection that is opened for it.
MOST_SECONDS = 30.0


#: What knows CPU time and prints it with other things: by line, its number, and how many of it are a second. Of a
#: control group cpu.stat (kernel's documentation, cgroup-v2), of systemd a service's property, and of Prometheus' node
#: exporter the machine's cores in each mode.
_KNOWN = (
    (re.compile(r"^usage_usec (\d+)$", re.MULTILINE), 1e6),
    (re.compile(r"^CPUUsageNSec=(\d+)$", re.MULTILINE), 1e9),
    (re.compile(r'^node_cpu_seconds_total\{(?![^}]*mode="(?:idle|iowait)")[^}]*\} (\S+)$', re.MULTILINE), 1.0),
)


def seconds_in(text: str) -> float:
    """What a command has printed: numbers of seconds, or one of the forms in `_KNOWN`; several add up. Raises
    `ValueError` where it is none of these."""
    told = text.split()
    a_second = 1.0
    for pattern, unit in _KNOWN:
        if found := pattern.findall(text):
            told, a_second = found, unit
            break
    seconds = sum(map(float, told)) / a_second
    if not told or not math.isfinite(seconds):
        raise ValueError(text)
    return seconds


class ServerCpu:
    """`command` prints how much CPU time the servers have used since whenever it began to count (`seconds_in`). Raises
    `BAD_SERVER_CPU` for one that is no command."""

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
            seconds = seconds_in(ended.output)
        except ValueError:
            raise self._unread(f"it printed '{ended.output.strip()[:200]}'") from None
        if seconds < self._last:
            raise self._unread(f"it printed {seconds:g} after {self._last:g}")
        self._last = seconds
        return seconds

    def _unread(self, detail: str) -> CostofError:
        return CostofError(Problem.SERVER_CPU_UNREAD, program=self._argv[0], detail=detail)
