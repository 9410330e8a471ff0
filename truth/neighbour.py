"""A neighbour that burns CPU in bursts: `python -m truth.neighbour SEED`, until its input ends."""

from __future__ import annotations

import random
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Means of exponential times: one core of the machine's is burnt a third of the time.
BURST_SECONDS = 0.25
PAUSE_SECONDS = 0.5


@contextmanager
def neighbour(seed: int) -> Iterator[None]:
    """Run a neighbour while the context lasts."""
    argv = [sys.executable, "-m", __spec__.name, str(seed)]
    # A session of its own: a Ctrl-C is for the campaign.
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            yield
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
