"""Server programs of the distribution's own packages, unpacked into the user's cache: Debian and its kin, without root.

`apt-get` says which libraries are missing, fetches and checks signatures, with lists of its own below the cache. The
packages are unpacked, never installed: no script of theirs runs, no user and no service is made.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import platformdirs

from costof.lab.wheel import FetchError

APT_SECONDS = 600
LISTS_ARE_FRESH_SECONDS = 86_400
#: Below a program's folder: its packages as they are. What is beside it runs what is in it.
FILES = "files"


@dataclass(frozen=True)
class Packages:
    """`names`: what is unpacked, and all libraries that these lack. `programs`: patterns of what is run, the first one
    under the program's own name. `beside`: what a program is to find in its own folder."""

    names: Sequence[str]
    programs: Sequence[str]
    beside: Sequence[str] = ()


def fetched_folder(program: str) -> Path:
    """Where a program lies or will lie, with usr/sbin and so on below."""
    return Path(platformdirs.user_cache_dir("costof")) / "programs" / program


def missing_libraries(binary: Path) -> list[str]:
    told = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"^\s*(\S+) => not found", told, re.MULTILINE)


def unpack_packages(program: str, packages: Packages) -> None:
    """Fetch and unpack, in place of an earlier one. Raises `FetchError`, and `OSError` where there is no room."""
    place = fetched_folder(program)

    def arrange(folder: Path) -> None:
        files = folder / FILES
        for pattern in packages.programs:
            found = sorted(path.relative_to(files) for path in files.glob(pattern))
            if not found:
                raise FetchError(f"{packages.names[0]} holds no {pattern}")
            for path in found:
                _write_runner(folder / path, place / FILES / path, folder, place)
        first = folder / packages.programs[0]
        for path in (path for pattern in packages.beside for path in files.glob(pattern)):
            first.with_name(path.name).symlink_to(place / path.relative_to(folder))
        # A program is asked for what lies beside its own folder.
        for name in ("share", "lib"):
            if not (folder / "usr" / name).exists():
                (folder / "usr" / name).symlink_to(place / FILES / "usr" / name)

    _unpack(packages.names, place, arrange)


def unpack_libraries(program: str, binary: Path, names: Sequence[str]) -> None:
    """Unpack the libraries of packages for a program that lies elsewhere. Raises as `unpack_packages`."""
    place = fetched_folder(program)
    _unpack(names, place, lambda folder: _write_runner(folder / "usr/bin" / program, binary, folder, place))


def _unpack(names: Sequence[str], place: Path, arrange: Callable[[Path], None]) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise FetchError(f"packages are fetched by {tool}, of Debian and its kin, and there is none here")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place.parent) as scratch:
        archives, folder = Path(scratch) / "archives", Path(scratch) / "unpacked"
        archives.mkdir()
        folder.mkdir()
        _download(names, archives)
        for archive in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(folder / FILES)], "unpacked")
        arrange(folder)
        if place.exists():
            shutil.rmtree(place)
        folder.rename(place)


def _write_runner(path: Path, program: Path, folder: Path, place: Path) -> None:
    """Write a script that becomes the program, with the libraries that lie in `folder`, which goes to `place`."""
    # Debian's folders of one architecture.
    libraries = {found.parent.relative_to(folder) for found in (folder / FILES).glob("**/lib/*-linux-gnu/*.so*")}
    searched = ":".join(str(place / library) for library in sorted(libraries))
    with_libraries = f"LD_LIBRARY_PATH={shlex.quote(searched)} " if searched else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{with_libraries}exec {shlex.quote(str(program))} "$@"\n')
    path.chmod(0o755)


def _download(names: Sequence[str], archives: Path) -> None:
    apt = _apt()
    stamp = Path(platformdirs.user_cache_dir("costof")) / "apt" / "updated"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > LISTS_ARE_FRESH_SECONDS:
        _run([*apt, "update"], "brought up to date")
        stamp.touch()
    # What is installed is listed too, and a name that several packages provide is that of one of them.
    asked = ["--print-uris", "-y", "--no-install-recommends", "--reinstall", "install", *names]
    # 'address' name_1%3a2.3-4_amd64.deb 12345 SHA256:…
    lines = (line for line in _run([*apt, *asked], "found").splitlines() if line.startswith("'"))
    versions = {name: version for name, version, _ in (unquote(line.split()[1]).split("_") for line in lines)}
    # Of what the packages want, their libraries, and what a package of no content stands for, such as postgresql-15.
    wanted = [
        f"{name}={version}"
        for name, version in versions.items()
        if name in names or name.startswith("lib") or any(re.fullmatch(rf"{each}-[0-9.]+", name) for each in names)
    ]
    _run([*apt, "download", *wanted], "fetched", archives)


def _apt() -> list[str]:
    """Return apt-get with lists and archives of the user's own: nothing of the system's is changed or locked."""
    own = Path(platformdirs.user_cache_dir("costof")) / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (own / folder).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State": own / "state",
        "Dir::Cache": own / "cache",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Debug::NoLocking": "1",
        # apt's own user, which it becomes where it is root, may not write here.
        "APT::Sandbox::User": "root",
    }
    return ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]


def _run(argv: list[str], done: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        answer = subprocess.run(
            argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=APT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"{argv[0]} took too long; packages could not be {done}") from None
    if answer.returncode != 0:
        said = next((line for line in answer.stderr.splitlines() if line.startswith(("E:", "dpkg-deb:"))), "")
        raise FetchError(f"packages could not be {done}: {said or f'{argv[0]} ended with {answer.returncode}'}")
    return answer.stdout
