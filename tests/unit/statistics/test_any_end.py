"""Tests of intervals in runs that end when their figures look convincing, on simulated runs with a known cost.

Such an end favours wrong figures, so the intervals must be wider than usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from costof.statistics.any_end import widening, widening_to
from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, Numbers, t_quantile

RUNS, ROUNDS = 4000, 60
#: For each run: the number of rounds after which it ends, and the factor by which its interval is then widened.
Ends = tuple[npt.NDArray[np.int64], Numbers]


class Simulated:
    """Simulated runs, whose rounds scatter around the true cost with a standard deviation of 1.

    `middle[run, n]` and `half[run, n]` are the middle and the half-width of a run's interval after n + 1 rounds.
    """

    def __init__(self, cost: float, rounds: int) -> None:
        differences = np.random.default_rng(round(1000 * cost) + 1).normal(cost, 1.0, (RUNS, rounds))
        count = np.arange(1, rounds + 1)
        self.cost, self.middle = cost, np.cumsum(differences, axis=1) / count
        squares = np.cumsum(differences**2, axis=1) - count * self.middle**2
        errors = np.sqrt(np.maximum(squares, 0.0) / np.maximum(count - 1, 1) / count)
        self.half = errors * [0.0, *(t_quantile(each - 1, CONFIDENCE) for each in count[1:])]

    def held(self, ends: Ends) -> float:
        middle, half = self._intervals(ends)
        return float(np.mean(np.abs(middle - self.cost) <= half))

    def claims(self, ends: Ends) -> float:
        middle, half = self._intervals(ends)
        return float(np.mean(np.abs(middle) > half))

    def _intervals(self, ends: Ends) -> tuple[Numbers, Numbers]:
        rounds, times = ends
        places = np.arange(RUNS), rounds - 1
        return self.middle[places], self.half[places] * times

    def convinces(self, rounds: int, times: float = 1.0) -> npt.NDArray[np.bool_]:
        excluded: npt.NDArray[np.bool_] = np.abs(self.middle[:, rounds - 1]) > times * self.half[:, rounds - 1]
        return excluded


def planned(runs: Simulated) -> Ends:
    return np.full(RUNS, ROUNDS), np.ones(RUNS)


def precise(runs: Simulated) -> Ends:
    """Runs with --precision end after three successive rounds with a narrow interval: here after about 30 rounds."""
    narrow = runs.half <= 0.37
    steady = narrow[:, 9:] & narrow[:, 8:-1] & narrow[:, 7:-2]
    steady[:, -1] = True
    return np.argmax(steady, axis=1) + 10, np.ones(RUNS)


def stopped(runs: Simulated) -> Ends:
    """A user ends each run by Ctrl-C as soon as its interval excludes 0. The interval is not widened."""
    convincing = [runs.convinces(rounds) for rounds in range(FEWEST_ROUNDS, ROUNDS)]
    return np.argmax([*convincing, np.ones(RUNS, bool)], axis=0) + FEWEST_ROUNDS, np.ones(RUNS)


def stopped_and_widened(runs: Simulated) -> Ends:
    """A user ends the runs as in `stopped`, but reports widen the intervals."""
    ends, _ = stopped(runs)
    return ends, np.array([widening(int(end), end - 1.0) if end < ROUNDS else 1.0 for end in ends])


#: The three planned ends of a run that is continued twice (--resume, each time with twice the budget): number of
#: rounds, and error rate of the intervals reported then.
CONTINUED = {ROUNDS: 0.05, 2 * ROUNDS: 0.022, 4 * ROUNDS: 0.011}


def continued(runs: Simulated) -> Ends:
    """A user continues each run, up to twice, until its interval excludes 0. Reports widen the intervals."""
    times = {rounds: widening_to(1 - rate, rounds, rounds - 1.0) for rounds, rate in CONTINUED.items()}
    convincing = [runs.convinces(*each) for each in times.items()]
    ends = np.select(convincing, [*times], [*times][-1])
    return ends, np.array([times[int(end)] for end in ends])


COSTS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)


def worst(ending: Callable[[Simulated], Ends]) -> tuple[float, float]:
    """Return the lowest share, over all true costs, of intervals that contain the true cost.

    Also return the share of runs without a cost whose interval excludes 0.
    """
    most = max(CONTINUED) if ending is continued else ROUNDS
    runs = {cost: Simulated(cost, most) for cost in COSTS}
    return min(each.held(ending(each)) for each in runs.values()), runs[0.0].claims(ending(runs[0.0]))


@pytest.mark.parametrize(
    ("ending", "least", "most_false"),
    [(planned, 0.94, 0.06), (precise, 0.93, 0.065), (stopped_and_widened, 0.95, 0.05), (continued, 0.93, 0.07)],
)
def test_intervals_have_their_promised_coverage_for_each_way_to_end_a_run(
    ending: Callable[[Simulated], Ends], least: float, most_false: float
) -> None:
    held, false = worst(ending)
    assert held >= least
    assert false <= most_false


def test_ordinary_intervals_show_false_costs_if_a_run_may_stop_early() -> None:
    """This shows that the previous test would fail if the intervals were not wider than usual."""
    held, false = worst(stopped)
    assert held < 0.75
    assert false > 0.25


@pytest.mark.parametrize(("rounds", "times"), [(5, 3.0), (10, 1.7), (20, 1.6), (60, 1.65), (200, 1.7)])
def test_intervals_valid_at_any_stopping_time_are_wider_by_a_known_factor(rounds: int, times: float) -> None:
    assert widening(rounds, rounds - 1.0) == pytest.approx(times, abs=0.05)


def test_interval_valid_at_any_stopping_time_equals_the_interval_of_the_mixture_test() -> None:
    """The mixture test compares two hypotheses: no effect, and a random effect with a standard normal distribution.

    At the ends of the interval, the t statistic is 20 times as likely with the second hypothesis as with the first.
    """
    rounds, freedom = 12, 11.0

    def density(t: float) -> float:
        return float((1 + t**2 / freedom) ** (-(freedom + 1) / 2))

    t, scale = widening(rounds, freedom) * t_quantile(freedom, CONFIDENCE), math.sqrt(1 + rounds)
    assert density(t / scale) / scale / density(t) == pytest.approx(1 / (1 - CONFIDENCE))
