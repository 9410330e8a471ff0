"""The database that a run makes on a user's own server: its name, its marker, and signs of life.

It must not exist before, or be empty; it carries a marker, and what is dropped is what that says this run has made.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from costof.errors import CostofError, ErrorText

BEAT_SECONDS = 10.0
#: Nine beats may be lost to a server that elects a new primary before a run is taken for dead.
DEAD_AFTER_SECONDS = 90.0


class Heartbeat:
    """Calls `beat` from a thread of its own until it is stopped. One that fails is made up for by the next."""

    def __init__(self, beat: Callable[[], None], seconds: float = BEAT_SECONDS) -> None:
        self._beat = beat
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """The first beat is the caller's, so that a failure of it is told. Raises what `beat` raises."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            with suppress(Exception):
                self._beat()


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
        """Return whether the process runs, or None where that cannot be seen: it is on another machine."""
        if self.machine != _machine():
            return None
        return _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _machine() -> str:
    """Identify this start of the machine and this container: process numbers are told apart by both."""
    told = [socket.gethostname()]
    with suppress(OSError):
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        told.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(told).encode()).hexdigest()[:16]


def _started(pid: int) -> int | None:
    """Return field 22 of proc(5)'s stat, after the name that may hold anything; None of a process that has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


MARKER_NAME = "costof"
MARKER = "made by costof"
PREFIX = "costof_"
#: MongoDB's limit is 63, MySQL's 64.
LONGEST_DATABASE_NAME = 63
#: What makes a name of a run's own that of no other.
UNIQUE_BYTES = 3
_NEW_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9_]+_[0-9a-f]{{{2 * UNIQUE_BYTES}}}")
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST_DATABASE_NAME - 1}}}")
_SERVERS_OWN = frozenset(
    {"admin", "config", "local"}
    | {"mysql", "sys", "information_schema", "performance_schema"}
    | {"postgres", "public", "template0", "template1"}
)


#: Read from somebody's server and put into statements, so letters, digits and underscores alone.
Table = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]


class Marker(BaseModel):
    """What a run writes of itself into its database before anything else.

    `tables`: all that it will make there. `made_database`: it was not there before, so it goes too. What a run has made
    goes before its marker: whatever ends that half-way, the rest can still be told for what it is.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    maker: Maker
    tables: list[Table]
    made_database: bool


def read_marker(content: object) -> Marker | None:
    """Return the marker, if it is intact."""
    try:
        return Marker.model_validate(content)
    except ValidationError:
        return None


def read_marker_row(rows: Sequence[Sequence[Any]]) -> Marker | None:
    """Return the marker of a table's one row, `run` and `about`, if it is intact."""
    try:
        ((run, about),) = rows
        marker = read_marker(json.loads(about))
    except (ValueError, TypeError):
        return None
    return marker if marker is not None and marker.run == run else None


def choose_database_name(chosen: str | None, run_name: str) -> str:
    """Return the user's choice, or a new name. Raises `BAD_DATABASE`."""
    if chosen is None:
        # Of no other run, even where two machines start one in the same second.
        return database_name(run_name, secrets.token_hex(UNIQUE_BYTES))
    if not could_be_own(chosen):
        raise CostofError(ErrorText.BAD_DATABASE, name=chosen, most=LONGEST_DATABASE_NAME)
    return chosen


def could_be_own(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _SERVERS_OWN


def is_new_name(name: str) -> bool:
    """Return whether a run that chose a name by itself could have chosen this one."""
    return could_be_own(name) and _NEW_NAME.fullmatch(name) is not None


def database_name(run_name: str, unique: str) -> str:
    """Return `costof_<run>_<unique>` in the characters and the length that every server allows."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", run_name).strip("_")
    return f"{PREFIX}{words[: LONGEST_DATABASE_NAME - len(unique) - 8]}_{unique}"


def granted_on(chosen: str | None, grant: str) -> str:
    """Complete a grant in an error: an account that may use one database alone is helped by --database."""
    return grant if chosen else f"{grant} (or grants it on one database, which --database names)"


def describe_writes(chosen: str | None, target: str, records: int, size: str, table: str) -> list[str]:
    """Say every write of a run. A name that is not chosen is not known yet: each run takes a new one."""
    database = chosen or f"{PREFIX}<run>_<random>"
    how = "refuse when it holds anything" if chosen else "a new one for each run, unless --database names it"
    return [
        f"create database {database} on {target}; {how}",
        f"insert the marker '{MARKER}' into {database}.{MARKER_NAME}",
        f"insert {records:,} records of about {size} into {database}.{table}",
        f"drop database {database} at the end, if its marker is this run's, with the tables that the run made"
        + (" (of one that was there, and empty, the tables alone)" if chosen else ""),
    ]
