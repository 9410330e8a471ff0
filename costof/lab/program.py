"""Where the lab's server programs are: what the user names, PATH, the system folders, what was unpacked or fetched."""

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

# scripts/system-packages puts programs here whose package would also start a service of the machine.
UNPACKED = Path("/usr/local/lib/costof")
# 'haproxy haproxy 2.6.12-1+deb12u4': file, package, version; and when it was last looked for newer ones.
VERSIONS = "versions"
NOT_UNPACKED = {VERSIONS, "looked"}
#: A program that has said nothing of itself by then does not run.
VERSION_SECONDS = 120.0
# Debian keeps servers out of an ordinary user's PATH.
FOLDERS = (Path("/usr/sbin"), Path("/usr/local/sbin"), UNPACKED)


def find_program(name: str, package: str, folders: Sequence[Path] = ()) -> Path:
    """Path of the program: COSTOF_<NAME>, a hyphen as '_', else on PATH, else in `folders` of its own or in `FOLDERS`,
    else what `costof fetch` has fetched.

    Raises `PROGRAM_MISSING`.
    """
    variable = _variable(name)
    named = os.environ.get(variable)
    if named:
        if not _is_program(Path(named)):
            detail = f"{variable}={named} is no program"
            raise CostofError(
                ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=variable
            )
        return Path(named).absolute()
    on_path = shutil.which(name)
    fetched = [fetched_folder(name) / "usr" / folder for folder in ("sbin", "bin")]
    candidates = [Path(on_path)] if on_path else [folder / name for folder in (*folders, *FOLDERS, *fetched)]
    for candidate in candidates:
        if _is_program(candidate):
            return candidate.absolute()
    detail = "none on PATH nor in " + ", ".join(map(str, (*folders, *FOLDERS)))
    raise CostofError(ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=variable)


def located(find: Callable[[], Path], version: Callable[[Path], str]) -> Callable[[], str]:
    """Return what a program module's `NEEDED` has: a function that says such as '5.68 at /usr/bin/stunnel'."""

    def locate() -> str:
        binary = find()
        return f"{version(binary)} at {binary}"

    return locate


def unpacked_from(folder: Path = UNPACKED) -> dict[str, str]:
    """Return the package and version of what lies in the folder, by name; '' where nobody wrote that down."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name not in NOT_UNPACKED)
        told = (folder / VERSIONS).read_text() if (folder / VERSIONS).is_file() else ""
    except OSError:
        return {}
    known = dict(line.split(" ", 1) for line in told.splitlines() if " " in line)
    return {name: known.get(name, "") for name in names}


def first_words(argv: list[str], name: str, package: str) -> str:
    """The first line that the program of this name says of itself, such as its version.

    Raises `PROGRAM_MISSING` when it does not run.
    """
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=VERSION_SECONDS, check=False)
        lines = (answer.stdout + answer.stderr).strip().splitlines()
        failed = answer.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        lines, failed = [str(error)], True
    if failed or not lines:
        detail = f"{argv[0]} does not run: {lines[0] if lines else 'it says nothing'}"
        raise CostofError(
            ErrorText.PROGRAM_MISSING, program=name, detail=detail, package=package, variable=_variable(name)
        )
    return lines[0]


def _variable(name: str) -> str:
    return f"COSTOF_{name.upper().replace('-', '_')}"


def with_descriptors(most: int, argv: Sequence[str]) -> list[str]:
    """Give a program as many file descriptors as it may have, up to `most`."""
    raised = f'ulimit -n {most} 2>/dev/null || ulimit -n "$(ulimit -Hn)"; exec "$0" "$@"'
    return ["sh", "-c", raised, *argv]


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@dataclass(frozen=True)
class Counters:
    """What the servers themselves have counted so far; `None` where they do not tell.

    `tls_connections` has one entry for each protocol version, such as {'TLSv1.3': 12}, or one 'TLS' for all of them.
    `shared`: other clients move them too.
    """

    connections: int | None = None
    tls_connections: dict[str, int] | None = None
    shared: bool = False

    def plus(self, other: Counters) -> Counters:
        """Add those of two members."""
        if self.connections is None or other.connections is None:
            return Counters()
        tls = None
        if self.tls_connections is not None and other.tls_connections is not None:
            tls = dict(Counter(self.tls_connections) + Counter(other.tls_connections))
        return Counters(self.connections + other.connections, tls, self.shared or other.shared)

    def since(self, earlier: Counters) -> Counters:
        """Return what moved since an earlier reading."""
        if self.connections is None or earlier.connections is None:
            return Counters()
        connections = self.connections - earlier.connections
        if self.tls_connections is None:
            return Counters(connections, None, self.shared)
        before = earlier.tls_connections or {}
        moved = {version: count - before.get(version, 0) for version, count in self.tls_connections.items()}
        return Counters(connections, moved, self.shared)


@dataclass(frozen=True)
class Description:
    """The servers in words, for the environment of a result."""

    versions: dict[str, str]
    topology: str
    facts: dict[str, str] = field(default_factory=dict)
