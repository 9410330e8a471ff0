"""The memory of processes, as the kernel counts it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from costof.lab.supervisor import parents

PSS, RSS = "PSS", "RSS"
# Pages of files are left out: a process's share of such pages changes whenever another program with the same libraries
# starts or ends.
_PSS = re.compile(rb"^Pss_(?:Anon|Shmem):\s+(\d+) kB$", re.MULTILINE)
_AVAILABLE = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Memory:
    """A reading of memory in bytes, by role (group of processes). `methods` says how it was read, such as 'PSS'."""

    bytes_by_role: dict[str, int] = field(default_factory=dict)
    methods: frozenset[str] = frozenset()

    def plus(self, role: str, used: int, method: str) -> Memory:
        total = self.bytes_by_role.get(role, 0) + used
        return Memory({**self.bytes_by_role, role: total}, self.methods | {method})

    def since(self, before: Memory) -> dict[str, int]:
        roles = {**before.bytes_by_role, **self.bytes_by_role}
        return {role: self.bytes_by_role.get(role, 0) - before.bytes_by_role.get(role, 0) for role in roles}

    @property
    def total(self) -> int:
        return sum(self.bytes_by_role.values())


def read_memory(processes: Iterable[tuple[str, int]]) -> Memory:
    """Return the memory of processes, given as (role, pid), and of all their descendants.

    The memory of a process is its proportional set size (PSS) without mapped files, such as programs and libraries. In
    PSS, a page that n processes share counts as 1/n page for each. The whole resident set (RSS) counts instead if PSS
    may not be read, or if the kernel reports it only with files (Linux before 5.4).
    """
    family = _families(processes)
    memory = Memory()
    for pid, role in family.items():
        if (read := _memory_of(pid)) is not None:
            memory = memory.plus(role, *read)
    return memory


def _families(processes: Iterable[tuple[str, int]]) -> dict[int, str]:
    """Return the role (group) of each process and of its descendants, by pid."""
    children: dict[int, list[int]] = {}
    for child, parent in parents().items():
        children.setdefault(parent, []).append(child)
    roles = {pid: role for role, pid in processes}
    unvisited = list(roles)
    while unvisited:
        pid = unvisited.pop()
        for child in children.get(pid, []):
            if child not in roles:
                roles[child] = roles[pid]
                unvisited.append(child)
    return roles


def _memory_of(pid: int) -> tuple[int, str] | None:
    """Return a process's bytes and the method of reading them; None if the process has ended."""
    folder = Path("/proc", str(pid))
    try:
        try:
            if sizes := _PSS.findall((folder / "smaps_rollup").read_bytes()):
                return sum(map(int, sizes)) * 1024, PSS
        except PermissionError:
            pass
        except FileNotFoundError:
            if not folder.is_dir():
                return None
        return int((folder / "statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE"), RSS
    except (FileNotFoundError, ProcessLookupError):
        return None


def available_share() -> float:
    """Return the share of this machine's memory that programs can still take without swapping."""
    sizes = {name: int(size) for name, size in _AVAILABLE.findall(Path("/proc/meminfo").read_text())}
    return sizes["MemAvailable"] / sizes["MemTotal"]
