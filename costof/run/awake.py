"""Cores that stay awake while something is measured.

A core that has nothing to do goes to sleep and takes its time to wake: on a virtual machine about 0.1 ms, several times
in one query over a far link, and nothing in a busy loop over a near one. A far arm would seem slower than its distance
makes it (0.5 ms at 10 ms of round trip, on a machine like those of continuous integration). The kernel's own interface
against this is a latency request (Documentation/power/pm_qos_interface.rst); it ends with whoever holds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
