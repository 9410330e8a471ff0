"""CPU shares of hosts, enforced with cgroups, so that many hosts on few cores each behave like a smaller machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.lab.lab import Lab
from costof.lab.program import find_program

# The length of a scheduling period in microseconds. A host that has used up its share stops until the next period. With
# short periods, the host behaves like a slow machine instead of one that stops.
PERIOD_US = 10_000
# Each host's periods are this much longer than those of the host before. With equally long periods, the random offset
# between two hosts' periods would be constant in a run, and figures would differ from run to run by chance.
PERIOD_STEP_US = 300
PERIODS = 16
# The kernel accepts no smaller quota (cpu.cfs_quota_us, cpu.max).
SMALLEST_QUOTA_US = 1_000

# A shell script that removes a cgroup (the folder $0) at the end of the lab, and kills the processes in it. The script
# retries, since a killed process may stay in the cgroup for a few milliseconds.
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
    """This machine's cgroup folders. CPU shares are set in `limit`, and CPU time is counted in `usage`.

    Both are often the same folder.
    """

    version: int
    limit: Path
    usage: Path

    @property
    def folders(self) -> list[Path]:
        return list(dict.fromkeys((self.limit, self.usage)))


@dataclass(eq=False)
class CpuShare:
    """A limit of `cores` on the CPU use of all processes of a cgroup together.

    The group may use its share in each scheduling period. `period_us` is a period's length. Small shares have longer
    periods.

    If `cpu` is given, all processes run on that CPU. The group then behaves like a machine with one slower core.

    Without `cpu`, the group's threads run on several CPUs, which share one quota. For seconds at a time, the threads
    on one CPU can use up the quota before the threads on other CPUs get any of it. A server's CPU time per request then
    varies at random by half.
    """

    cores: float
    hierarchies: Hierarchies
    group: str
    cpu: int | None = None
    period_us: int = PERIOD_US

    @classmethod
    def create(cls, lab: Lab, group: str, cores: float, cpu: int | None = None, number: int = 0) -> CpuShare:
        """Create the cgroup named `group`, and let the lab remove it at the end.

        `number` is the host's number in the lab. The length of the scheduling period depends on it. Raises `LAB_FAILED`
        if this machine has no cgroups for CPU shares.
        """
        share = cls(cores, find_hierarchies(), group, cpu, PERIOD_US + PERIOD_STEP_US * (number % PERIODS))
        for folder in share.folders:
            lab.undo(["sh", "-c", REMOVE, str(folder)])
            lab.run(f"make {folder.parent.name} {group}", ["mkdir", str(folder)])
        share._limit()
        return share

    def resize(self, cores: float) -> None:
        """Change the cgroup's share, also for running processes. Raises `LAB_FAILED`."""
        if cores != self.cores:
            self.cores = cores
            self._limit()

    @property
    def folders(self) -> list[Path]:
        return [folder / self.group for folder in self.hierarchies.folders]

    @property
    def prefix(self) -> list[str]:
        """Return a command prefix that runs the command after it in the cgroup: `[*prefix, "sleep", "1"]`.

        The prefix starts a shell, which enters the cgroup and then becomes the command (exec), so the pid is the same.
        """
        enter = "".join(f'echo $$ >"{folder}/cgroup.procs" && ' for folder in self.folders)
        pin = [] if self.cpu is None else [str(find_program("taskset", "util-linux")), "-c", str(self.cpu)]
        return ["sh", "-c", enter + 'exec "$@"', "sh", *pin]

    def cpu_seconds(self) -> float:
        folder = self.hierarchies.usage / self.group
        if self.hierarchies.version == 1:
            return int((folder / "cpuacct.usage").read_text()) / 1e9
        return int(self._counts(folder)["usage_usec"]) / 1e6

    def throttled_seconds(self) -> float:
        """Return for how many seconds since its creation the group was ready to run but had used up its share."""
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
    """Return the cgroup files that limit a group to `cores`, such as {"cpu.max": "5000 10000"} (name and content).

    Small shares get a longer period, since the kernel accepts no quota below `SMALLEST_QUOTA_US`.
    """
    period = round(period_us * max(1.0, SMALLEST_QUOTA_US / (cores * PERIOD_US)))
    quota = round(cores * period)
    if version == 1:
        # Write the period first: the kernel checks a new quota against the current period.
        return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}
    return {"cpu.max": f"{quota} {period}"}


def find_hierarchies(mounts: Path = Path("/proc/self/mounts")) -> Hierarchies:
    """Return the folders of cgroup version 2 if version 2 has the cpu controller, or else of version 1.

    Raises `LAB_FAILED` if neither version has the cpu controller.
    """
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
