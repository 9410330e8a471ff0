"""The file system under the data folder of a lab's PostgreSQL: the usual one, or one in user space (FUSE).

`gocryptfs` encrypts files and their names. `bindfs` passes all calls on unchanged, so that it costs as much as FUSE
without encryption. Both store their files in another folder, in which the lab searches for a canary (a random text).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.lab.certificates import write_private
from costof.lab.debian import Packages
from costof.lab.lab import is_root
from costof.lab.program import find_program, first_words, located
from costof.messages.answers import SliceAnswer
from costof.programs.canary import files_in, files_with, new_canary
from costof.programs.parts import ServerConfiguration
from costof.programs.postgres.parts import PostgresPart

DEVICE = Path("/dev/fuse")
ROLE = "file system"
TABLE = "canaries"
ROWS = 200
#: The shell script that removes a mount, as root or as the user who made it.
UNMOUNT = 'umount -l "$0" 2>/dev/null || exec fusermount3 -u -z "$0"'
FUSE = "fuse"
#: The file that contains the ID of PostgreSQL's shared memory segment, and the number of the line with it, from 0.
PID_FILE, SEGMENT_LINE = "postmaster.pid", 6

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


class FileSystem(PostgresPart[FileSystemConfiguration]):
    """The feature of a server that keeps the server's data folder on a FUSE file system if the study requires one.

    `leak` is the result of the last search for a canary (a random text): how it contradicts the configuration; None if
    it does not.
    """

    configuration_type = FileSystemConfiguration
    needed = {"bindfs": located(find_bindfs, bindfs_version), "gocryptfs": located(find_gocryptfs, gocryptfs_version)}
    fetchable = [
        Packages("bindfs", ["bindfs"], ["usr/bin/bindfs"]),
        # gocryptfs runs the program fusermount to mount, so both must be unpacked in the same folder.
        Packages("gocryptfs", ["gocryptfs", "fuse3"], ["usr/bin/gocryptfs"], ["bin/fusermount", "usr/bin/fusermount"]),
    ]
    leak: str | None = None

    @classmethod
    def is_needed(cls, configuration: FileSystemConfiguration) -> bool:
        return configuration.file_system is not None

    def prepare(self) -> None:
        """Start the file system. Raises `PROGRAM_MISSING`, `FUSE_MISSING`, `LAB_FAILED`."""
        kind, server, lab = self.configuration.file_system, self.server, self.server.place.lab
        #: The folder with the files as they are on disk, encrypted if the file system encrypts.
        self._stored = server.data
        if kind == "usual":
            return
        if not os.access(DEVICE, os.R_OK | os.W_OK):
            reason = "this user may not open it" if DEVICE.exists() else "it does not exist"
            raise CostofError(ErrorText.FUSE_MISSING, program=kind, device=DEVICE, reason=reason)
        self._stored, mounted = server.folder / "stored", server.folder / "mounted"
        server.data = mounted / "data"
        for each in (self._stored, mounted):
            each.mkdir(mode=0o700)
            server.os_user.own(each)
        lab.undo(["/bin/sh", "-c", UNMOUNT, str(mounted)])
        argv = self._command_line(mounted)
        # gocryptfs runs `fusermount` to mount. If `costof fetch` has unpacked both, they are in the same folder.
        environment = {"PATH": f"{Path(argv[0]).parent}:{os.environ.get('PATH', os.defpath)}"}
        process = lab.spawn(f"{server.name}-{kind}", ROLE, argv, environment)
        lab.wait_until(f"mounting {kind} for {server.name}", lambda: os.path.ismount(mounted), only=process)

    def _command_line(self, mounted: Path) -> list[str]:
        # If root mounts the file system, the server runs as another user, who needs access.
        others = is_root()
        if self.configuration.file_system == "bindfs":
            # Let bindfs use several threads, as gocryptfs does, so that only encryption differs.
            options = ["-f", "--multithreaded", *([] if others else ["--no-allow-other"])]
            return [str(find_bindfs()), *options, str(self._stored), str(mounted)]
        binary, password_file = str(find_gocryptfs()), self.server.folder / "file-system-password"
        write_private(password_file, secrets.token_hex(32).encode())
        password = ["-q", "-nosyslog", "-passfile", str(password_file)]
        # The cost of scrypt can be low, because slow hashing only protects passwords that can be guessed. This one is
        # random.
        cipher = ["-xchacha"] if self.configuration.cipher == "XChaCha20-Poly1305" else []
        init = [binary, "-init", "-scryptn", "10", *cipher, *password, str(self._stored)]
        self.server.place.lab.run(f"{self.server.name}-gocryptfs-init", init)
        return [binary, "-fg", *password, *(["-allow_other"] if others else []), str(self._stored), str(mounted)]

    def started(self) -> None:
        # Read the ID of the server's shared memory segment now. The segment is removed when the lab ends. The mounted
        # file system with the file `PID_FILE` may then be gone.
        segment = (self.server.data / PID_FILE).read_text().splitlines()[SEGMENT_LINE].split()[-1]
        self.server.place.lab.undo(["ipcrm", "-m", segment])

    def evidence(self) -> dict[str, str]:
        """Store a new canary (a random text), search the stored files for it, and return the facts. Sets `leak`."""
        ask, canary = self.server.ask, new_canary()
        rows = f"SELECT '{canary}-' || n AS c FROM generate_series(1, {ROWS}) AS n"  # noqa: S608  # text of our own
        ask(f"CREATE TABLE {TABLE} AS {rows}")
        # A checkpoint writes the table's pages to its file, which is then searched.
        ask("CHECKPOINT")
        files = files_in(self._stored)
        readable = files_with(canary, files)
        ask(f"DROP TABLE {TABLE}")
        kind = mounted_type(self.server.data)
        self.leak = self._contradiction(readable, kind)
        found = (
            f"readable in {len(readable)} of {len(files)} stored files"
            if readable
            else f"in none of the {len(files)} stored files"
        )
        return {"file system": kind, "canary": found}

    def _contradiction(self, readable: Sequence[str], kind: str) -> str | None:
        if (self.configuration.file_system == "usual") == kind.startswith(FUSE):
            return f"the data folder is on a file system of type {kind}"
        if self.configuration.file_system == "gocryptfs":
            return f"the canary is readable in {readable[0]}, although the file system encrypts" if readable else None
        return None if readable else "the canary is in no stored file, where it must be readable without encryption"

    def mismatch(self, increases: Mapping[str, float], answer: SliceAnswer) -> str | None:
        return self.leak


def mounted_type(path: Path) -> str:
    """Return the type of the file system on which a path is, such as 'ext4' or 'fuse.bindfs'."""
    found = Path("/"), ""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # In a line of mountinfo (proc(5)), the fifth field is the mount point. The type is the first field after the
        # hyphen.
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4])
        if path.is_relative_to(point) and len(point.parts) >= len(found[0].parts):
            found = point, after.split()[0]
    return found[1]
