"""Where the mean of a series has changed: the least squared distances from the means, and a penalty for each change.

Exact, by optimal partitioning (Jackson et al. 2005), the answer that PELT prunes its way to (Killick, Fearnhead &
Eckley 2012): here a series has as many values as somebody has made runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean


def change_points(values: Sequence[float], penalty: float, fewest: int) -> list[int]:
    """Positions of the first value after each change. `penalty` is in squares of the values' unit; at least `fewest`
    values lie between two changes."""
    # Around their own middle, or large sums would swallow small distances.
    middle = fmean(values) if values else 0.0
    centred = [value - middle for value in values]
    sums = list(accumulate(centred, initial=0.0))
    squares = list(accumulate((value * value for value in centred), initial=0.0))

    def distance(start: int, end: int) -> float:
        return squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)

    # By where a series is cut off: its least cost, and its changes.
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for end in range(fewest, len(values) + 1):
        starts = [start for start in best if end - start >= fewest]
        costs = {start: best[start][0] + distance(start, end) + penalty * (start > 0) for start in starts}
        start = min(costs, key=costs.__getitem__)
        best[end] = costs[start], [*best[start][1], *([start] if start else [])]
    return best.get(len(values), best[0])[1]
