"""Runs programs as an ordinary user on a typical machine, where every user can read Python and open /dev/net/tun.

In a container, or on a machine without udev, users may lack these rights. A mount namespace gives the rights to the
processes of the test's user, and does not change the machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from costof.lab.lab import is_root
from costof.lab.network import TUN
from costof.lab.unprivileged import NAME
from costof.messages.process import engine_path

ROOT = Path(__file__).parents[2]
USER = pwd.getpwnam(NAME)
# Arguments: folders that other users cannot enter, needed paths below them, the device and its mode, then the program.
PREPARE = """
closed=$1 needed=$2 tun=$3 mode=$4; shift 4
mount -t tmpfs tmpfs /mnt
number=0
for path in $needed; do
    number=$((number + 1))
    if [ -d "$path" ]; then mkdir /mnt/$number; else touch /mnt/$number; fi
    mount --rbind "$path" /mnt/$number
done
for path in $closed; do mount -t tmpfs -o mode=0755 tmpfs "$path"; done
number=0
for path in $needed; do
    number=$((number + 1))
    if [ -d /mnt/$number ]; then mkdir -p "$path"; else mkdir -p "$(dirname "$path")" && touch "$path"; fi
    mount --rbind /mnt/$number "$path"
done
if [ -e "$tun" ]; then
    mknod -m "$mode" /mnt/tun c 10 200
    mount --bind /mnt/tun "$tun"
fi
exec "$@"
"""

# Forbid further user namespaces: enter a namespace, set its limit to 0, and drop the capability to change the limit.
FORBID = [
    *("unshare", "--user", "--map-current-user", "--keep-caps"),
    *("sh", "-ec", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "sh"),
    *("setpriv", "--ambient-caps=-all", "--inh-caps=-all"),
]


def ordinary_user(*, forbidden: bool = False, tun_mode: str = "0666") -> list[str]:
    """Return the words to put before a command, so that it runs as an ordinary user with the same pid.

    If `forbidden`, the user cannot create user namespaces. `tun_mode` is the mode of /dev/net/tun, by default the
    mode that udev sets.
    """
    limited = FORBID if forbidden else []
    if not is_root():
        return limited
    needed = [Path(sys.base_prefix), Path(sys.prefix).resolve(), ROOT, engine_path()]
    above = {path: closed for path in needed if (closed := _closed_above(path)) is not None}
    words = [" ".join(map(str, dict.fromkeys(paths))) for paths in (above.values(), above)]
    drop = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
    prepared = ["unshare", "--mount", "sh", "-ec", PREPARE, "sh", *words, str(TUN), tun_mode]
    return [*prepared, *drop, "env", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1", *limited]


@contextmanager
def folder_of_ordinary_user() -> Iterator[Path]:
    """Yield a folder in which the ordinary user may write. Its path is short enough for Unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="cu-", dir="/tmp"))
    if is_root():
        os.chown(folder, USER.pw_uid, USER.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _closed_above(path: Path) -> Path | None:
    """Return the topmost parent folder that other users cannot enter, or None."""
    return next((each for each in reversed(path.parents) if not each.stat().st_mode & stat.S_IXOTH), None)
