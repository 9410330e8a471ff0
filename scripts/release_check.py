"""`make release-check`: check that a release is complete, and print a line for each error.

The tag, the changelog and each file in dist/ must have the version of `engine/Cargo.toml`.
"""

from __future__ import annotations

import email
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Names of architectures in readelf's output, by their names in wheels.
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
GLIBC = (2, 28)
#: Libraries that every Linux of the tag manylinux_2_28 has (PEP 600).
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
SYSTEM_LIBRARIES |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def release_errors(root: Path, tag: str) -> Iterator[str]:
    """Yield the errors of a release. `tag` is the tag of the commit, or ''."""
    version = tomllib.loads((root / "engine/Cargo.toml").read_text())["workspace"]["package"]["version"]
    if tag != f"v{version}":
        yield f"the version is {version}, but the commit's tag is {tag or 'none'}; run: git tag v{version}"
    yield from changelog_errors((root / "CHANGELOG.md").read_text(), version)
    yield from openssl_errors(root)
    expected = {f"costof-{version}.tar.gz", *(f"costof-{version}-py3-none-{tags(machine)}.whl" for machine in MACHINES)}
    files = {path.name for path in (root / "dist").glob("*")}
    if files != expected:
        listed = ", ".join(sorted(files)) or "nothing"
        yield f"dist/ contains {listed}, not {', '.join(sorted(expected))}; run: make wheels"
        return
    for machine in MACHINES:
        yield from wheel_errors(root / "dist" / f"costof-{version}-py3-none-{tags(machine)}.whl", machine, version)
    with tarfile.open(root / "dist" / f"costof-{version}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"engine/Cargo.lock", "packaging/scripts/costof", "pyproject.toml", "scripts/build_backend.py", "LICENSE"}
    if needed - names:
        yield f"the source distribution lacks {', '.join(sorted(needed - names))}"


def tags(machine: str) -> str:
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"


def changelog_errors(text: str, version: str) -> Iterator[str]:
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    if any(heading.lower().startswith("unreleased") for heading in headings):
        yield "CHANGELOG.md has an entry 'Unreleased'; replace it by version and date"
    elif not headings or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", headings[0]):
        yield f"CHANGELOG.md does not begin with '## {version} (YYYY-MM-DD)'"


def openssl_errors(root: Path) -> Iterator[str]:
    """Yield errors of the OpenSSL version, which Cargo.lock has in the form 300.5.5+3.5.5."""
    locked = tomllib.loads((root / "engine/Cargo.lock").read_text())["package"]
    built = next(package["version"] for package in locked if package["name"] == "openssl-src").partition("+")[2]
    component = json.loads((root / "engine/openssl.cdx.json").read_text())["components"][0]
    if not component["version"] == built == component["purl"].partition("@")[2] or f":{built}:" not in component["cpe"]:
        yield f"engine/openssl.cdx.json has OpenSSL {component['version']}, but Cargo.lock builds {built}"


def wheel_errors(path: Path, machine: str, version: str) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel, tempfile.TemporaryDirectory() as folder:
        info = f"costof-{version}.dist-info"
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
        if (metadata["Name"], metadata["Version"]) != ("costof", version):
            yield f"the metadata of {path.name} has {metadata['Name']} {metadata['Version']}"
        needed = {f"{info}/sboms/{name}" for name in ("costof-engine.cyclonedx.json", "openssl.cdx.json")}
        data = {"scripts/costof", "scripts/costof-engine", "data/share/man/man1/costof.1"}
        needed |= {f"{info}/licenses/LICENSE"} | {f"costof-{version}.data/{name}" for name in data}
        if needed - set(wheel.namelist()):
            yield f"{path.name} lacks {', '.join(sorted(needed - set(wheel.namelist())))}"
            return
        if not wheel.getinfo(f"costof-{version}.data/scripts/costof").external_attr >> 16 & 0o100:
            yield f"the command of {path.name} is not executable"
        for name, here in product(wheel.namelist(), (ROOT, Path.home())):
            if f"{here}/".encode() in wheel.read(name):
                yield f"{path.name} contains paths below {here} in {name}"
        engine = Path(wheel.extract(f"costof-{version}.data/scripts/costof-engine", folder))
        yield from (f"the engine of {path.name} {error}" for error in engine_errors(engine, machine))


def engine_errors(engine: Path, machine: str) -> Iterator[str]:
    """Yield the reasons why the engine would not run on every Linux of this architecture that manylinux_2_28 covers."""
    output = subprocess.run(
        ["readelf", "--wide", "--file-header", "--dynamic", "--version-info", str(engine)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    ).stdout
    if MACHINES[machine] not in output:
        yield f"is not for {machine}"
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", output))
    if needed - SYSTEM_LIBRARIES:
        yield f"needs {', '.join(sorted(needed - SYSTEM_LIBRARIES))}"
    newest = max(tuple(map(int, each.split("."))) for each in re.findall(r"GLIBC_([\d.]+)", output))
    if newest > GLIBC:
        yield f"needs glibc {'.'.join(map(str, newest))}"


def main() -> None:
    tag = subprocess.run(["git", "describe", "--tags", "--exact-match"], cwd=ROOT, capture_output=True, text=True)
    errors = list(release_errors(ROOT, tag.stdout.strip()))
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout:
        errors.append("there are uncommitted changes")
    if errors:
        sys.exit("\n".join(f"release-check: {error}" for error in errors))
    sys.stdout.write(f"release-check: {tag.stdout.strip()} is ready for release\n")


if __name__ == "__main__":
    main()
