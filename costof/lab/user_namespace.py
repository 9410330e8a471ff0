"""The user namespace in which an ordinary user's run may create network namespaces, the lab's simulated hosts.

The run enters the user namespace before it starts anything.

In the user namespace the run keeps the user's uid, so that the run's servers do not run as root. The run may create
network namespaces, devices and links there. They are invisible outside, and the kernel removes them when the run's last
process ends. The run also has its own mount namespace, for the files that keep the network namespaces alive. The run
still shares files, processes and network with the machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from costof.errors import CostofError
from costof.lab.lab import is_root
from costof.lab.program import find_program

# Capabilities (linux/capability.h) for creating a network namespace, a device in it, and the mount that keeps it alive.
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
SECCOMP_FILTER = "2"

#: Kernel settings that can forbid user namespaces to ordinary users: the value that forbids, and one that allows.
FORBIDDING = {
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "user.max_user_namespaces": ("0", "10000"),
    "user.max_net_namespaces": ("0", "10000"),
    "user.max_mnt_namespaces": ("0", "10000"),
}


def can_make_hosts() -> bool:
    """Return whether this process can create network namespaces, as root or in a user namespace."""
    capabilities = int(_status("CapEff") or "0", 16)
    return all(capabilities >> number & 1 for number in (CAP_NET_ADMIN, CAP_SYS_ADMIN))


def can_share_cpu() -> bool:
    """Return whether the lab's hosts (network namespaces) can have CPU shares, which limit their CPU use.

    CPU shares need root, since a user namespace gives no access to cgroups.
    """
    return is_root() and can_make_hosts()


def enter() -> None:
    """Restart this command in a user namespace if it can then create network namespaces; otherwise do nothing.

    The process's state is then lost, so call it before anything is started or written.
    """
    if can_make_hosts() or why_forbidden() is not None:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    argv = [*prefix(), sys.executable, "-m", "costof", *sys.argv[1:]]
    os.execv(argv[0], argv)  # noqa: S606  # without a shell, to replace this process


def why_forbidden() -> str | None:
    """Return why this user cannot create network namespaces in a user namespace, and a remedy; None if they can.

    The function tries to create a namespace, since a system can forbid namespaces in too many ways to check each way.
    Root cannot use a user namespace, because servers would run as root in it too.
    """
    if is_root():
        return "root lacks CAP_NET_ADMIN or CAP_SYS_ADMIN here; a container that is started with --privileged has both"
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


def reason(output: str, settings: Path = Path("/proc/sys")) -> str:
    """Return why the attempt to create a user namespace failed, and a remedy. `output` is the attempt's output.

    `settings` is the folder of the kernel's settings.
    """
    for name, (forbids, allows) in FORBIDDING.items():
        file = settings / name.replace(".", "/")
        if file.is_file() and file.read_text().strip() == forbids:
            return f"{name} is {forbids}, which forbids user namespaces; allow them by: sudo sysctl {name}={allows}"
    detail = " ".join(output.split()) or "unshare failed"
    if _status("Seccomp") == SECCOMP_FILTER:
        return (
            f"a filter of system calls, such as a container's, forbids user namespaces ({detail}); in a container, "
            "allow them by --security-opt seccomp=unconfined"
        )
    return f"no user namespace can be created ({detail})"


def prefix() -> list[str]:
    """Return a command prefix that runs the command after it in a new user namespace, with all capabilities there."""
    unshare = str(find_program("unshare", "util-linux"))
    # Mounts outside of the new namespace take effect inside it too, but mounts inside do not take effect outside (slave
    # propagation).
    return [unshare, "--user", "--map-current-user", "--keep-caps", "--mount", "--propagation=slave", "--"]


def _status(name: str) -> str:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(f"{name}:")), "")
