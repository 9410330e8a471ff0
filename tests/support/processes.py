"""Facts about processes from /proc."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def listening_addresses(pids: list[int]) -> set[str]:
    """Return the IPv4 and IPv6 addresses on which any of the processes listens, by the kernel's tables."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            inodes |= {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    addresses = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                words = struct.iter_unpack(">I", bytes.fromhex(fields[1].partition(":")[0]))
                addresses.add(socket.inet_ntop(family, b"".join(struct.pack("=I", word) for (word,) in words)))
    return addresses
