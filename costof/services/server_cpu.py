"""The CPU time of a user's own servers, read with a command that the user gives."""

from __future__ import annotations

import math
import re
import time

from costof.errors import CostofError, ErrorText
from costof.format import plural
from costof.services.server_command import ServerCommand, printed

#: All servers together cannot use more cores than this. If the printed CPU time means more, its unit is not seconds.
MAX_CORES = 1024
#: The maximum age in seconds of the printed CPU time. A monitoring exporter may print a cached value.
LAG_SECONDS = 5.0
#: Wrong units in which a command may print the CPU time, each with the number of units in a second.
UNITS = {"hundredths of a second": 1e2, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
#: A typical number of busy cores of a server. If the printed CPU time means impossibly many cores, its unit is not
#: seconds. The error then suggests the unit with which the number of cores is closest to this typical number.
USUAL_CORES = 0.3

#: Known formats of a command's output, which contains other data too. Each has a pattern for the lines with the CPU
#: time, and the number of its units in a second. The formats are cpu.stat of a control group (kernel documentation,
#: cgroup-v2), a property of a systemd service, and Prometheus' node exporter (without idle and iowait).
_KNOWN = (
    (re.compile(r"^usage_usec (\d+)$", re.MULTILINE), 1e6),
    (re.compile(r"^CPUUsageNSec=(\d+)$", re.MULTILINE), 1e9),
    (re.compile(r'^node_cpu_seconds_total\{(?![^}]*mode="(?:idle|iowait)")[^}]*\} (\S+)$', re.MULTILINE), 1.0),
)


def parse_seconds(text: str) -> float:
    """Return the sum of the CPU times in a command's output, in seconds.

    The output must be one or more numbers of seconds, such as '12.5 3.1', or contain lines of a format in `_KNOWN`.
    Raises `ValueError` for any other output.
    """
    numbers = text.split()
    units_per_second = 1.0
    for pattern, units in _KNOWN:
        if matches := pattern.findall(text):
            numbers, units_per_second = matches, units
            break
    seconds = sum(map(float, numbers)) / units_per_second
    if not numbers or not math.isfinite(seconds):
        raise ValueError(text)
    return seconds


class ServerCpu(ServerCommand):
    """A reader of the servers' CPU time. The user's command prints the seconds used so far (see `parse_seconds`).

    Raises `BAD_SERVER_CPU` if the text cannot be split into a command.
    """

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self._first: float | None = None
        self._last = 0.0
        self._began = 0.0
        self._max_cores = MAX_CORES
        self._core_limit_text = "no servers have that many cores"
        self.is_local = False

    def limit_cores(self, cores: int, machine: str) -> None:
        """Refuse readings of more CPU time than `cores` cores can have used.

        `cores` is the number of cores of the servers' machine, and `machine` is its name in errors.
        """
        self.is_local = True
        self._max_cores = min(self._max_cores, cores)
        self._core_limit_text = f"{machine} has {cores} cores"

    def seconds(self) -> float:
        """Run the command and return the CPU seconds that the servers have used so far.

        Raises `SERVER_CPU_UNREAD` if the command fails or prints no number, if the number is lower than before (servers
        have restarted), or if it has risen by more than all cores can have used since the first reading (its unit is
        not seconds).
        """
        began = time.monotonic()
        output = self._output()
        try:
            seconds = parse_seconds(output)
        except ValueError:
            raise self._unread(printed(output)) from None
        if seconds < self._last:
            raise self._unread(f"it printed {seconds:.10g} after it had printed {self._last:.10g}")
        if self._first is None:
            self._first, self._began = seconds, began
        used, elapsed = seconds - self._first, time.monotonic() - self._began
        if used > self._max_cores * (elapsed + LAG_SECONDS):
            raise self._unread(self._beyond_cores(used, elapsed))
        self._last = seconds
        return seconds

    def check_increase(self, operations: int) -> None:
        """Raise `SERVER_CPU_UNREAD` if the CPU time has not changed, although clients did `operations`."""
        if self._last == self._first:
            raise self._unread(f"it printed {self._last:.10g} before and after {plural(operations, 'operation')}")

    def _beyond_cores(self, used: float, elapsed: float) -> str:
        rate = used / elapsed
        unit = min(UNITS, key=lambda name: abs(math.log(rate / UNITS[name] / USUAL_CORES)))
        return (
            f"it rose by {used:,.10g} in {elapsed:.1f} s, which would need {rate:,.0f} busy cores; "
            f"{self._core_limit_text}; if it prints {unit} ({rate / UNITS[unit]:.2g} cores), "
            f"divide by {UNITS[unit]:,.0f}"
        )

    def _invalid(self, text: str, detail: str) -> CostofError:
        return CostofError(ErrorText.BAD_SERVER_CPU, text=text, detail=detail)

    def _unread(self, detail: str) -> CostofError:
        return CostofError(ErrorText.SERVER_CPU_UNREAD, program=self._argv[0], detail=detail)
