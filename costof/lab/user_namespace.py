"""The user namespace in which an ordinary user's lab has hosts: a run enters it before it starts anything.

There the run has the user's own uid still, so that its servers are no root's, and may make network namespaces, devices
and links. Nothing outside sees them, and the kernel takes them away with the last process of the run. Its folder of
mounts is its own as well, for the files that hold the namespaces. Files, processes and the network are the machine's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from costof.errors import CostofError
from costof.lab.lab import is_root
from costof.lab.program import find_program

# Of linux/capability.h: what a namespace, a device in it, and the mount that holds it take.
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
SECCOMP_FILTER = "2"

#: Settings that forbid user namespaces to ordinary users: the value that does, and one that does not.
FORBIDDING = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "10000"),
    "user.max_net_namespaces": ("0", "10000"),
    "user.max_mnt_namespaces": ("0", "10000"),
}


def can_make_hosts() -> bool:
    """Return whether this process can make network namespaces: as root, or in a user namespace of its own."""
    capabilities = int(_status("CapEff") or "0", 16)
    return all(capabilities >> number & 1 for number in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


def can_share_cpu() -> bool:
    """Return whether hosts can have CPU shares. Cgroups are root's: no user namespace gives them."""
    return is_root() and can_make_hosts()


def enter() -> None:
    """Begin this command anew in a user namespace, where that gives it hosts; else do nothing.

    Nothing may have been started or written: all that this process has is lost.
    """
    if can_make_hosts() or why_forbidden() is not None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    argv = [*prefix(), sys.executable, "-m", "costof", *sys.argv[1:]]
    os.execv(argv[0], argv)  # noqa: S606  # no shell is wanted, and this process is to become it


def why_forbidden() -> str | None:
    """What keeps this user from a namespace with hosts and what would allow one, in words; None where nothing does.

    It is tried: there are too many ways to forbid it. Root has no use for one: servers would be root's in it as well.
    """
    if is_root():
        return "this root lacks CAP_NET_ADMIN or CAP_SYS_ADMIN; a container that is started with --privileged has both"
    try:
        entering = prefix()
        try_it = [*entering, entering[0], "--net", "--", str(find_program("ip", "iproute2"))]
        find_program("nsenter", "util-linux")
    except CostofError as error:
        return str(error)
    tried = subprocess.run(
        [*try_it, "link", "add", "link0", "type", "veth", "peer", "name", "link1"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return None if tried.returncode == 0 else reason(tried.stderr)


def reason(said: str, settings: Path = Path("/proc/sys")) -> str:
    """Say why a trial failed, with what it `said`, and what would let it succeed."""
    for name, (forbids, allows) in FORBIDDING.items():
        file = settings / name.replace(".", "/")
        if file.is_file() and file.read_text().strip() == forbids:
            return f"{name} is {forbids}, which forbids user namespaces; allow them by: sudo sysctl {name}={allows}"
    detail = " ".join(said.split()) or "unshare failed"
    if _status("Seccomp") == SECCOMP_FILTER:
        return (
            f"a filter of system calls, such as a container's, forbids user namespaces ({detail}); a container that "
            "is started with --security-opt seccomp=unconfined may have them"
        )
    return f"no user namespace can be had ({detail})"


def prefix() -> list[str]:
    """What stands before the arguments of a program that runs in a new user namespace, with all rights in there."""
    unshare = str(find_program("unshare", "util-linux"))
    # What is mounted and unmounted outside is so inside too, and not the other way round.
    return [unshare, "--user", "--map-current-user", "--keep-caps", "--mount", "--propagation=slave", "--"]


def _status(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
