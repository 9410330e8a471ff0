"""The machine under a run: what goes with every result, because figures without it cannot be compared."""

from __future__ import annotations

import os
import platform
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


def steal_seconds() -> float:
    """CPU time the hypervisor took from this machine since it started (`steal`, the 8th figure of /proc/stat)."""
    fields = _read("/proc/stat").split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK") if len(fields) > 8 else 0.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()
