"""A process that burns CPU in bursts until its standard input closes: `python -m truth.neighbour SEED`."""

from __future__ import annotations

import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Mean durations of bursts and pauses (exponential distributions): one core is busy for a third of the time.
BURST_SECONDS = 0.25
PAUSE_SECONDS = 0.5


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Run the process until the `with` block ends. Raises `OSError` if it ended earlier."""
    argv = [sys.executable, "-m", __spec__.name, str(seed)]
    # The process has a session of its own, so that Ctrl-C ends only the campaign, which then ends the process.
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield
            if process.poll() is not None:
                raise OSError("the disturbing process ended before the trial")
        finally:
            process.kill()


def main(seed: int) -> None:
    chance = random.Random(seed)
    while not select.select([sys.stdin], [], [], chance.expovariate(1 / PAUSE_SECONDS))[0]:
        until = time.monotonic() + chance.expovariate(1 / BURST_SECONDS)
        while time.monotonic() < until:
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
