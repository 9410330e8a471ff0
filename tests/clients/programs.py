"""Clients in other languages than Python. Each version of a client is built once and kept in the cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from platformdirs import user_cache_path

from tests.support.programs import HANGS_SECONDS

OLDEST_JAVA = 17
HERE = Path(__file__).parent


class Absent(Exception):  # noqa: N818  # nothing is wrong
    """Raised if this machine lacks something that a client needs; the message says what."""


def go() -> list[str]:
    """Return the command of the Go program that runs the test's SQL statements. Raises `Absent`."""
    return [str(go_program(HERE / "go", "Go's driver"))]


def go_program(sources: Path, what: str) -> Path:
    """Build the Go module in `sources` and return its program, which errors call `what`. Raises `Absent`."""
    _need("go", "Go 1.24 or later (https://go.dev/dl)")

    def build(folder: Path) -> None:
        # Download only modules that the program needs. `go mod download` would also download modules that only tests
        # need.
        _fetch(what, ["go", "list", "-deps", "."], sources)
        _build(["go", "build", "-trimpath", "-o", str(folder / "program"), "."], sources)

    return _cached(sources, build) / "program"


def java() -> list[str]:
    """Return the command that runs the statements of `facts` over the JDBC drivers. Raises `Absent`."""
    _need("mvn", "Maven (Debian's package maven)")
    kit = "a Java development kit of version 17 or later (Debian's default-jdk-headless)"
    _need("javac", kit)
    # The output is "javac 17.0.15" or similar.
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
    # The JVM runs only for seconds, so these options make it start fast on one core.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
    return ["java", *quick, "-cp", f"{folder / 'classes'}:{folder / 'libraries'}/*", "costof.RoundTrip"]


def run(command: Sequence[str], trips: Iterable[Sequence[str]]) -> dict[str, list[str]]:
    """Run a client, and return its output lines, by the name of the trip.

    A trip is one execution of the statements of `facts`. Its first field is its name. Further fields are, for example,
    a URL and a password. The client reads the fields from standard input, because other users can read the arguments of
    a process.
    """
    lines = "".join("\t".join(trip) + "\n" for trip in trips)
    done = subprocess.run(
        command, input=lines, capture_output=True, encoding="utf-8", timeout=HANGS_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    facts: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, fact = line.partition("\t")
        facts.setdefault(name, []).append(fact)
    return facts


def _need(program: str, where: str) -> None:
    if shutil.which(program) is None:
        raise Absent(f"{program} is missing: install {where}")


def _fetch(what: str, argv: Sequence[str], folder: Path) -> None:
    """Run a command that downloads something. Raises `Absent` if that fails, because a missing network is no bug."""
    done = _call(argv, folder)
    if done.returncode != 0:
        # Maven may write only colour codes to one of the two streams, so skip lines without words.
        words = (line for line in (done.stderr + done.stdout).splitlines() if line.count(" "))
        raise Absent(f"{what} cannot be had: {next(words, argv[0])}")


def _build(argv: Sequence[str], folder: Path) -> None:
    done = _call(argv, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def _call(argv: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def _cached(sources: Path, build: Callable[[Path], None]) -> Path:
    """Return a folder in the cache that `build` fills. If a file in `sources` changes, it is filled again."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes() + b"\0")
    cache = user_cache_path("costof") / "test-clients"
    final = cache / f"{sources.name}-{digest.hexdigest()[:16]}"
    if not final.exists():
        cache.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=cache))
        try:
            build(folder)
            # Renaming makes the complete folder appear at once, unless another process was faster.
            if not final.exists():
                folder.rename(final)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return final
