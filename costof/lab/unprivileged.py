"""The user that servers run as which refuse to be root's, or need not be."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from costof.lab.certificates import write_private
from costof.lab.lab import is_root

# Whom every distribution has. Not 'nobody': systemd's name service says that its account is locked, and sshd lets
# nobody in there.
NAME = "daemon"


class Unprivileged:
    """The user `daemon` in a run that is root's; else the run's own user, who has no privileges to drop."""

    def __init__(self) -> None:
        self._user = pwd.getpwnam(NAME) if is_root() else pwd.getpwuid(os.geteuid())
        self.name = self._user.pw_name

    @property
    def prefix(self) -> list[str]:
        """What stands before the arguments of a program that runs as this user."""
        if not is_root():
            return []
        # A change of user would take the supervisor's claim on its life away.
        drop = ["setpriv", f"--reuid={self._user.pw_uid}", f"--regid={self._user.pw_gid}", "--clear-groups"]
        return [*drop, "--no-new-privs", "--pdeathsig=KILL"]

    def own(self, path: Path) -> None:
        if is_root():
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file that only this user may read."""
        write_private(path, content)
        self.own(path)
