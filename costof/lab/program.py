"""Functions that find the lab's server programs, and models of the facts and counters that servers report."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.debian import fetched_folder

# scripts/system-packages unpacks some programs here: installing their packages would start a system service.
UNPACKED = Path("/usr/local/lib/costof")
# Each line of the file `versions` has a program, its package and version: 'haproxy haproxy 2.6.12-1+deb12u4'. The file
# `looked` has the time of the last search for newer versions.
VERSIONS = "versions"
NOT_UNPACKED = {VERSIONS, "looked"}
VERSION_SECONDS = 120.0
# Debian does not have these folders on an ordinary user's PATH.
FOLDERS = (Path("/usr/sbin"), Path("/usr/local/sbin"), UNPACKED)


def find_program(name: str, package: str, folders: Sequence[Path] = ()) -> Path:
    """Return the path of a program. Raises `PROGRAM_MISSING`.

    The path in the environment variable COSTOF_<NAME> (hyphens as '_') comes first. The program is then searched for in
    PATH, in `folders`, in `FOLDERS`, and among the programs fetched by `costof fetch`.
    """
    variable = _variable(name)
    path = os.environ.get(variable)
    if path:
        if not _is_program(Path(path)):
            detail = f"{variable}={path} is not a program"
            raise CostofError(
                ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=variable
            )
        return Path(path).absolute()
    on_path = shutil.which(name)
    fetched = [fetched_folder(name) / "usr" / folder for folder in ("sbin", "bin")]
    candidates = [Path(on_path)] if on_path else [folder / name for folder in (*folders, *FOLDERS, *fetched)]
    for candidate in candidates:
        if _is_program(candidate):
            return candidate.absolute()
    detail = "not found on PATH nor in " + ", ".join(map(str, (*folders, *FOLDERS)))
    raise CostofError(ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=variable)


def find_library(name: str, package: str, folders: Sequence[Path]) -> Path:
    """Return the path of a server's loadable library <name>.so. Raises `PROGRAM_MISSING`.

    The path in the environment variable COSTOF_<NAME> comes first, then the folders.
    """
    variable = _variable(name)
    path = os.environ.get(variable)
    candidates = [Path(path)] if path else [folder / f"{name}.so" for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate.absolute()
    detail = f"{variable}={path} is not a file" if path else "not found in " + ", ".join(map(str, folders))
    raise CostofError(ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=variable)


def located(find: Callable[[], Path], version: Callable[[Path], str]) -> Callable[[], str]:
    """Return a function that finds a program and returns text such as '5.68 at /usr/bin/stunnel'.

    `costof/programs/` modules put such functions into their dictionary `NEEDED`, for `costof doctor`.
    """
    return lambda: f"{version(binary := find())} at {binary}"


def unpacked_from(folder: Path = UNPACKED) -> dict[str, str]:
    """Return package and version of each program in the folder: {"haproxy": "haproxy 2.6.12-1"}; '' if unknown."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name not in NOT_UNPACKED)
        versions = (folder / VERSIONS).read_text() if (folder / VERSIONS).is_file() else ""
    except OSError:
        return {}
    known = dict(line.split(" ", 1) for line in versions.splitlines() if " " in line)
    return {name: known.get(name, "") for name in names}


def first_words(argv: list[str], name: str, package: str) -> str:
    """Run a program and return the first line of its output. Raises `PROGRAM_MISSING` if it fails or prints nothing."""
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=VERSION_SECONDS, check=False)
        lines = (answer.stdout + answer.stderr).strip().splitlines()
        failed = answer.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        lines, failed = [str(error)], True
    if failed or not lines:
        detail = f"{argv[0]} does not run: {lines[0] if lines else 'it prints nothing'}"
        raise CostofError(
            ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=_variable(name)
        )
    return lines[0]


def _variable(name: str) -> str:
    return f"COSTOF_{name.upper().replace('-', '_')}"


def with_descriptors(most: int, argv: Sequence[str]) -> list[str]:
    """Return a command that limits a program to `most` file descriptors, or to the hard limit if that is lower."""
    raised = f'ulimit -n {most} 2>/dev/null || ulimit -n "$(ulimit -Hn)"; exec "$0" "$@"'
    return ["sh", "-c", raised, *argv]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@dataclass(frozen=True)
class Counters:
    """The numbers of connections that the servers themselves have counted; None if they lack the counter.

    `tls_connections` has one entry for each protocol version, such as {'TLSv1.3': 12}, or one entry 'TLS' for all
    versions. If `shared` is true, the counters include connections of other clients.
    """

    connections: int | None = None
    tls_connections: dict[str, int] | None = None
    shared: bool = False

    def plus(self, other: Counters) -> Counters:
        """Return the sums of two servers' counters. A count is None if one of the servers lacks it."""
        if self.connections is None or other.connections is None:
            return Counters()
        tls = None
        if self.tls_connections is not None and other.tls_connections is not None:
            tls = dict(Counter(self.tls_connections) + Counter(other.tls_connections))
        return Counters(self.connections + other.connections, tls, self.shared or other.shared)

    def since(self, earlier: Counters) -> Counters:
        if self.connections is None or earlier.connections is None:
            return Counters()
        connections = self.connections - earlier.connections
        if self.tls_connections is None:
            return Counters(connections, None, self.shared)
        before = earlier.tls_connections or {}
        increases = {version: count - before.get(version, 0) for version, count in self.tls_connections.items()}
        return Counters(connections, increases, self.shared)


@dataclass(frozen=True)
class Description:
    """A description of a service's servers: versions, topology and other facts. It is stored with the results."""

    versions: dict[str, str]
    topology: str
    facts: dict[str, str] = field(default_factory=dict)
