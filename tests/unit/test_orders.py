"""Orders in which arms take turns."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costof.run.schedule import BalancedOrders


def orders_of(arms: int, rounds: int, seed: int) -> list[list[str]]:
    orders, names, found, last = BalancedOrders(random.Random(seed)), [f"arm {n}" for n in range(arms)], [], None
    for _ in range(rounds):
        found.append(orders.next(names, last))
        last = found[-1][-1]
    return found


@given(arms=st.integers(2, 20), rounds=st.integers(1, 60), seed=st.integers(0, 100))
def test_every_arm_follows_every_arm_equally_often_itself_too(arms: int, rounds: int, seed: int) -> None:
    found = orders_of(arms, rounds, seed)
    assert all(len(set(order)) == len(order) == arms for order in found)
    measured = [arm for order in found for arm in order]
    follows = Counter(pairwise(measured))
    of_each = [follows[one, other] for one in set(measured) for other in set(measured)]
    # A round of two arms has one order, which the round before decides; of more arms several are as good.
    assert max(of_each) - min(of_each) <= (1 if arms == 2 else 3)
    itself = [follows[arm, arm] for arm in set(measured)]
    # The arm that began the first round had none before it, and the last one will have itself.
    assert max(itself) - min(itself) <= 2


@pytest.mark.parametrize("arms", [3, 4])
def test_any_order_may_be_the_first_and_the_seed_decides(arms: int) -> None:
    first = {tuple(orders_of(arms, 1, seed)[0]) for seed in range(400)}
    assert len(first) == {3: 6, 4: 24}[arms]
    assert orders_of(arms, 20, 7) == orders_of(arms, 20, 7)


def test_a_round_goes_on_with_what_was_measured_last() -> None:
    orders = BalancedOrders(random.Random(3))
    assert orders.next(["a", "b", "c"], "b")[0] == "b"
    orders = BalancedOrders(random.Random(3))
    begun = Counter(orders.next(["a", "b", "c"], "another workload's arm")[0] for _ in range(30))
    assert max(begun.values()) - min(begun.values()) <= 1, "where it cannot, all arms begin equally often"
    assert orders.next(["a"], None) == ["a"]
