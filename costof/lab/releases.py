"""Downloadable releases of server programs, with which a study can compare versions of a server.

A release is downloaded as a JAR file from a Maven repository. Projects that start databases in unit tests publish
unmodified server programs there in this format. Version and SHA-256 are fixed, and the JAR is unpacked into the user's
cache. Instead of a release, users can also name a folder with programs that they have built, such as /opt/pg19/bin.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from costof.errors import CostofError, ErrorText
from costof.lab.debian import fetched_folder
from costof.lab.download import FetchError, check_hash, download, reason, url_opener

REPOSITORY = "https://repo1.maven.org/maven2"
#: The environment variable for the URL of another repository, such as a company's mirror or
#: file:///home/me/.m2/repository.
REPOSITORY_VARIABLE = "COSTOF_MAVEN_REPOSITORY"


@dataclass(frozen=True)
class Jar:
    """A JAR file of a Maven repository. `coordinates` are 'group:artifact:version'."""

    coordinates: str
    sha256: str

    @property
    def path(self) -> str:
        group, artifact, version = self.coordinates.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"

    def save(self, file: Path) -> None:
        """Download the JAR. Raises `FetchError` if that fails or the hash is wrong, `OSError` if the disk is full."""
        repository = os.environ.get(REPOSITORY_VARIABLE) or REPOSITORY
        opener, address = url_opener(repository)
        try:
            download(opener, f"{address.rstrip('/')}/{self.path}", file)
        except (HTTPException, ValueError, OSError) as error:
            where = urlsplit(address).hostname or address
            raise FetchError(f"{self.coordinates} could not be fetched from {where}: {reason(error)}") from None
        check_hash(self.coordinates, file, self.sha256)


@dataclass(frozen=True)
class Release:
    """A release of a server program that can be fetched.

    `series` is the part of the version by which users choose a release, such as '18' for version 18.1. `jars` has the
    JAR for each machine (uname -m). `unpack` unpacks a JAR into a folder, in which `binary` is then the program's path.
    `read_version` runs the program and returns its version.
    """

    program: str
    series: str
    version: str
    jars: Mapping[str, Jar]
    unpack: Callable[[Path, Path], None]
    binary: str
    read_version: Callable[[Path], str]

    @property
    def name(self) -> str:
        return f"{self.program}@{self.series}"

    @property
    def origin(self) -> str:
        jar = self.jars.get(platform.machine()) or next(iter(self.jars.values()))
        return f"the Maven artifact {jar.coordinates}"

    @property
    def folder(self) -> Path:
        return fetched_folder(f"{self.program}@{self.version}")

    @property
    def path(self) -> Path:
        return self.folder / self.binary

    def locate(self) -> str:
        """Return text such as '18.1 at /home/me/.cache/…'. Raises `CostofError` if the release is missing or fails."""
        if not self.path.is_file():
            raise CostofError(ErrorText.RELEASE_NOT_FETCHED, name=self.name)
        return f"{self.read_version(self.path)} at {self.path}"

    def fetch(self) -> None:
        """Download and unpack the release into `folder`. The folder appears only when it is complete.

        Raises `FetchError`, and `OSError` if the disk is full.
        """
        machine = platform.machine()
        if machine not in self.jars:
            raise FetchError(f"{self.name} is packed only for {' and '.join(self.jars)}, not for {machine}")
        jar = self.jars[machine]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=self.folder.parent) as scratch:
            file, folder = Path(scratch) / "release.jar", Path(scratch) / "unpacked"
            jar.save(file)
            folder.mkdir(mode=0o755)
            self.unpack(file, folder)
            program = folder / self.binary
            if not program.is_file():
                raise FetchError(f"{jar.coordinates} has no {self.binary}")
            program.chmod(0o755)
            if self.folder.exists():
                shutil.rmtree(self.folder)
            folder.rename(self.folder)


def find_release(version: str, program: str, releases: Mapping[str, Release]) -> Path:
    """Return the path of `program` in the given version.

    `version` is a key of `releases`, such as '18', or the absolute path of a folder with the user's own programs.

    Raises `UNKNOWN_RELEASE`, `RELEASE_NOT_FETCHED` and `NO_PROGRAM_IN_FOLDER`.
    """
    check_folder(version, program)
    if version.startswith("/"):
        return (Path(version) / program).resolve()
    release = releases.get(version)
    if release is None:
        raise CostofError(ErrorText.UNKNOWN_RELEASE, program=program, version=version, allowed=", ".join(releases))
    if not release.path.is_file():
        raise CostofError(ErrorText.RELEASE_NOT_FETCHED, name=release.name)
    return release.path


def check_folder(version: str, program: str) -> None:
    """Raise `NO_PROGRAM_IN_FOLDER` if `version` is the absolute path of a folder without this program."""
    path = Path(version) / program
    if version.startswith("/") and not (path.is_file() and os.access(path, os.X_OK)):
        raise CostofError(ErrorText.NO_PROGRAM_IN_FOLDER, program=program, folder=version)


def copy_if_private(program: Path, new_folder: Callable[[], Path]) -> Path:
    """Return a path of the program that every user may reach: the program's own path, or the path of a new copy.

    A copy is needed because root's cache is in a folder that other users may not enter, and PostgreSQL refuses to run
    as root. The copy has all files of the release. It consists of hard links if the file system permits it.
    """
    if all(folder.stat().st_mode & stat.S_IXOTH for folder in program.parents):
        return program
    release = program.parent.parent
    copy = new_folder() / "release"
    shutil.copytree(release, copy, symlinks=True, copy_function=_link_or_copy)
    copy.parent.chmod(0o755)
    return copy / program.relative_to(release)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)


def unpack_archive(jar: Path, folder: Path) -> None:
    """Unpack the tar archive in a JAR. Raises `FetchError` if there is none."""
    with zipfile.ZipFile(jar) as packed:
        member = next((name for name in packed.namelist() if name.endswith(".txz")), None)
        if member is None:
            raise FetchError(f"{jar.name} has no file *.txz")
        archive = io.BytesIO(packed.read(member))
    with tarfile.open(fileobj=archive) as files:
        # Python before 3.11.4 has no extraction filters. A filter is only a second safeguard, because the hash has been
        # checked.
        files.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        files.extractall(folder)  # noqa: S202  # see above


def unpack_folder(member: str, *prefixes: str) -> Callable[[Path, Path], None]:
    """Return a function that unpacks a part of a JAR into a folder.

    The part is the files of the folder `member` whose names begin with one of `prefixes`.
    """

    def unpack(jar: Path, folder: Path) -> None:
        with zipfile.ZipFile(jar) as packed:
            for name in packed.namelist():
                path = PurePosixPath(name)
                inside = path.is_relative_to(member) and str(path.relative_to(member))
                if inside and inside.startswith(prefixes) and not name.endswith("/"):
                    target = folder / inside
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with packed.open(name) as source, target.open("wb") as file:
                        shutil.copyfileobj(source, file)

    return unpack
