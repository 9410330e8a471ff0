"""Server programs from Debian packages, unpacked into the user's cache without root.

`apt-get` finds missing libraries, downloads packages and checks their signatures. It uses its own package lists in the
cache. Packages are unpacked, never installed: none of their scripts runs, and no users or services are created.
"""

from __future__ import annotations

import contextlib
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

from costof.lab.download import FetchError

APT_SECONDS = 600
LISTS_ARE_FRESH_SECONDS = 86_400
#: The subfolder that holds a program's unpacked packages. Beside it are scripts that run the unpacked programs.
FILES = "files"


@dataclass(frozen=True)
class Packages:
    """The Debian packages that provide the program `name`.

    - `names`: the packages to unpack. Libraries that they need are unpacked too.
    - `programs`: file patterns of the executables, such as 'usr/sbin/mariadbd'. The first pattern matches the program
      `name`.
    - `beside`: patterns of other files that the program expects in its own folder.
    - `extension`: the last part of the name of one more package. For PostgreSQL 15, 'pgaudit' means
      postgresql-15-pgaudit.
    """

    name: str
    names: Sequence[str]
    programs: Sequence[str]
    beside: Sequence[str] = ()
    extension: str | None = None

    @property
    def origin(self) -> str:
        return f"the distribution's {', '.join(self.names)}, with libraries that this machine lacks"

    def fetch(self) -> None:
        """Fetch and unpack the packages, over earlier ones. Raises `FetchError`, and `OSError` for a full disk."""
        place = fetched_folder(self.name)

        def arrange(folder: Path) -> None:
            files = folder / FILES
            for pattern in self.programs:
                executables = sorted(path.relative_to(files) for path in files.glob(pattern))
                if not executables:
                    raise FetchError(f"the package {self.names[0]} has no file {pattern}")
                for path in executables:
                    _write_runner(folder / path, place / FILES / path, folder, place)
            first = folder / self.programs[0]
            for path in (path for pattern in self.beside for path in files.glob(pattern)):
                first.with_name(path.name).symlink_to(place / path.relative_to(folder))
            # Programs look for these two folders relative to their own location, so link to the unpacked ones.
            for name in ("share", "lib"):
                if not (folder / "usr" / name).exists():
                    (folder / "usr" / name).symlink_to(place / FILES / "usr" / name)

        _unpack(self.names, place, arrange, self.extension)


def fetched_folder(program: str) -> Path:
    """Return the folder for a fetched program, with subfolders such as usr/sbin. The folder may not exist yet."""
    return Path(platformdirs.user_cache_dir("costof")) / "programs" / program


def missing_libraries(binary: Path) -> list[str]:
    output = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)


def unpack_libraries(program: str, binary: Path, names: Sequence[str]) -> None:
    """Fetch missing libraries of `binary`, a program that is installed outside the cache.

    The cache gets the libraries, and a script that runs the program with them. Raises the same errors as
    `Packages.fetch`.
    """
    place = fetched_folder(program)
    _unpack(names, place, lambda folder: _write_runner(folder / "usr/bin" / program, binary, folder, place))


def _unpack(names: Sequence[str], place: Path, arrange: Callable[[Path], None], extension: str | None = None) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise FetchError(f"packages are fetched with Debian's {tool}, which is not installed here")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place.parent) as scratch:
        archives, folder = Path(scratch) / "archives", Path(scratch) / "unpacked"
        archives.mkdir()
        folder.mkdir()
        _download(names, archives, extension)
        for archive in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(folder / FILES)], "unpacked")
        arrange(folder)
        if place.exists():
            shutil.rmtree(place)
        folder.rename(place)


def _write_runner(path: Path, program: Path, folder: Path, place: Path) -> None:
    """Write a script that runs the program with the libraries in `folder`.

    The script has paths below `place`, since `folder` is moved to `place` later.
    """
    libraries = {found.parent.relative_to(folder) for found in (folder / FILES).glob("**/lib/*-linux-gnu/*.so*")}
    searched = ":".join(str(place / library) for library in sorted(libraries))
    with_libraries = f"LD_LIBRARY_PATH={shlex.quote(searched)} " if searched else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n{with_libraries}exec {shlex.quote(str(program))} "$@"\n')
    path.chmod(0o755)


def _download(names: Sequence[str], archives: Path, extension: str | None = None) -> None:
    apt = _apt()
    stamp = Path(platformdirs.user_cache_dir("costof")) / "apt" / "updated"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > LISTS_ARE_FRESH_SECONDS:
        _run([*apt, "update"], "brought up to date")
        stamp.touch()
    versions = _planned(apt, names)
    if extension is not None:
        with_extension = [*names, *(f"{name}-{extension}" for name in versions if _is_version_of(name, names))]
        # Go on without the extension if there is no such package. Only studies of the extension need it, and they
        # report its absence.
        with contextlib.suppress(FetchError):
            versions = _planned(apt, with_extension)
            names = with_extension
    # Download only two kinds of dependencies: libraries, and the package of a version. For example, the package
    # 'postgresql' is empty and depends on postgresql-15, which has the programs.
    required = [
        f"{name}={version}"
        for name, version in versions.items()
        if name in names or name.startswith("lib") or _is_version_of(name, names)
    ]
    _run([*apt, "download", *required], "fetched", archives)


def _planned(apt: list[str], names: Sequence[str]) -> dict[str, str]:
    """Return the packages that apt-get would download to install `names`, as {name: version}."""
    # Without --reinstall, apt-get would omit packages that are installed already.
    arguments = ["--print-uris", "-y", "--no-install-recommends", "--reinstall", "install", *names]
    # A line with a package is 'address' name_1%3a2.3-4_amd64.deb 12345 SHA256:…
    lines = (line for line in _run([*apt, *arguments], "found").splitlines() if line.startswith("'"))
    return {name: version for name, version, _ in (unquote(line.split()[1]).split("_") for line in lines)}


def _is_version_of(name: str, names: Sequence[str]) -> bool:
    return any(re.fullmatch(rf"{each}-[0-9.]+", name) for each in names)


def _apt() -> list[str]:
    """Return an apt-get command that keeps its lists and archives in the user's cache, without the system's locks."""
    cache = Path(platformdirs.user_cache_dir("costof")) / "apt"
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (cache / folder).mkdir(parents=True, exist_ok=True)
    options = {
        "Dir::State": cache / "state",
        "Dir::Cache": cache / "cache",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Debug::NoLocking": "1",
        # Without this setting, apt run by root would switch to the user _apt, who may not write to the cache.
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
        error = next((line for line in answer.stderr.splitlines() if line.startswith(("E:", "dpkg-deb:"))), "")
        raise FetchError(f"packages could not be {done}: {error or f'{argv[0]} ended with {answer.returncode}'}")
    return answer.stdout
