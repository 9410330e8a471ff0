"""How often the cost model's interval holds what an operation truly takes far away, in simulated runs."""

from __future__ import annotations

import numpy as np
import pytest

from costof.lab.round_trips import PROBES
from costof.report.sections.cost_model.model import taken_at
from costof.statistics.intervals import mean_of

RUNS = 2000
OWN_MS, NEAR_MS, FAR_MS = 0.3, 0.05, 45.0
#: Standard deviations: of a round's mean, and of a probe.
OF_ROUND, OF_PROBE = 0.02, 0.06


def coverage(rounds: int, round_trips: float, *, probed: bool = True) -> float:
    """The share of runs whose interval holds it; without `probed` the link's uncertainty is left out."""
    chance = np.random.default_rng(rounds)
    truth = OWN_MS + round_trips * FAR_MS
    held = 0
    for _ in range(RUNS):
        taken = mean_of(list(chance.normal(OWN_MS + round_trips * NEAR_MS, OF_ROUND, rounds)))
        near, far = (mean_of(list(chance.normal(ms, OF_PROBE, PROBES))) for ms in (NEAR_MS, FAR_MS))
        found = taken_at(taken, round_trips, near, far)
        half = (found if probed else taken).half()
        held += abs(found.value - truth) <= half
    return held / RUNS


@pytest.mark.parametrize("rounds", [5, 12, 40])
@pytest.mark.parametrize("round_trips", [1, 4])
def test_the_prediction_holds_the_truth_in_95_of_100_runs(rounds: int, round_trips: int) -> None:
    assert coverage(rounds, round_trips) == pytest.approx(0.95, abs=0.02)


def test_without_the_links_uncertainty_it_would_not() -> None:
    assert coverage(12, 4, probed=False) < 0.5


def test_where_it_was_measured_the_prediction_is_the_measurement() -> None:
    taken, link = mean_of([0.3, 0.31, 0.32]), mean_of([0.04, 0.06])
    assert taken_at(taken, 4, link, link) == taken
