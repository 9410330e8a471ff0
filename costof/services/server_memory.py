"""The memory of a user's own servers, read with a command that the user gives."""

from __future__ import annotations

import math
import re

from costof.errors import CostofError, ErrorText
from costof.format import bytes_text
from costof.services.server_command import ServerCommand, printed

#: No server uses less memory than this. A smaller number is not in bytes.
LEAST_BYTES = 200_000
METHOD = "--server-memory"
#: The units by their lower-case names, and the number of bytes in each. `kB` means 1,024 bytes, as in the kernel's
#: files.
UNITS = {"": 1, "b": 1, "kb": 1024, "kib": 1024, "k": 1024, "mib": 1024**2, "m": 1024**2, "gib": 1024**3, "g": 1024**3}
UNITS |= {"mb": 10**6, "gb": 10**9, "bytes": 1}

#: Known formats of a command's output, which contains other data too. Each has a pattern for the line with the memory,
#: and the number of bytes in its unit. The formats are /proc/<pid>/smaps_rollup and /proc/<pid>/status (proc(5)), a
#: property of a systemd service, and a metric of Prometheus' client libraries.
_KNOWN = (
    (re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE), 1024),
    (re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE), 1024),
    (re.compile(r"^MemoryCurrent=(\d+)$", re.MULTILINE), 1),
    (re.compile(r"^process_resident_memory_bytes(?:\{[^}]*\})? (\S+)$", re.MULTILINE), 1),
)
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e\+?\d+)?)\s*([a-z]*)(?:\s+|$)", re.IGNORECASE)


def parse_bytes(text: str) -> int:
    """Return the sum of the amounts of memory in a command's output, in bytes.

    The output must be one or more numbers, in bytes or with a unit, such as '1.5 GiB', or contain lines of a format in
    `_KNOWN`. Raises `ValueError` for any other output.
    """
    for pattern, unit in _KNOWN:
        if matches := pattern.findall(text):
            total = sum(map(float, matches)) * unit
            break
    else:
        if not text.strip() or _NUMBER.sub("", text.strip()):
            raise ValueError(text)
        pairs = _NUMBER.findall(text.strip())
        if any(unit.lower() not in UNITS for _, unit in pairs):
            raise ValueError(text)
        total = sum(float(number) * UNITS[unit.lower()] for number, unit in pairs)
    if not math.isfinite(total):
        raise ValueError(text)
    return round(total)


class ServerMemory(ServerCommand):
    """A reader of the servers' memory. The user's command prints the bytes in use now (see `parse_bytes`).

    Raises `BAD_SERVER_MEMORY` if the text cannot be split into a command.
    """

    def read(self) -> int:
        """Run the command and return the bytes that the servers use.

        Raises `SERVER_MEMORY_UNREAD` if the command fails, prints no number, or prints less than `LEAST_BYTES`.
        """
        output = self._output()
        try:
            used = parse_bytes(output)
        except ValueError:
            raise self._unread(printed(output)) from None
        if used < LEAST_BYTES:
            raise self._unread(f"{printed(output)}, which is {bytes_text(used)}, less than any server uses")
        return used

    def _invalid(self, text: str, detail: str) -> CostofError:
        return CostofError(ErrorText.BAD_SERVER_MEMORY, text=text, detail=detail)

    def _unread(self, detail: str) -> CostofError:
        return CostofError(ErrorText.SERVER_MEMORY_UNREAD, program=self._argv[0], detail=detail)
