"""The program `postgres`: where it and its files are, and the settings that the lab starts it with."""

from __future__ import annotations

from pathlib import Path

from costof.lab.debian import fetched_folder
from costof.lab.program import UNPACKED, find_program, first_words

PACKAGE = "postgresql"
#: Where a distribution has its versions; scripts/system-packages unpacks the package as it is.
DISTRIBUTED = "usr/lib/postgresql"

# What differs from PostgreSQL's defaults, and why.
SETTINGS = {
    # One line for each connection, which says whether it is encrypted: the server's own evidence.
    "log_connections": "on",
    # Enough for the connections of all arms and workloads, which stand through the run.
    "max_connections": "1000",
    # Its work would fall into some slices and not into others.
    "autovacuum": "off",
    # In the data's folder, where it goes with the lab; in /dev/shm it would outlive a killed server.
    "dynamic_shared_memory_type": "mmap",
    # For queries larger than any that is measured, by a library that a lab does not always have.
    "jit": "off",
    # What errors say is told apart by its words, where SQLSTATE alone does not tell.
    "lc_messages": "C",
}


def find_postgres() -> Path:
    """COSTOF_POSTGRES, the distribution's, or the one unpacked by `make setup`. Raises `PROGRAM_MISSING`."""
    versions = [
        folder / "bin"
        for root in (Path("/"), UNPACKED / PACKAGE, fetched_folder("postgres"))
        for folder in sorted((root / DISTRIBUTED).glob("*"), key=_version, reverse=True)
    ]
    # Where it really is, since its other programs lie beside it.
    return find_program("postgres", PACKAGE, versions).resolve()


def postgres_version(binary: Path) -> str:
    """Such as '15.18 (Debian 15.18-0+deb12u1)'. Raises `PROGRAM_MISSING` when it does not run."""
    return first_words([str(binary), "--version"], "postgres", PACKAGE).removeprefix("postgres (PostgreSQL) ")


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split(".") if part.isdigit())
