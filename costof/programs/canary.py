"""Canaries: random texts that a lab stores in a server and then searches for in the server's files."""

from __future__ import annotations

import contextlib
import mmap
import secrets
from collections.abc import Mapping
from pathlib import Path


def new_canary() -> str:
    return f"costof-canary-{secrets.token_hex(16)}"


def files_in(folder: Path) -> dict[str, Path]:
    """Return all ordinary files under the folder. The keys are their paths relative to the folder."""
    return {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}


def deleted_files(pid: int, folder: Path) -> dict[str, Path]:
    """Return the deleted files of the folder that a process still holds open. Servers use them as temporary files.

    The keys have the former path and the file descriptor, such as 'tmp/sort (deleted) 14'. The values are paths below
    /proc, where the files can still be read.
    """
    found = {}
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            name = str(descriptor.readlink())
            if name.startswith(f"{folder}/") and name.endswith(" (deleted)"):
                found[f"{Path(name).relative_to(folder)} {descriptor.name}"] = descriptor
    return found


def files_with(text: str, files: Mapping[str, Path]) -> list[str]:
    """Return the names of the files that contain the text. A file that no longer exists is left out."""
    return [name for name, path in files.items() if _contains(path, text.encode())]


def _contains(path: Path, text: bytes) -> bool:
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        if file.seek(0, 2) > 0:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(text) >= 0
    return False
