"""Facts about the machine of a run. Every result contains these facts, so that figures can be compared."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof import __version__
from costof.errors import WarningText
from costof.lab.program import Description


def describe_machine(service: Description) -> dict[str, Any]:
    """Return versions, CPU, kernel and load as reports print them."""
    load = os.getloadavg()
    return {
        "costof": __version__,
        "CPU": cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory GiB": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "system": _system(),
        "congestion control": _read("/proc/sys/net/ipv4/tcp_congestion_control"),
        "load before": f"{load[0]:.2f} {load[1]:.2f} {load[2]:.2f}",
        **service.versions,
        "topology": service.topology,
        **service.facts,
    }


#: The seconds over which CPU time is measured. CPU time is counted in ticks of 10 ms, so a shorter time is too coarse.
READING_SECONDS = 0.15
#: The machine counts as busy before a run if other programs and the hypervisor use this share of its CPU time.
BUSY_SHARE = 0.25


@dataclass(frozen=True)
class Reading:
    """A reading of the machine's clocks and CPU time, in seconds.

    - `busy`: CPU time used by programs and the kernel.
    - `steal`: CPU time that the hypervisor gave to other machines.
    - `seconds`: the monotonic clock.
    - `clock`: the time of day minus the monotonic clock. It changes if somebody sets the time of day.
    """

    seconds: float
    busy: float
    steal: float
    clock: float

    def since(self, earlier: Reading) -> Reading:
        return Reading(
            self.seconds - earlier.seconds,
            self.busy - earlier.busy,
            self.steal - earlier.steal,
            self.clock - earlier.clock,
        )


def read_machine() -> Reading:
    # Columns of /proc/stat (proc(5)) in ticks: user, nice, system, idle, iowait, irq, softirq, steal.
    fields = [int(field) for field in _read("/proc/stat").split("\n", 1)[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = (*fields, *[0] * 8)[:8]
    seconds = time.monotonic()
    busy = user + nice + system + irq + softirq
    return Reading(seconds, busy / tick, steal / tick, time.time() - seconds)


def busy_warnings(load: float, cores: int, wait: Callable[[float], None] = time.sleep) -> list[str]:
    """Return a warning if other programs keep the machine busy; [] if they do not.

    The function warns only if two measures are high: the load average (`load`), and the CPU time in the next
    `READING_SECONDS`, during which it calls `wait`. The load average alone proves nothing, because it stays high for
    minutes after an earlier run. The CPU time is measured only if `load` exceeds the number of cores.
    """
    if load <= cores:
        return []
    before = read_machine()
    wait(READING_SECONDS)
    used = read_machine().since(before)
    share = min(1.0, (used.busy + used.steal) / (used.seconds * cores))
    return [WarningText.BUSY.text(share=share, load=load, cores=cores)] if share >= BUSY_SHARE else []


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def cpu_model() -> str:
    models = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next(models, "").partition(":")[2].strip() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


LATENCY_REQUEST = Path("/dev/cpu_dma_latency")
#: The maximum time in microseconds that a core may need to wake up, as a 32-bit number: 0 keeps all cores awake.
NO_LATENCY = bytes(4)


@contextmanager
def cores_awake(request: Path = LATENCY_REQUEST) -> Iterator[str]:
    """Keep all cores awake if permitted, and yield the outcome as text for the report."""
    try:
        held = request.open("wb", buffering=0)
    except OSError:
        yield "may sleep between operations (only root can keep them awake)"
        return
    with held:
        held.write(NO_LATENCY)
        yield f"kept awake ({request})"
