"""The program `redis-server`: where it is, and the settings that the lab starts it with."""

from __future__ import annotations

from pathlib import Path

from costof.lab.program import find_program, first_words

PACKAGE = "redis-server"
BINARY = "redis-server"

# What differs from Redis's defaults, and why.
SETTINGS = {
    # Certificates of clients are not part of any arm; Redis asks for them otherwise.
    "tls-auth-clients": "no",
    # A snapshot would be taken in some slices and not in others, by a process of its own.
    "save": '""',
    # Told to standard output, which is the lab's log.
    "logfile": '""',
}


def find_redis() -> Path:
    """COSTOF_REDIS_SERVER, the distribution's, or the one unpacked by `make setup`. Raises `PROGRAM_MISSING`."""
    return find_program(BINARY, PACKAGE)


def redis_version(binary: Path) -> str:
    """Such as '7.0.15'. Raises `PROGRAM_MISSING` when it does not run."""
    # Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0
    words = first_words([str(binary), "--version"], BINARY, PACKAGE).split()
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "unknown")
