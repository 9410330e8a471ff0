"""Orders in which arms take turns, balanced for what a slice leaves to the next one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

#: Orders drawn for a round, of which the most balanced is taken.
DRAWS = 8


class BalancedOrders:
    """Orders of the same few items, one a round, in which each item follows every item, itself too, equally often.

    A round has each item once and begins with the item that the round before ended with. All ordered pairs of items,
    of an item with itself too, come equally often, but for a difference of one or two. So what a slice leaves behind (a
    cache, a built tree, a busy server) meets every item alike, and is in no difference between them. Such designs are
    called strongly balanced for carry-over (Quenouille 1953, "The design and analysis of experiment"; Lucas 1957,
    "Extra-period Latin-square change-over designs"). Fixed designs exist for some numbers of items and rounds only.
    Here a round takes the order that keeps the counts most even, by lot among equals (minimization: Pocock & Simon
    1975).
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._followed: Counter[tuple[str, str]] = Counter()

    def next(self, items: Sequence[str], previous: str | None) -> list[str]:
        """Return the order of the next round. `previous`: the item that was measured last, of these or of others."""
        rows = [self._draw(items, previous) for _ in range(DRAWS)]
        row = min(rows, key=lambda row: sum(self._followed[pair] for pair in pairwise(row)))
        self._followed.update(pairwise(row))
        # One that begins by lot counts as if it followed itself: all of them begin equally often.
        self._followed[row[0], row[0]] += 1
        return row

    def _draw(self, items: Sequence[str], previous: str | None) -> list[str]:
        first = (
            previous if previous is not None and previous in items else self._rarest(items, lambda item: (item, item))
        )
        left = [item for item in items if item != first]
        if not left:
            return [first]
        # The last one follows itself in the next round.
        last = self._rarest(left, lambda item: (item, item))
        left.remove(last)
        row = [first]
        while left:
            row.append(self._rarest(left, lambda item: (row[-1], item)))
            left.remove(row[-1])
        return [*row, last]

    def _rarest(self, items: Sequence[str], pair: Callable[[str], tuple[str, str]]) -> str:
        fewest = min(self._followed[pair(item)] for item in items)
        return self._chance.choice([item for item in items if self._followed[pair(item)] == fewest])
