"""Change points: positions at which the mean of a series changes.

The change points divide the series into segments. They are chosen so that a sum is as small as possible: the squared
distances of all values from the means of their segments, plus a penalty for each change. Optimal partitioning finds the
exact minimum (Jackson et al. 2005). PELT would be faster (Killick, Fearnhead & Eckley 2012), but a series has only one
value for each run, so speed does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean


def change_points(values: Sequence[float], penalty: float, fewest: int) -> list[int]:
    """Return the positions of the first value after each change.

    `penalty` has the unit of a squared value. At least `fewest` values lie between two changes.
    """
    # Subtract the mean, because differences of large sums would lose the small distances to rounding.
    middle = fmean(values) if values else 0.0
    centred = [value - middle for value in values]
    sums = list(accumulate(centred, initial=0.0))
    squares = list(accumulate((value * value for value in centred), initial=0.0))

    def distance(start: int, end: int) -> float:
        return squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)

    # For each n: the smallest sum for the first n values, and the positions of the changes with this sum.
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for end in range(fewest, len(values) + 1):
        starts = [start for start in best if end - start >= fewest]
        costs = {start: best[start][0] + distance(start, end) + penalty * (start > 0) for start in starts}
        start = min(costs, key=costs.__getitem__)
        best[end] = costs[start], [*best[start][1], *([start] if start else [])]
    return best.get(len(values), best[0])[1]
