"""The versions of PostgreSQL: the installed one, and the releases that `costof fetch` downloads."""

from __future__ import annotations

from pathlib import Path

from costof.lab.debian import fetched_folder
from costof.lab.program import UNPACKED, find_program, first_words
from costof.lab.releases import Jar, Release, check_folder, copy_if_private, find_release, unpack_archive
from costof.programs.parts import VersionedConfiguration
from costof.programs.postgres.parts import PostgresPart

PACKAGE = "postgresql"
#: The folder in which Debian's packages install each version of PostgreSQL. scripts/system-packages unpacks the package
#: with the same paths.
DISTRIBUTED = "usr/lib/postgresql"


def find_postgres(version: str = "") -> Path:
    """Return the path of PostgreSQL: the installed one or, if `version` is set, that release (`find_release`)."""
    if version:
        return find_release(version, "postgres", RELEASES)
    versions = [
        folder / "bin"
        for root in (Path("/"), UNPACKED / PACKAGE, fetched_folder("postgres"))
        for folder in sorted((root / DISTRIBUTED).glob("*"), key=_version, reverse=True)
    ]
    # Symbolic links are resolved because PostgreSQL's other programs are in the folder of the real file.
    return find_program("postgres", PACKAGE, versions).resolve()


def postgres_version(binary: Path) -> str:
    return first_words([str(binary), "--version"], "postgres", PACKAGE).removeprefix("postgres (PostgreSQL) ")


def _release(version: str, **sha256: str) -> Release:
    """Return a release of PostgreSQL from zonky.io. `sha256` has the JAR's hash for each machine, such as x86_64."""
    packed = "io.zonky.test.postgres:embedded-postgres-binaries-linux"
    names = {"x86_64": "amd64", "aarch64": "arm64v8"}
    jars = {machine: Jar(f"{packed}-{names[machine]}:{version}.0", each) for machine, each in sha256.items()}
    return Release(
        "postgres", version.partition(".")[0], version, jars, unpack_archive, "bin/postgres", postgres_version
    )


#: The releases that `costof fetch` can download, such as postgres@18. The keys are series, such as '18'. The same
#: project has built all of them with the same options, so that they differ only in PostgreSQL's version. (Debian's
#: packages have other options.)
RELEASES = {
    release.series: release
    for release in (
        _release(
            "18.1",
            x86_64="65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934",
            aarch64="ea0f16b754fc0a10d9d8993bbd426c20f8c709b318b28e49b42d9cac1c958b8f",
        ),
        _release(
            "17.7",
            x86_64="ceb1c01cf5e71d6f906b8614982f6ed61e96b3740dd30758fa6262f97e752b69",
            aarch64="85622d56a394c424db4b15185bad31f51848809cb0810fe87059ec38be23caad",
        ),
        _release("16.11", x86_64="7f78235db9c0d94e933e81ec43d00708a5533841d7eb3a9b6b86bb1fd465ae2f"),
        _release(
            "15.15",
            x86_64="7c73da91870b0615b37a8ceb84871bd42f28c3600f87a97ca9747f4a0b8d2dbb",
            aarch64="623ee4c35cfdccd585d4473ff9b51942d465a7f8280687e6b960f56066f58909",
        ),
    )
}


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in folder.name.split(".") if part.isdigit())


class Version(PostgresPart[VersionedConfiguration]):
    configuration_type = VersionedConfiguration

    @classmethod
    def is_needed(cls, configuration: VersionedConfiguration) -> bool:
        return bool(configuration.version)

    @classmethod
    def check(cls, configuration: VersionedConfiguration) -> None:
        check_folder(configuration.version, "postgres")

    def find(self) -> Path:
        return copy_if_private(find_postgres(self.configuration.version), self.server.place.lab.new_folder)

    def evidence(self) -> dict[str, str]:
        return self.server.show(["server_version"])
