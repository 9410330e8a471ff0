"""The load (operations a second) that a sweep, a search for the capacity, chooses for each of its slices."""

from __future__ import annotations

import math

from costof.results.metrics import Samples, SliceKey
from costof.run.capacity_search import Rates
from costof.statistics.capacity import Observation
from costof.study.load import WORKLOAD, RequestedLoad
from costof.study.sweep import CAPACITY, CLOSE
from tests.support.small_plans import plan_of

LEAST, MOST = 100, 3000
CAPACITIES = {"plain": 2000.0, "tls": 250.0}


def rates() -> Rates:
    load = RequestedLoad(f"{LEAST}/s..{MOST}/s", "20")
    plan = plan_of("postgres-tls", "quick", load=load, limits=[("p99 of a query", "10ms")])
    assert plan.sweep is not None
    return Rates(plan, plan.sweep, Samples())


def keys(search: Rates) -> list[SliceKey]:
    return [SliceKey(WORKLOAD, arm.name) for arm in search.plan.arms]


def test_warm_up_of_a_load_sweep_estimates_the_capacity_of_each_arm_for_the_first_round() -> None:
    search = rates()
    for key, rate in search.round(-1, keys(search), 2.0):
        late = 0 if rate.per_second <= CAPACITIES[key.arm] else 1000
        search.add(key, Observation(-1, rate.per_second, 1000, late))
    for key, rate in search.round(0, keys(search), 2.0):
        capacity = CAPACITIES[search.plan.original(search.plan.arm(key.arm)).protection]
        # The search ends within a factor of CLOSE of the capacity, and tries rates up to 7 % away from the capacity
        # that it has found.
        assert abs(math.log(rate.per_second / capacity)) <= math.log(CLOSE) + 0.07


def test_repeated_round_of_a_load_sweep_replaces_the_measurements_of_its_first_attempt() -> None:
    search = rates()
    for number in (0, 1, 1):
        for key, rate in search.round(number, keys(search), 2.0):
            observed = Observation(number, rate.per_second, 1000, 10)
            search.samples.observe(CAPACITY, key, observed)
            search.add(key, observed)
    assert [each.round for each in search.samples.observations["tls"]] == [0, 0, 0, 1, 1, 1]


def test_warm_up_of_a_load_sweep_ends_even_if_no_measurement_has_a_result() -> None:
    search = rates()
    measured = [key.arm for key, _ in search.round(-1, keys(search), 2.0)]
    # The warm-up halves the range from 100 to 3,000 a second six times for each arm. Then it is narrower than 10 %.
    assert measured == ["plain", "tls"] * 6
    assert all(LEAST <= rate.per_second <= MOST for _, rate in search.round(0, keys(search), 2.0))
