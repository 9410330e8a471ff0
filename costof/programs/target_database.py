"""The database that a run creates on a user's own server: its name, its marker, and the run's heartbeat.

The database must be empty or must not exist before the run. The run writes a marker (a list of its tables) into the
database, and the clean-up drops only what the marker lists.
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
#: A run counts as dead after this time without a heartbeat, that is, after nine failed heartbeats in a row. Fewer
#: heartbeats fail while a replica set elects a new primary.
DEAD_AFTER_SECONDS = 90.0


class Heartbeat:
    """A thread that calls `beat` every `seconds` until it is stopped. It ignores errors after the first call."""

    def __init__(self, beat: Callable[[], None], seconds: float = BEAT_SECONDS) -> None:
        self._beat = beat
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Call `beat` once in the caller's thread, so that the caller gets its error, then start the thread."""
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
    """The process that created a run's database.

    `machine` identifies the machine and container in which the process number `pid` is unique. `host` is the host name,
    for messages. `started` is the process's start in clock ticks since boot. It distinguishes the process from a later
    one with the same number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    machine: str
    pid: int
    started: int

    @classmethod
    def this_process(cls) -> Maker:
        started = _start_ticks(os.getpid()) or 0
        return cls(host=socket.gethostname(), machine=_machine(), pid=os.getpid(), started=started)

    def is_alive(self) -> bool | None:
        """Return whether the process is running, or None if it is on another machine."""
        if self.machine != _machine():
            return None
        return _start_ticks(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _machine() -> str:
    """Return a hash of host name, boot ID and process namespace, within which process numbers are unique."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _start_ticks(pid: int) -> int | None:
    """Return a process's start time (field 22 of /proc/<pid>/stat, see proc(5)); None if the process has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


MARKER_NAME = "costof"
MARKER = "made by costof"
PREFIX = "costof_"
#: Maximum length of a database name. MongoDB's limit is 63, MySQL's 64.
LONGEST_DATABASE_NAME = 63
#: Number of random bytes in a generated name, which make it unique.
UNIQUE_BYTES = 3
_GENERATED_NAME = re.compile(rf"{PREFIX}[A-Za-z0-9_]+_[0-9a-f]{{{2 * UNIQUE_BYTES}}}")
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST_DATABASE_NAME - 1}}}")
_RESERVED_NAMES = frozenset(
    {"admin", "config", "local"}
    | {"mysql", "sys", "information_schema", "performance_schema"}
    | {"postgres", "public", "template0", "template1"}
)


#: A table name read from a user's server: only letters, digits and underscores, since it becomes part of statements.
Table = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]


class Marker(BaseModel):
    """The record that a run writes into its database before anything else, so that its data can be recognized later.

    `tables` are all tables that the run will create. `made_database` is True if the run has created the database, which
    the clean-up then drops too. The marker is dropped last, so that an interrupted clean-up can be continued.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    run: str
    maker: Maker
    tables: list[Table]
    made_database: bool


def read_marker(content: object) -> Marker | None:
    """Return the marker (a run's record) that `content` holds, or None if it is damaged."""
    try:
        return Marker.model_validate(content)
    except ValidationError:
        return None


def read_marker_row(rows: Sequence[Sequence[Any]]) -> Marker | None:
    """Return a run's record from the only row (`run`, `about`) of a marker table; None if it is missing or damaged."""
    try:
        ((run, about),) = rows
        marker = read_marker(json.loads(about))
    except (ValueError, TypeError):
        return None
    return marker if marker is not None and marker.run == run else None


def choose_database_name(chosen: str | None, run_name: str) -> str:
    """Return `chosen`, the user's name for the database, or a generated name. Raises `BAD_DATABASE`."""
    if chosen is None:
        # The name is unique even if two machines start a run in the same second.
        return database_name(run_name, secrets.token_hex(UNIQUE_BYTES))
    if not is_allowed_name(chosen):
        raise CostofError(ErrorText.BAD_DATABASE, name=chosen, most=LONGEST_DATABASE_NAME)
    return chosen


def is_allowed_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name.lower() not in _RESERVED_NAMES


def is_generated_name(name: str) -> bool:
    """Return whether a name has the form that `database_name` generates."""
    return is_allowed_name(name) and _GENERATED_NAME.fullmatch(name) is not None


def database_name(run_name: str, unique: str) -> str:
    """Return `costof_<run>_<unique>`, cut to the maximum length, with only characters that every server allows."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", run_name).strip("_")
    return f"{PREFIX}{words[: LONGEST_DATABASE_NAME - len(unique) - 8]}_{unique}"


def grant_with_hint(chosen: str | None, grant: str) -> str:
    """Return the GRANT statement for an error message.

    If the user has not chosen a database, add a hint: with --database, a grant on one database is enough.
    """
    return grant if chosen else f"{grant} (or grants it on one database, which --database names)"


def describe_writes(chosen: str | None, target: str, records: int, size: str, table: str) -> list[str]:
    """Return one description for each write of a run (`--dry-run`).

    `chosen` is the user's own name for the database, or None for a generated name.
    """
    database = chosen or f"{PREFIX}<run>_<random>"
    how = "refuse if it holds anything" if chosen else "a new one for each run, unless --database names it"
    return [
        f"create database {database} on {target}; {how}",
        f"insert the marker '{MARKER}' into {database}.{MARKER_NAME}",
        f"insert {records:,} records of about {size} into {database}.{table}",
        f"drop database {database} at the end, if its marker is this run's, with the tables that the run created"
        + (" (only the tables, if the database existed before)" if chosen else ""),
    ]
