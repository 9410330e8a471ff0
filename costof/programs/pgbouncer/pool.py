"""What a pool of PgBouncer's is asked for and has done, and the program itself: all that needs no connection to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from costof.lab.program import find_program, first_words

PACKAGE = "pgbouncer"
ROLE = "pooler"
#: Clients at once, and what waits to be accepted: beyond what a study asks for.
CLIENTS = 10_000
BACKLOG = 4_096


@dataclass(frozen=True)
class Pool:
    """`name` is the database that its clients ask for; `mode` PgBouncer's `pool_mode`."""

    name: str
    mode: str
    size: int


@dataclass(frozen=True)
class Totals:
    """What a pool has done so far: transactions, and how long clients waited for a connection to the server, in all."""

    transactions: int
    wait_ms: float


def find_pgbouncer() -> Path:
    """COSTOF_PGBOUNCER, the distribution's, or the one unpacked by `make setup`. Raises `PROGRAM_MISSING`."""
    return find_program("pgbouncer", PACKAGE)


def pgbouncer_version(binary: Path) -> str:
    """Such as '1.18.0'. Raises `PROGRAM_MISSING` when it does not run."""
    return first_words([str(binary), "--version"], "pgbouncer", PACKAGE).removeprefix("PgBouncer ")
