"""Carry-over: found by a run's own data, and in no cost, whatever arm it follows."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest

from costof.run.schedule import BalancedOrders
from costof.statistics.carry_over import carry_over
from costof.statistics.intervals import mean_of

ROUNDS = 30
SPREAD = 0.05


def measured(
    arms: int, switch: float, seed: int, drop: float = 0.0
) -> tuple[list[float], list[int], list[int], list[bool]]:
    """Logarithms, rounds, arms and whether another arm came before, of a machine that remembers the last arm."""
    chance, orders = np.random.default_rng(seed), BalancedOrders(random.Random(seed))
    names, last, turns = [str(arm) for arm in range(arms)], None, []
    for number in range(ROUNDS):
        row = orders.next(names, last)
        last = row[-1]
        # The replicate follows the control at once.
        turns += [(number, arm) for name in row for arm in ([0, 0] if name == "0" else [int(name)])]
    logs, rounds, kinds, other = [], [], [], []
    for (_, before), (number, arm) in pairwise(turns):
        if chance.random() >= drop:
            logs.append(0.3 * arm + 0.2 * math.sin(number) + switch * (before != arm) + chance.normal(0, SPREAD))
            rounds.append(number)
            kinds.append(arm)
            other.append(before != arm)
    return logs, rounds, kinds, other


@pytest.mark.parametrize("arms", [2, 3, 5])
@pytest.mark.parametrize("drop", [0.0, 0.2])
def test_its_size_is_found_whatever_rounds_and_arms_differ_by(arms: int, drop: float) -> None:
    runs, held = 100, 0
    for seed in range(runs):
        found = carry_over(*measured(arms, 0.4, seed, drop))
        assert found is not None
        held += abs(found.value - 0.4) <= found.half()
    assert 0.88 <= held / runs <= 1.0


@pytest.mark.parametrize("arms", [2, 5])
def test_arms_without_memory_have_none(arms: int) -> None:
    found = [carry_over(*measured(arms, 0.0, seed)) for seed in range(100)]
    assert sum(each is not None and abs(each.value) > each.half() for each in found) <= 12


def test_an_arm_that_is_always_measured_after_the_same_one_tells_nothing() -> None:
    assert carry_over([0.0, 1.0] * 6, [n // 2 for n in range(12)], [0, 1] * 6, [False, True] * 6) is None
    assert carry_over([], [], [], []) is None


@pytest.mark.parametrize("arms", [2, 3, 5, 20])
@pytest.mark.parametrize("lasting", [False, True])
def test_what_a_slice_leaves_behind_is_in_no_arms_cost(arms: int, lasting: bool) -> None:
    """A change of arm costs half as much again, or each arm leaves something of its own behind; 30 rounds."""
    runs, false = 100, 0
    for seed in range(runs):
        chance, orders = np.random.default_rng(seed), BalancedOrders(random.Random(seed))
        names, last, before = [str(arm) for arm in range(arms)], None, None
        logs = np.zeros((ROUNDS, arms))
        for number in range(ROUNDS):
            row = orders.next(names, last)
            last = row[-1]
            for arm in map(int, row):
                left = 0.4 * (before is not None and before != arm) if lasting is False else 0.1 * (before or 0)
                logs[number, arm] = left + chance.normal(0, SPREAD)
                before = arm
        changes = [mean_of([*(logs[:, arm] - logs[:, 0])]) for arm in range(1, arms)]
        false += any(abs(change.value) > change.half(1 - 0.05 / len(changes)) for change in changes)
    assert false / runs <= 0.05
