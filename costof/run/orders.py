"""Orders in which arms take turns: Williams designs, balanced for what an arm leaves to the one after it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def williams(size: int) -> list[list[int]]:
    """Rows of 0 to `size` - 1. Over all rows each of them has each position equally often, and follows each other one
    equally often (Williams 1949): `size` rows, or twice as many where `size` is odd.
    """
    zigzag = [(step + 1) // 2 if step % 2 else -step // 2 for step in range(size)]
    first_rows = [zigzag, zigzag[::-1]] if size % 2 else [zigzag]
    return [[(letter + shift) % size for letter in row] for row in first_rows for shift in range(size)]


def ordered(items: Sequence[T], number: int, seed: str) -> list[T]:
    """The items in the order of round `number`. Over as many rounds as a design has rows, counted from round 0, every
    row comes once; the seed draws which item has which letter, and in which order rows come.
    """
    rows = williams(len(items))
    cycle, place = divmod(number, len(rows))
    letters = _shuffled(items, f"{seed}/letters")
    row = _shuffled(rows, f"{seed}/cycle {cycle}")[place]
    return [letters[letter] for letter in row]


def _shuffled(items: Sequence[T], seed: str) -> list[T]:
    return random.Random(seed).sample(items, len(items))
