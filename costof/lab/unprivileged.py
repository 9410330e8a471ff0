"""The unprivileged user for servers that refuse to run as root, or do not need root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from costof.lab.certificates import write_private
from costof.lab.lab import is_root

# A user that every distribution has. 'nobody' is unsuitable: systemd's name service reports its account as locked, and
# sshd rejects log-ins of locked accounts.
NAME = "daemon"


class Unprivileged:
    """The unprivileged user: `daemon` if root started the run, or else the user who started it."""

    def __init__(self) -> None:
        self._user = pwd.getpwnam(NAME) if is_root() else pwd.getpwuid(os.geteuid())
        self.name = self._user.pw_name

    @property
    def prefix(self) -> list[str]:
        """Return a command prefix that runs the command after it as this user; [] if this process is not root."""
        if not is_root():
            return []
        # The kernel must kill the program if the supervisor dies (--pdeathsig). The supervisor has requested this, but
        # a change of user clears the request.
        drop = ["setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups"]
        return [*drop, "--no-new-privs", "--pdeathsig=KILL"]

    def own(self, path: Path) -> None:
        if is_root():
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def write(self, path: Path, content: bytes) -> None:
        write_private(path, content)
        self.own(path)
