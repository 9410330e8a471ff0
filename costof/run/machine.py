"""The machine under a run: what goes with every result, because figures without it cannot be compared."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from costof import __version__
from costof.lab.program import Description


def describe_machine(service: Description) -> dict[str, Any]:
    """Versions, CPU, kernel and load, as text that reports print."""
    load = os.getloadavg()
    return {
        "costof": __version__,
        "CPU": _cpu_model(),
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


@dataclass(frozen=True)
class Reading:
    """What the machine has done since it started, in seconds of CPU time: `busy` for programs and the kernel, `steal`
    that the hypervisor took. `seconds` of time have passed; `clock`: how far the time of day is ahead of them."""

    seconds: float
    busy: float
    steal: float
    clock: float

    def since(self, earlier: Reading) -> Reading:
        """What each has moved by."""
        return Reading(
            self.seconds - earlier.seconds,
            self.busy - earlier.busy,
            self.steal - earlier.steal,
            self.clock - earlier.clock,
        )


def read_machine() -> Reading:
    """Now. Figures of proc(5)'s stat, in ticks of 10 ms: user, nice, system, idle, iowait, irq, softirq, steal."""
    fields = [int(field) for field in _read("/proc/stat").split("\n", 1)[0].split()[1:]]
    tick = os.sysconf("SC_CLK_TCK")
    user, nice, system, _, _, irq, softirq, steal = (*fields, *[0] * 8)[:8]
    seconds = time.monotonic()
    busy = user + nice + system + irq + softirq
    return Reading(seconds, busy / tick, steal / tick, time.time() - seconds)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    named = (line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name"))
    return next(named, "").partition(":")[2].strip() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


LATENCY_REQUEST = Path("/dev/cpu_dma_latency")
#: Microseconds, a 32-bit number: none at all.
AT_ONCE = bytes(4)


@contextmanager
def cores_awake(request: Path = LATENCY_REQUEST) -> Iterator[str]:
    """Keep all cores awake, where that is allowed; gives what came of it, in words."""
    try:
        held = request.open("wb", buffering=0)
    except OSError:
        yield "may sleep between operations (only root can keep them awake)"
        return
    with held:
        held.write(AT_ONCE)
        yield f"kept awake ({request})"
