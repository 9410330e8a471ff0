"""`make release-check`: whether what stands here and in dist/ may be released, in a line; else a line for each reason.

The version is that of `engine/Cargo.toml`; a tag, the changelog and each file in dist/ must agree with it.
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
#: By the machine in a wheel's name, as readelf names it.
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}
GLIBC = (2, 28)
#: What every Linux of the tag manylinux_2_28 has (PEP 600).
SYSTEM_LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
SYSTEM_LIBRARIES |= {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def problems(root: Path, tag: str) -> Iterator[str]:
    """`tag`: of the commit that is to be released; '' where it has none."""
    version = tomllib.loads((root / "engine/Cargo.toml").read_text())["workspace"]["package"]["version"]
    if tag != f"v{version}":
        yield f"the version is {version}, and the commit's tag is {tag or 'none'}: git tag v{version}"
    yield from of_changelog((root / "CHANGELOG.md").read_text(), version)
    yield from of_openssl(root)
    expected = {f"costof-{version}.tar.gz", *(f"costof-{version}-py3-none-{tags(machine)}.whl" for machine in MACHINES)}
    there = {path.name for path in (root / "dist").glob("*")}
    if there != expected:
        yield f"dist/ holds {', '.join(sorted(there)) or 'nothing'}; `make wheels` makes {', '.join(sorted(expected))}"
        return
    for machine in MACHINES:
        yield from of_wheel(root / "dist" / f"costof-{version}-py3-none-{tags(machine)}.whl", machine, version)
    with tarfile.open(root / "dist" / f"costof-{version}.tar.gz") as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"engine/Cargo.lock", "packaging/scripts/costof", "pyproject.toml", "scripts/build_backend.py", "LICENSE"}
    if needed - names:
        yield f"the source distribution lacks {', '.join(sorted(needed - names))}"


def tags(machine: str) -> str:
    return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{machine}"


def of_changelog(text: str, version: str) -> Iterator[str]:
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    if any(heading.lower().startswith("unreleased") for heading in headings):
        yield "CHANGELOG.md has an entry 'Unreleased': name the version and the day"
    elif not headings or not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", headings[0]):
        yield f"CHANGELOG.md does not begin with '## {version} (YYYY-MM-DD)'"


def of_openssl(root: Path) -> Iterator[str]:
    """The lock file says what is built, as 300.5.5+3.5.5."""
    locked = tomllib.loads((root / "engine/Cargo.lock").read_text())["package"]
    built = next(package["version"] for package in locked if package["name"] == "openssl-src").partition("+")[2]
    told = json.loads((root / "engine/openssl.cdx.json").read_text())["components"][0]
    if not told["version"] == built == told["purl"].partition("@")[2] or f":{built}:" not in told["cpe"]:
        yield f"engine/openssl.cdx.json tells of OpenSSL {told['version']}, and Cargo.lock builds {built}"


def of_wheel(path: Path, machine: str, version: str) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel, tempfile.TemporaryDirectory() as folder:
        info = f"costof-{version}.dist-info"
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
        if (metadata["Name"], metadata["Version"]) != ("costof", version):
            yield f"{path.name} says that it is {metadata['Name']} {metadata['Version']}"
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
                yield f"{path.name} names files of {here}, in {name}"
        engine = Path(wheel.extract(f"costof-{version}.data/scripts/costof-engine", folder))
        yield from (f"the engine of {path.name} {problem}" for problem in of_engine(engine, machine))


def of_engine(engine: Path, machine: str) -> Iterator[str]:
    """What of a program could not run, or would measure by another library, on another machine."""
    said = subprocess.run(
        ["readelf", "--wide", "--file-header", "--dynamic", "--version-info", str(engine)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
    ).stdout
    if MACHINES[machine] not in said:
        yield f"is of another machine than {machine}"
    needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", said))
    if needed - SYSTEM_LIBRARIES:
        yield f"needs {', '.join(sorted(needed - SYSTEM_LIBRARIES))}"
    newest = max(tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([\d.]+)", said))
    if newest > GLIBC:
        yield f"needs glibc {'.'.join(map(str, newest))}"


def main() -> None:
    told = subprocess.run(["git", "describe", "--tags", "--exact-match"], cwd=ROOT, capture_output=True, text=True)
    found = list(problems(ROOT, told.stdout.strip()))
    if subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True).stdout:
        found.append("there are changes that are in no commit")
    if found:
        sys.exit("\n".join(f"release-check: {problem}" for problem in found))
    sys.stdout.write(f"release-check: {told.stdout.strip()} may be released\n")


if __name__ == "__main__":
    main()
