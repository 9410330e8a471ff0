"""CPU time of a user's own servers, which a command of the user's tells."""

from __future__ import annotations

import math
import os
import re
import shlex
import time

from costof.errors import CostofError, ErrorText
from costof.format import plural
from costof.instruments.commands import process

#: To ask another machine, over a connection that is opened for it.
MOST_SECONDS = 30.0
#: No counter of CPU seconds goes up by more than this in a second, however many servers it adds up.
MOST_CORES = 1024
#: What a command prints may be so old: exporters keep their last answer for a while.
LAG_SECONDS = 5.0
#: Units that a counter may have by mistake, and how many of each are a second.
UNITS = {"hundredths of a second": 1e2, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
#: Between the usual cores of a server that is loaded and of one that has nothing to do.
USUAL_CORES = 0.3

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
            raise CostofError(ErrorText.BAD_SERVER_CPU, text=command, detail=str(error)) from None
        if not self._argv:
            raise CostofError(ErrorText.BAD_SERVER_CPU, text=command, detail="it has no words")
        self.command = command
        self._first: float | None = None
        self._last = 0.0
        self._began = 0.0
        self._most_cores = MOST_CORES
        self._whose_cores = "no servers have that many cores"
        self.is_here = False

    def limit_cores(self, cores: int, machine: str) -> None:
        """Refuse readings beyond the cores of this machine, on which the servers are."""
        self.is_here = True
        self._most_cores = min(self._most_cores, cores)
        self._whose_cores = f"{machine} has {cores} cores"

    def seconds(self) -> float:
        """Return the CPU time so far.

        Raises `SERVER_CPU_UNREAD`, also for less than before (servers that were started anew) and for more than all
        cores can have used since the first reading (another unit than seconds).
        """
        began = time.monotonic()
        try:
            ended = process.run(self._argv, os.environ, MOST_SECONDS)
        except process.NotStartedError as error:
            raise self._unread(str(error)) from None
        if ended.failure:
            raise self._unread(f"{ended.failure}{process.last_line(ended)}")
        try:
            seconds = seconds_in(ended.output)
        except ValueError:
            raise self._unread(f"it printed '{ended.output.strip()[:200]}'") from None
        if seconds < self._last:
            raise self._unread(f"it printed {seconds:.10g} after {self._last:.10g}")
        if self._first is None:
            self._first, self._began = seconds, began
        used, elapsed = seconds - self._first, time.monotonic() - self._began
        if used > self._most_cores * (elapsed + LAG_SECONDS):
            raise self._unread(self._beyond_cores(used, elapsed))
        self._last = seconds
        return seconds

    def check_it_moved(self, operations: int) -> None:
        """Raises `SERVER_CPU_UNREAD` where all readings so far are the same, though the servers did `operations`."""
        if self._last == self._first:
            raise self._unread(f"it printed {self._last:.10g} before and after {plural(operations, 'operation')}")

    def _beyond_cores(self, used: float, elapsed: float) -> str:
        rate = used / elapsed
        unit = min(UNITS, key=lambda name: abs(math.log(rate / UNITS[name] / USUAL_CORES)))
        return (
            f"it went up by {used:,.10g} in {elapsed:.1f} s, as {rate:,.0f} busy cores would make it, and "
            f"{self._whose_cores}; if it prints {unit} ({rate / UNITS[unit]:.2g} cores), divide by {UNITS[unit]:,.0f}"
        )

    def _unread(self, detail: str) -> CostofError:
        return CostofError(ErrorText.SERVER_CPU_UNREAD, program=self._argv[0], detail=detail)
