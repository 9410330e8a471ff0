"""Tests of intervals of runs that end because of their figures, on simulated runs with a known cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import scipy

from costof.statistics.any_end import widening
from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, Numbers, t_quantile

RUNS, ROUNDS = 4000, 60
Ends = npt.NDArray[np.int64]


class Simulated:
    """Runs whose rounds differ by 1 around the cost: middle and half-width of the interval after each round."""

    def __init__(self, cost: float, rounds: int = ROUNDS) -> None:
        differences = np.random.default_rng(round(1000 * cost) + 1).normal(cost, 1.0, (RUNS, rounds))
        count = np.arange(1, rounds + 1)
        self.cost, self.middle = cost, np.cumsum(differences, axis=1) / count
        squares = np.cumsum(differences**2, axis=1) - count * self.middle**2
        spread = np.sqrt(np.maximum(squares, 0.0) / np.maximum(count - 1, 1))
        self.half = spread / np.sqrt(count) * [0.0, *(t_quantile(each - 1, CONFIDENCE) for each in count[1:])]

    def held(self, ends: Ends, chosen: npt.NDArray[np.bool_]) -> float:
        """Return the share of runs whose interval contains the cost at their end.

        `ends` are the rounds at which they end. Where `chosen`, the interval is one that holds at any end.
        """
        return float(np.mean(np.abs(self._at(self.middle, ends) - self.cost) <= self._half(ends, chosen)))

    def claims(self, ends: Ends, chosen: npt.NDArray[np.bool_]) -> float:
        """Return the share of runs whose interval excludes 0."""
        return float(np.mean(np.abs(self._at(self.middle, ends)) > self._half(ends, chosen)))

    def _half(self, ends: Ends, chosen: npt.NDArray[np.bool_]) -> Numbers:
        wider = np.array([widening(int(end), float(end - 1)) for end in ends])
        return self._at(self.half, ends) * np.where(chosen, wider, 1.0)

    def _at(self, numbers: Numbers, ends: Ends) -> Numbers:
        taken: Numbers = numbers[np.arange(RUNS), ends - 1]
        return taken

    def first(self, reached: npt.NDArray[np.bool_], rounds: int = ROUNDS) -> Ends:
        """Return the first round from a verdict's fewest rounds on in which this is reached, or else the last round."""
        after = reached[:, :rounds].copy()
        after[:, : FEWEST_ROUNDS - 1] = False
        after[:, -1] = True
        return np.argmax(after, axis=1) + 1

    @property
    def convincing(self) -> npt.NDArray[np.bool_]:
        """True where the displayed interval excludes 0."""
        shown: npt.NDArray[np.bool_] = np.abs(self.middle) > self.half
        return shown


NEVER = np.zeros(RUNS, bool)


def planned(runs: Simulated) -> tuple[Ends, npt.NDArray[np.bool_]]:
    return np.full(RUNS, ROUNDS), NEVER


def precise(runs: Simulated) -> tuple[Ends, npt.NDArray[np.bool_]]:
    """Ends after three rounds in a row that have reached a precision that takes about 30 rounds (--precision)."""
    narrow = runs.half <= 0.37
    steady = narrow.copy()
    steady[:, 2:] &= narrow[:, 1:-1] & narrow[:, :-2]
    steady[:, :10] = False
    return runs.first(steady), NEVER


def impatient(runs: Simulated, *, wider: bool) -> tuple[Ends, npt.NDArray[np.bool_]]:
    """Ends by Ctrl-C as soon as the displayed interval excludes 0."""
    ends = runs.first(runs.convincing)
    return ends, (ends < ROUNDS) & wider


def continued(runs: Simulated) -> tuple[Ends, npt.NDArray[np.bool_]]:
    """Ends at the first of three planned ends (--resume with twice the budget) whose interval excludes 0."""
    at = [ROUNDS, 2 * ROUNDS, 4 * ROUNDS]
    return np.select([runs.convincing[:, end - 1] for end in at], at, at[-1]), NEVER


COSTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
Ending = Callable[[Simulated], tuple[Ends, npt.NDArray[np.bool_]]]


def worst(ending: Ending, rounds: int = ROUNDS) -> tuple[float, float]:
    """Return the lowest share of intervals that contain the cost, over all costs, and the share of false costs."""
    runs = {cost: Simulated(cost, rounds) for cost in COSTS}
    return min(each.held(*ending(each)) for each in runs.values()), runs[0.0].claims(*ending(runs[0.0]))


@pytest.mark.parametrize(
    ("ending", "rounds"), [(planned, ROUNDS), (precise, ROUNDS), (continued, 4 * ROUNDS)], ids=lambda each: str(each)
)
def test_intervals_hold_at_planned_ends(ending: Ending, rounds: int) -> None:
    held, _ = worst(ending, rounds)
    assert held >= 0.92


def test_intervals_of_a_run_that_is_stopped_as_soon_as_it_convinces_hold() -> None:
    held, false = worst(partial(impatient, wider=True))
    assert held >= 0.95
    assert false <= 0.05


def test_without_wider_intervals_stopping_a_convincing_run_leads_to_false_costs() -> None:
    """This shows that the test above can fail."""
    held, false = worst(partial(impatient, wider=False))
    assert held < 0.9
    assert false > 0.15


@pytest.mark.parametrize(("rounds", "times"), [(5, 3.0), (10, 1.7), (20, 1.6), (60, 1.6), (200, 1.7)])
def test_price_of_any_end_is_known(rounds: int, times: float) -> None:
    assert widening(rounds, rounds - 1.0) == pytest.approx(times, abs=0.05)


def test_interval_that_holds_at_any_end_equals_that_of_the_mixture_test() -> None:
    """The likelihood ratio is integrated numerically over effects and variances."""
    rounds, freedom = 12, 11.0
    t = widening(rounds, freedom) * t_quantile(freedom, CONFIDENCE)
    # The ratio of the densities of t under effects with a normal distribution of variance 1 and under none.
    scaled = t / math.sqrt(1 + rounds)
    ratio = scipy.stats.t.pdf(scaled, freedom) / math.sqrt(1 + rounds) / scipy.stats.t.pdf(t, freedom)
    assert ratio == pytest.approx(1 / (1 - CONFIDENCE))
