"""Who made a database: a process, told so that another one on the same machine can see whether it still lives."""

from __future__ import annotations

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict


class Maker(BaseModel):
    """`machine` is the same for processes that see each other under the same numbers; `host` is for people.

    `started`: clock ticks from the machine's start to the process's, since numbers are given again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    machine: str
    pid: int
    started: int

    @classmethod
    def this_process(cls) -> Maker:
        return cls(host=socket.gethostname(), machine=_machine(), pid=os.getpid(), started=_started(os.getpid()) or 0)

    def lives(self) -> bool | None:
        """Whether the process runs; None where that cannot be seen from here, since it is on another machine."""
        if self.machine != _machine():
            return None
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _machine() -> str:
    """Of this start of the machine and this container: process numbers are told apart by both."""
    told = [socket.gethostname()]
    with suppress(OSError):
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        told.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _started(pid: int) -> int | None:
    """Field 22 of proc(5)'s stat, after the name that may hold anything; None for a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
