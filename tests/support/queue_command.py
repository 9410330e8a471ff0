"""A load generator for a simulated queue: it prints the rate and the percentiles of a slice, without any waiting.

Requests arrive at random, wait in one queue and take a fixed time. The capacity within a limit on a percentile is
therefore known (`queue_server.capacity`), and a slice takes milliseconds. The program imports only the standard
library, to start fast.
"""

from __future__ import annotations

import os
import random
import sys


def main(rate: float, service_seconds: float, seconds: float) -> None:
    chance = random.Random(os.getpid())
    times, now, free = [], chance.expovariate(rate), 0.0
    while now < seconds:
        free = max(now, free) + service_seconds
        times.append(free - now)
        now += chance.expovariate(rate)
    times.sort()
    # In an overloaded queue the last request ends after the slice, so compute the rate from this longer time.
    print(f"rate {len(times) / max(seconds, free):.3f}")
    for percentile in (50, 95, 99):
        print(f"p{percentile} {times[int(len(times) * percentile / 100)] * 1000:.4f}")


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
