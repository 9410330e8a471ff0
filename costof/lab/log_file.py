"""A log file, read line by line while a server appends to it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: The size from which `shorten` empties a log, so that the log of a long run does not fill the disk.
LONGEST_BYTES = 256 * 1024 * 1024


@dataclass
class LogFile:
    path: Path
    _read: int = 0

    def new_lines(self) -> str:
        """Return the complete lines that were appended since the last call; '' before the file exists."""
        if not self.path.exists():
            return ""
        with self.path.open("rb") as log:
            log.seek(self._read)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        return whole.decode(errors="replace")

    def shorten(self) -> None:
        """Empty the file if it is long and has been read to its end. The file's writer must append (O_APPEND)."""
        if self._read >= LONGEST_BYTES and self.path.stat().st_size == self._read:
            os.truncate(self.path, 0)
            self._read = 0
