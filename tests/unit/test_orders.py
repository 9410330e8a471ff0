"""Orders in which arms take turns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from costof.run.orders import ordered, williams

SEEDS = st.text(max_size=5)


@given(arms=st.integers(1, 9), seed=SEEDS, cycle=st.integers(-2, 3))
def test_over_a_cycle_every_arm_follows_every_other_and_has_every_place_equally_often(
    arms: int, seed: str, cycle: int
) -> None:
    names = [f"arm {number}" for number in range(arms)]
    length = arms * (1 + arms % 2)
    orders = [ordered(names, cycle * length + number, seed) for number in range(length)]
    assert all(sorted(order) == names for order in orders)
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert follows == {(one, other): length // arms for one in names for other in names if one != other}
    places = Counter((place, arm) for order in orders for place, arm in enumerate(order))
    assert places == {(place, arm): length // arms for place in range(arms) for arm in names}


@given(number=st.integers(-2, 1000), seed=SEEDS)
def test_the_order_of_a_round_is_the_seeds(number: int, seed: str) -> None:
    assert ordered("abcd", number, seed) == ordered("abcd", number, seed)


def test_letters_and_rows_are_drawn() -> None:
    cycles = {tuple(tuple(ordered("abcd", number, str(seed))) for number in range(4)) for seed in range(100)}
    assert len({cycle[0] for cycle in cycles}) == 24, "any order may be the first"
    in_turn = [tuple(tuple(ordered("abcd", 4 * cycle + row, "")) for row in range(4)) for cycle in range(20)]
    assert len({frozenset(rows) for rows in in_turn}) == 1, "a run has one design"
    assert len(set(in_turn)) > 10, "whose rows come in another order each time"


def test_the_design_of_four() -> None:
    assert williams(4) == [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
