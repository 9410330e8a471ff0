"""Measurement of flushes: how long a disk takes until written bytes survive a power cut.

`python -m costof.lab.flushes FOLDER overwrite|append SECONDS` measures for SECONDS and prints a `FlushEvidence` as
JSON.

A lab starts this command as a separate process in a session (setsid(2)) of its own, like its servers. Linux divides the
CPU among sessions. In the run's own session, which is busy, a flush could seem to take longer than in a server.
"""

from __future__ import annotations

import math
import os
import stat
import statistics
import sys
import tempfile
import time
from pathlib import Path

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.model import Finite, Model

#: The number of bytes written before each flush. PostgreSQL and MariaDB write their logs in blocks of this size.
WRITE_BYTES = 8192
#: The size of the file in which flushed bytes are replaced. The file has this size before the first flush, like a log
#: that a database allocates in advance. A flush then writes data only, and no metadata of the file system.
FILE_BYTES = 2**20
#: The duration of a measurement of flushes: `SECONDS` at the beginning and end of a run, and `SECONDS_AFTER_ROUND`
#: after each round (one measured window of every arm). The speed of a shared disk varies over time, so the measurements
#: at the beginning and end are not enough.
SECONDS, SECONDS_AFTER_ROUND = 1.0, 0.1
OVERWRITE, APPEND = "overwrite", "append"
MODULE = "costof.lab.flushes"
#: The process sleeps for this time before it measures. On a busy machine, the scheduler delays a process that has just
#: used much CPU time, here for its imports: without the sleep a flush seemed to take 5.8 ms, with it 0.5 ms. A database
#: server waits most of the time, so the scheduler does not delay its flushes either.
REST_SECONDS = 0.5
#: A measurement is divided into this many parts. The standard error is computed from the parts' means, because
#: successive flushes are not independent of each other.
PARTS = 10
#: The minimum number of flushes in each part of a measurement, even if the measurement then takes longer than planned.
FEWEST_IN_PART = 2
LONGEST_PATH = 60
#: File systems in memory, on which a flush does nothing.
IN_MEMORY = frozenset({"tmpfs", "ramfs"})


class FlushEvidence(Model):
    """The measured time of a flush (`fdatasync` after a write of 8 kB), in milliseconds."""

    folder: str
    file_system: str = Field(description="The type of the folder's file system and its device: 'ext4 on /dev/vda'.")
    appends: bool = Field(description="Whether each write makes the file longer. Otherwise it replaces bytes.")
    mean_ms: Finite
    error_ms: Finite = Field(description="The standard error of the mean of ten parts of the measurement.")
    median_ms: Finite
    p99_ms: Finite
    flushes: int


def measure_flush(folder: Path, appends: bool, seconds: float) -> FlushEvidence:
    """Write and flush for about `seconds`, in a temporary file in the folder. Raises `LAB_FAILED`.

    With `appends`, each write makes the file longer. Otherwise it replaces bytes.
    """
    parts = []
    block = os.urandom(WRITE_BYTES)
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            size = 0 if appends else FILE_BYTES
            for _ in range(size // WRITE_BYTES):
                file.write(block)
            os.fsync(file.fileno())
            position = 0
            for _ in range(PARTS):
                part: list[float] = []
                end = time.perf_counter() + seconds / PARTS
                while time.perf_counter() < end or len(part) < FEWEST_IN_PART:
                    os.pwrite(file.fileno(), block, position if appends else position % FILE_BYTES)
                    position += WRITE_BYTES
                    started = time.perf_counter_ns()
                    os.fdatasync(file.fileno())
                    part.append((time.perf_counter_ns() - started) / 1e6)
                parts.append(part)
    except OSError as error:
        raise CostofError(ErrorText.LAB_FAILED, detail=f"a flush of a file in {folder}: {error.strerror}") from error
    ordered = sorted(each for part in parts for each in part)
    return FlushEvidence(
        folder=str(folder),
        file_system=describe_file_system(folder),
        appends=appends,
        mean_ms=statistics.fmean(ordered),
        error_ms=statistics.stdev(map(statistics.fmean, parts)) / math.sqrt(PARTS),
        median_ms=statistics.median(ordered),
        p99_ms=ordered[math.ceil(0.99 * len(ordered)) - 1],
        flushes=len(ordered),
    )


def flush_command(folder: Path, appends: bool, seconds: float) -> list[str]:
    return [sys.executable, "-m", MODULE, str(folder), APPEND if appends else OVERWRITE, f"{seconds:g}"]


def folder_on_disk() -> str:
    """Return the first of TMPDIR, /tmp and /var/tmp that is on a disk. Raises `NO_DISK` if all are in memory.

    TMPDIR counts only if other users may enter it, and if its path is short enough for sockets.
    """
    candidates = ["/tmp", "/var/tmp"]  # noqa: S108  # servers of other users need a folder that they can enter
    chosen = tempfile.gettempdir()
    if len(chosen) <= LONGEST_PATH and Path(chosen).stat().st_mode & stat.S_IXOTH:
        candidates.insert(0, chosen)
    for folder in candidates:
        if Path(folder).is_dir() and not is_in_memory(Path(folder)):
            return folder
    raise CostofError(ErrorText.NO_DISK, folders=" and ".join(dict.fromkeys(candidates)))


def is_in_memory(folder: Path) -> bool:
    return _mount(folder)[0] in IN_MEMORY


def describe_file_system(folder: Path) -> str:
    kind, device = _mount(folder)
    return f"{kind} on {device}"


def _mount(folder: Path) -> tuple[str, str]:
    path = folder.resolve()
    best, found = "", ("unknown", "unknown")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, mounted, kind, *_ = line.split(" ")
        point = mounted.replace("\\040", " ")
        # If several file systems are mounted at the same point, only the last one is visible. `>=` selects it.
        if path.is_relative_to(point) and len(point) >= len(best):
            best, found = point, (kind, device)
    return found


if __name__ == "__main__":
    _, where, how, length = sys.argv
    time.sleep(REST_SECONDS)
    print(measure_flush(Path(where), how == APPEND, float(length)).model_dump_json())
