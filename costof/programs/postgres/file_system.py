"""The file system under the data folder of a lab's PostgreSQL: the usual one, or one in user space (FUSE).

`gocryptfs` encrypts files and their names. `bindfs` passes all calls on without changing anything, so that it costs
what FUSE costs without encryption. Both store their files in another folder, in which the lab searches for a canary.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.lab import Lab, is_root
from costof.lab.program import find_program, first_words
from costof.lab.unprivileged import Unprivileged
from costof.programs.canary import files_in, files_with, new_canary
from costof.programs.server import ServerConfiguration

#: The device by which a program implements a file system.
DEVICE = Path("/dev/fuse")
ROLE = "file system"
TABLE = "canaries"
ROWS = 200
#: The shell script that removes a mount, as root or as the user who made it.
UNMOUNT = 'umount -l "$0" 2>/dev/null || exec fusermount3 -u -z "$0"'
FUSE = "fuse"

FileSystemName = Literal["usual", "bindfs", "gocryptfs"]


class FileSystemConfiguration(ServerConfiguration):
    """The file system of the data folder of a lab's PostgreSQL server."""

    file_system: FileSystemName | None = Field(
        default=None,
        description="The file system of the data folder. If the field is given, the lab searches the stored files for "
        "a canary.",
    )
    cipher: Literal["AES-GCM", "XChaCha20-Poly1305"] = Field(
        default="AES-GCM", description="The cipher of the file system, if it encrypts."
    )


def find_bindfs() -> Path:
    return find_program("bindfs", "bindfs")


def find_gocryptfs() -> Path:
    return find_program("gocryptfs", "gocryptfs")


def bindfs_version(binary: Path) -> str:
    return first_words([str(binary), "--version"], "bindfs", "bindfs").removeprefix("bindfs ")


def gocryptfs_version(binary: Path) -> str:
    return first_words([str(binary), "-version"], "gocryptfs", "gocryptfs").partition(";")[0].removeprefix("gocryptfs ")


@dataclass
class FileSystem:
    """The file system for one server's data folder, below the server's `folder`.

    `leak` says how the last search for a canary contradicts the configuration; None if it does not.
    """

    kind: FileSystemName
    cipher: str
    folder: Path
    leak: str | None = None
    _password: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @property
    def data(self) -> Path:
        """The folder of the server's data."""
        return self.folder / ("data" if self.kind == "usual" else "mounted/data")

    @property
    def stored(self) -> Path:
        """The folder in which the data is on disk."""
        return self.data if self.kind == "usual" else self.folder / "stored"

    def mount(self, lab: Lab, name: str, user: Unprivileged) -> None:
        """Start the file system for the server `name`, which runs as `user`.

        Raises `PROGRAM_MISSING`, `FUSE_MISSING`, `LAB_FAILED`.
        """
        if self.kind == "usual":
            return
        if not os.access(DEVICE, os.R_OK | os.W_OK):
            reason = "this user may not open it" if DEVICE.exists() else "it does not exist"
            raise CostofError(ErrorText.FUSE_MISSING, program=self.kind, device=DEVICE, reason=reason)
        mounted = self.data.parent
        for each in (self.stored, mounted):
            each.mkdir(mode=0o700)
            user.own(each)
        lab.undo(["/bin/sh", "-c", UNMOUNT, str(mounted)])
        argv = self._command_line(lab, name)
        # gocryptfs mounts by `fusermount`, which is beside it if both were unpacked.
        environment = {"PATH": f"{Path(argv[0]).parent}:{os.environ.get('PATH', os.defpath)}"}
        process = lab.spawn(f"{name}-{self.kind}", ROLE, argv, environment)
        lab.wait_until(f"mounting {self.kind} for {name}", lambda: os.path.ismount(mounted), only=process)

    def _command_line(self, lab: Lab, name: str) -> list[str]:
        mounted = self.data.parent
        # The server runs as another user than the file system.
        others = is_root()
        if self.kind == "bindfs":
            # gocryptfs has several threads too.
            options = ["-f", "--multithreaded", *([] if others else ["--no-allow-other"])]
            return [str(find_bindfs()), *options, str(self.stored), str(mounted)]
        binary, password_file = str(find_gocryptfs()), self.folder / "file-system-password"
        write_private(password_file, self._password.encode())
        password = ["-q", "-nosyslog", "-passfile", str(password_file)]
        # A random password needs no slow hashing.
        cipher = ["-xchacha"] if self.cipher == "XChaCha20-Poly1305" else []
        lab.run(f"{name}-{self.kind}-init", [binary, "-init", "-scryptn", "10", *cipher, *password, str(self.stored)])
        return [binary, "-fg", *password, *(["-allow_other"] if others else []), str(self.stored), str(mounted)]

    def verify(self, ask: Callable[[str], Sequence[Sequence[Any]]]) -> dict[str, str]:
        """Store a new canary, search the stored files for it, and return the facts. Sets `leak`."""
        canary = new_canary()
        rows = f"SELECT '{canary}-' || n AS c FROM generate_series(1, {ROWS}) AS n"  # noqa: S608  # text of our own
        ask(f"CREATE TABLE {TABLE} AS {rows}")
        # This writes the table's pages to its file.
        ask("CHECKPOINT")
        files = files_in(self.stored)
        readable = files_with(canary, files)
        ask(f"DROP TABLE {TABLE}")
        kind = mounted_type(self.data)
        self.leak = self._contradiction(readable, kind)
        found = (
            f"readable in {len(readable)} of {len(files)} stored files"
            if readable
            else (f"in none of the {len(files)} stored files")
        )
        return {"file system": kind, "canary": found}

    def _contradiction(self, readable: Sequence[str], kind: str) -> str | None:
        if (self.kind == "usual") == kind.startswith(FUSE):
            return f"the data folder is on a file system of type {kind}"
        if self.kind == "gocryptfs":
            return f"the canary is readable in {readable[0]}, although the file system encrypts" if readable else None
        return None if readable else "the canary is in no stored file, where it must be readable without encryption"


def mounted_type(path: Path) -> str:
    """Return the type of the file system on which a path is, such as 'ext4' or 'fuse.bindfs'."""
    found = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # The mount point is the fifth field; after a hyphen follows the type (proc(5)).
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4])
        if path.is_relative_to(point) and len(point.parts) >= len(found[0].parts):
            found = point, after.split()[0]
    return found[1]
