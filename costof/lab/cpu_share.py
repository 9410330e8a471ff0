"""The CPU share of a host: a cgroup, so that many hosts on few cores each have a machine of their own, scaled down."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.lab.program import find_program

# Short, so that a host that has used its share up is back before its clients notice more than a slower machine.
PERIOD_US = 10_000
# Periods of one length stay in step for as long as their groups live, at distances that the kernel draws when it makes
# them: whether a host is awake when another's answer comes would be luck of the run. Those of no two hosts are alike.
PERIOD_STEP_US = 300
PERIODS = 16
# The kernel takes no smaller quota (cpu.cfs_quota_us, cpu.max).
SMALLEST_QUOTA_US = 1_000

# What is left in the group is the host's and the lab is at its end; a process that was killed leaves it a little later.
REMOVE = """
tries=0
while [ -d "$0" ] && [ $tries -lt 300 ]; do
    for pid in $(cat "$0/cgroup.procs"); do kill -9 "$pid"; done
    rmdir "$0" || sleep 0.01
    tries=$((tries + 1))
done
"""


@dataclass(frozen=True)
class Hierarchies:
    """Where this machine's groups are: `limit` sets the share, `usage` counts (the same folder in most systems)."""

    version: int
    limit: Path
    usage: Path

    @property
    def folders(self) -> list[Path]:
        return list(dict.fromkeys((self.limit, self.usage)))


@dataclass(eq=False)
class CpuShare:
    """A share of `cores` that whatever enters the group has together.

    `period_us` is the kernel's, in which it has its share once; a small share has a longer one.

    With `cpu`, all of it on that CPU, which makes it one slower core. On several CPUs the one that runs first takes the
    whole quota of a period and threads on the others wait for the next: which threads these are is luck that lasts for
    seconds, and in it a server's batches, and so its CPU time for an operation, differ by half.
    """

    cores: float
    hierarchies: Hierarchies
    group: str
    cpu: int | None = None
    period_us: int = PERIOD_US

    @classmethod
    def create(cls, lab: Lab, group: str, cores: float, cpu: int | None = None, number: int = 0) -> CpuShare:
        """Make the group, to be removed with the lab; `number` is of those that share a lab.

        Raises `LAB_FAILED` when this machine has none.
        """
        share = cls(cores, find_hierarchies(), group, cpu, PERIOD_US + PERIOD_STEP_US * (number % PERIODS))
        for folder in share.folders:
            lab.undo(["sh", "-c", REMOVE, str(folder)])
            lab.run(f"make {folder.parent.name} {group}", ["mkdir", str(folder)])
        share._limit()
        return share

    def resize(self, cores: float) -> None:
        """Give the group another share, what runs in it included. Raises `LAB_FAILED`."""
        if cores != self.cores:
            self.cores = cores
            self._limit()

    @property
    def folders(self) -> list[Path]:
        return [folder / self.group for folder in self.hierarchies.folders]

    @property
    def prefix(self) -> list[str]:
        """What stands before a program's arguments: it enters the group, then becomes the program (same pid)."""
        enter = "".join(f'echo $$ >"{folder}/cgroup.procs" && ' for folder in self.folders)
        pin = [] if self.cpu is None else [str(find_program("taskset", "util-linux")), "-c", str(self.cpu)]
        return ["sh", "-c", enter + 'exec "$@"', "sh", *pin]

    def cpu_seconds(self) -> float:
        folder = self.hierarchies.usage / self.group
        if self.hierarchies.version == 1:
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        return int(self._counts(folder)["usage_usec"]) / 1e6

    def throttled_seconds(self) -> float:
        """Return the time in which the group wanted to run and had used its share up."""
        counts = self._counts(self.hierarchies.limit / self.group)
        if self.hierarchies.version == 1:
            return int(counts["throttled_time"]) / 1e9
        return int(counts["throttled_usec"]) / 1e6

    def _limit(self) -> None:
        try:
            for name, value in limits(self.hierarchies.version, self.cores, self.period_us).items():
                (self.hierarchies.limit / self.group / name).write_text(value)
        except OSError as error:
            raise CostofError(ErrorText.LAB_FAILED, detail=f"a share of {self.cores:g} cores: {error}") from error

    @staticmethod
    def _counts(folder: Path) -> dict[str, str]:
        return dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())


def limits(version: int, cores: float, period_us: int) -> dict[str, str]:
    """Return a group's files and their contents. A small share has a longer period, for the kernel's least quota."""
    period = round(period_us * max(1.0, SMALLEST_QUOTA_US / (cores * PERIOD_US)))
    quota = round(cores * period)
    if version == 1:
        # The period first: the kernel checks each against the other as it stands.
        return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}
    return {"cpu.max": f"{quota} {period}"}


def find_hierarchies(mounts: Path = Path("/proc/self/mounts")) -> Hierarchies:
    """Return version 2 where it has the cpu controller, else version 1. Raises `LAB_FAILED`."""
    first: dict[str, Path] = {}
    for line in mounts.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2" and _can_share(Path(folder)):
            return Hierarchies(2, Path(folder), Path(folder))
        if kind == "cgroup":
            first |= {name: Path(folder) for name in options.split(",") if name in ("cpu", "cpuacct")}
    if len(first) < 2:
        detail = "no cgroup hierarchy with the cpu controller is mounted, so hosts cannot have CPU shares"
        raise CostofError(ErrorText.LAB_FAILED, detail=detail)
    return Hierarchies(1, first["cpu"], first["cpuacct"])


def _can_share(root: Path) -> bool:
    try:
        return "cpu" in (root / "cgroup.subtree_control").read_text().split() and os.access(root, os.W_OK)
    except OSError:
        return False
