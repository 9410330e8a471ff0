"""The capacity within a latency limit, on simulated queues whose capacity is known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from costof.run.capacity_search import SPREAD, SPREAD_OF_PERCENTILES
from costof.statistics.capacity import Observation, by_round, crossing
from costof.statistics.intervals import mean_over_rounds

#: A queue with one server, exponential service times and Poisson arrivals: the time from an operation's arrival to
#: its end is exponential with the rate SERVICE - arrivals. The capacity at which 1 % takes longer than LIMIT follows.
SERVICE, LIMIT, SHARE = 1000.0, 0.02, 0.01
CAPACITY = SERVICE - math.log(1 / SHARE) / LIMIT


def observe(chance: np.random.Generator, number: int, rate: float, seconds: float) -> Observation:
    times = simulate(chance, rate, seconds)
    return Observation(number, rate, len(times), int((times > LIMIT).sum()))


def observe_percentile(chance: np.random.Generator, number: int, rate: float, seconds: float) -> Observation:
    times = simulate(chance, rate, seconds)
    return Observation.of_percentile(number, rate, float(np.percentile(times, 100 * (1 - SHARE))) / LIMIT)


def simulate(chance: np.random.Generator, rate: float, seconds: float) -> np.ndarray:
    """Return each operation's seconds from arrival to end, for an initially empty queue (Lindley's recursion)."""
    count = chance.poisson(rate * seconds)
    services, gaps = chance.exponential(1 / SERVICE, count), chance.exponential(1 / rate, count)
    walk = np.concatenate([[0.0], np.cumsum(services - gaps)])
    return np.asarray((walk - np.minimum.accumulate(walk))[:-1] + services)


def run(
    chance: np.random.Generator,
    rounds: int,
    near: float,
    observe: Callable[..., Observation] = observe,
    spread: float = SPREAD,
) -> list[Observation]:
    rates = [near * math.exp(spread * step) for step in (-1, 0, 1)]
    return [observe(chance, number, rate, 3.0) for number in range(rounds) for rate in rates]


def test_intervals_contain_the_known_capacity_of_a_queue() -> None:
    held = 0
    chance = np.random.default_rng(1)
    for near in np.geomspace(0.97 * CAPACITY, 1.03 * CAPACITY, 40):
        values = by_round(run(chance, 8, float(near)), SHARE, float(near))
        mean = mean_over_rounds([math.log(value) for value in values.values()])
        held += abs(mean.value - math.log(CAPACITY)) <= mean.half()
    # If 95 % of the intervals are right, 38 of 40 are expected. Fewer than 34 have a probability of 1 %.
    assert held >= 34


def test_geometric_mean_of_the_capacities_of_rounds_equals_the_capacity_over_all_rounds() -> None:
    observations = run(np.random.default_rng(4), 8, CAPACITY)
    values = by_round(observations, SHARE, CAPACITY)
    assert np.exp(np.mean(np.log([*values.values()]))) == pytest.approx(crossing(observations, SHARE, CAPACITY))


def test_capacity_is_estimated_correctly_from_a_starting_value_10_percent_too_low() -> None:
    observations = run(np.random.default_rng(2), 30, CAPACITY)
    assert crossing(observations, SHARE, 0.9 * CAPACITY) == pytest.approx(CAPACITY, rel=0.02)


@pytest.mark.parametrize("beyond", [0, 100])
def test_no_capacity_is_estimated_if_all_rates_are_too_low_or_too_high(beyond: int) -> None:
    observations = [Observation(number, rate, 100, beyond) for number in range(5) for rate in (90.0, 100.0, 110.0)]
    assert crossing(observations, SHARE, 100.0) is None
    assert by_round(observations, SHARE, 100.0) == {}


def test_no_capacity_is_estimated_if_the_share_of_late_operations_does_not_depend_on_the_rate() -> None:
    observations = [Observation(number, rate, 100_000, 1000) for number in range(5) for rate in (90.0, 100.0, 110.0)]
    assert crossing(observations, SHARE, 100.0) is None


def test_capacity_fitted_to_percentiles_is_overestimated_by_less_than_5_percent() -> None:
    observations = run(np.random.default_rng(3), 100, CAPACITY, observe_percentile, SPREAD_OF_PERCENTILES)
    found = crossing(observations, SHARE, 0.9 * CAPACITY)
    assert found is not None
    assert CAPACITY < found < 1.05 * CAPACITY


def test_estimated_capacity_is_equal_for_all_latencies_beyond_five_times_the_limit() -> None:
    def observed(most: float) -> list[Observation]:
        ratios = {90.0: 0.5, 100.0: 1.0, 110.0: most}
        return [Observation.of_percentile(number, *each) for number in range(5) for each in ratios.items()]

    assert crossing(observed(5.0), SHARE, 100.0) == crossing(observed(math.inf), SHARE, 100.0)


def test_capacity_is_estimated_in_every_round_even_if_few_measurements_have_late_operations() -> None:
    # These figures are from a real run. Nearly all late operations came in three of its slices, and two of these slices
    # had low rates.
    late = {(2, 254.0): 17, (4, 253.0): 13, (4, 291.0): 9, (6, 293.0): 9, (7, 296.0): 15}
    rates = {2: (254, 272, 292), 4: (253, 272, 291), 5: (248, 266, 285), 6: (254, 273, 293), 7: (257, 276, 296)}
    observations = [
        Observation(number, float(rate), 2 * rate, late.get((number, float(rate)), 0))
        for number, each in rates.items()
        for rate in each
    ]
    values = by_round(observations, SHARE, 272.0)
    assert values.keys() == rates.keys()
    assert crossing(observations, SHARE, 272.0) == pytest.approx(276, rel=0.1)
