"""Tests of intervals, break-even points, shares and adjusted p-values, on simulated runs with known truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import example, given
from hypothesis import strategies as st

from costof.run.schedule import enough
from costof.statistics.break_even import Rounds, break_even, saves_below
from costof.statistics.intervals import CONFIDENCE, TRIMMED, Numbers, estimate, share_of_whole, t_quantile, trimmed_mean
from costof.statistics.moderation import Variance, moderated
from costof.statistics.proportions import newcombe, wilson
from costof.statistics.verdicts import benjamini_hochberg, holm
from costof.study.library import load_study
from costof.study.plan import Options, resolve

RUNS = 1000
TRUE_RATIO = 1.10


def simulate(chance: np.random.Generator, runs: int, rounds: int, true_ratio: float) -> tuple[Numbers, Numbers]:
    """Return the times of control and arm on a shared machine, one row for each run.

    Both drift together as a random walk, and each slice has noise of 3 %. One slice in ten is slower, as in real runs
    whose disturbed rounds were discarded.
    """
    shape = (runs, rounds)
    drift = np.cumsum(chance.normal(0, 0.02, shape), axis=1)

    def arm(effect: float) -> Numbers:
        hiccup = np.where(chance.random(shape) < 0.1, chance.exponential(0.08, shape), 0.0)
        return np.exp(math.log(2.0) + drift + effect + chance.normal(0, 0.03, shape) + hiccup)

    return arm(0.0), arm(math.log(true_ratio))


def intervals(samples: Numbers) -> tuple[Numbers, Numbers]:
    """Return middle and half-width of each row's interval, as `estimate` computes them."""
    count = samples.shape[1]
    return samples.mean(axis=1), samples.std(axis=1, ddof=1) / math.sqrt(count) * t_quantile(count - 1, CONFIDENCE)


def coverage(truth: float, control: Numbers, arm: Numbers) -> float:
    """Return the share of runs in which the interval of the ratio contains the truth."""
    middle, half = intervals(np.log(arm / control))
    return float(np.mean(np.abs(middle - math.log(truth)) <= half))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [5, 8, 40])
@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_interval_of_a_trimmed_mean_equals_the_interval_of_scipy(rounds: int, confidence: float) -> None:
    (values,), _ = simulate(np.random.default_rng(rounds), 1, rounds, 1.0)
    # scipy trims int(share * rounds) values, so pass slightly more than the trimmed share.
    share = math.nextafter(max(1, int(TRIMMED * rounds)) / rounds, 1.0)
    low, high = scipy.stats.mstats.trimmed_mean_ci(values, limits=(share, share), alpha=1 - confidence)
    found = trimmed_mean(list(values)).estimate(rounds, confidence)
    assert (found.low, found.high) == pytest.approx((float(low), float(high)))


def test_interval_of_a_mean_equals_the_interval_of_students_t_distribution() -> None:
    """The quantile of Student's t for 9 degrees of freedom is 2.262 (table of Student's t, 95 %, two-sided)."""
    found = estimate([*range(10)])
    half = 2.262 * math.sqrt(sum((each - 4.5) ** 2 for each in range(10)) / 9 / 10)
    assert (found.value, found.high - found.value) == pytest.approx((4.5, half), rel=1e-3)


def test_mean_includes_an_intermittent_cost() -> None:
    """One slice of ten takes twice as long, which the trimmed mean discards."""
    difference = [0.0] * 27 + [1.0] * 3
    assert estimate(difference).value == pytest.approx(0.1)
    assert trimmed_mean(difference).value == 0.0


@pytest.mark.parametrize("rounds", [8, 40])
def test_interval_of_a_ratio_contains_the_truth_in_95_percent_of_runs(rounds: int) -> None:
    chance = np.random.default_rng(20_000 + rounds)
    assert 0.93 <= coverage(TRUE_RATIO, *simulate(chance, RUNS, rounds, TRUE_RATIO)) <= 0.97


def test_interval_computed_from_unpaired_rounds_contains_the_truth_too_rarely() -> None:
    """This shows that the test of coverage above can detect wrong intervals."""
    control, arm = simulate(np.random.default_rng(7), RUNS, 20, TRUE_RATIO)
    assert coverage(TRUE_RATIO * 1.1, np.sort(control, axis=1), arm) < 0.9


def test_stopping_at_the_requested_precision_keeps_the_coverage_of_intervals() -> None:
    """Each run ends as soon as its interval is as narrow as requested."""
    plan = resolve(load_study("mongodb-tls"), Options(profile="quick", precision="3%"))
    control, arm = simulate(np.random.default_rng(17), RUNS, 60, TRUE_RATIO)
    logs = np.log(arm / control)
    known = {rounds: intervals(logs[:, :rounds]) for rounds in range(2, 61)}
    held = 0
    for run in range(RUNS):
        reached: list[float | None] = [None]
        for rounds in known:
            reached.append(float(known[rounds][1][run]))
            if enough(plan, rounds, 0.0, reached, 0.0):
                break
        middle, half = known[rounds]
        held += abs(middle[run] - math.log(TRUE_RATIO)) <= half[run]
    assert 0.93 <= held / RUNS <= 0.97


def test_interval_of_nan_or_a_single_value_is_refused() -> None:
    with pytest.raises(ValueError, match="must be finite"):
        estimate([1.0, math.nan])
    with pytest.raises(ValueError, match="at least two"):
        estimate([1.0])


@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=60))
@example([0.010000000000000002, 0.01])
def test_estimate_lies_within_its_interval_and_the_range_of_its_sample(values: list[float]) -> None:
    found = estimate(values)
    slack = 1e-9 * max(values)
    assert found.low - slack <= found.value <= found.high + slack
    assert min(values) - slack <= found.value <= max(values) + slack


def constant_rounds(extra_operation: float) -> Rounds:
    return Rounds([10.0] * 8, [20.0] * 8, [1.0] * 8, [1.0 + extra_operation] * 8)


def test_relative_cost_at_the_break_even_point_equals_the_allowed_relative_cost() -> None:
    # A connection takes 10 on the control and 20 on the arm, an operation 1 on both. The additional 10 are 5 % of the
    # total for a connection with n operations: 10 = 0.05 * (10 + n), so n = 190.
    found = break_even(constant_rounds(0.0), 0.05, seed=1)
    assert found.value == pytest.approx(190.0)
    assert (found.low, found.high) == pytest.approx((190.0, 190.0))
    total_control, total_arm = 10 + 190 * 1.0, 20 + 190 * 1.0
    assert total_arm / total_control == pytest.approx(1.05)


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_break_even_interval_contains_the_truth(count: int) -> None:
    chance = np.random.default_rng(5)
    held = 0
    for index in range(150):
        noise = [np.exp(chance.normal(0, 0.02, count)) for _ in range(4)]
        rounds = Rounds(list(10 * noise[0]), list(20 * noise[1]), list(1.0 * noise[2]), list(1.0 * noise[3]))
        found = break_even(rounds, 0.05, seed=index)
        held += found.low <= 190.0 <= found.high
    assert held / 150 >= 0.9


def test_break_even_is_infinite_if_each_operation_adds_more_than_the_allowed_share() -> None:
    """A tunnel saves a round trip of a connection but costs 2 % of an operation, so the cost is never below 1 %."""
    rounds = Rounds([10.0] * 8, [8.0] * 8, [1.0] * 8, [1.02] * 8)
    assert math.isinf(break_even(rounds, 0.01, seed=1).value)
    assert break_even(rounds, 0.05, seed=1).value == 0.0
    # One connection saves 2. A hundred operations, each of which costs 0.02 more, use up this gain.
    found = saves_below(rounds, seed=1)
    assert (found.value, found.low, found.high) == pytest.approx((100.0, 100.0, 100.0))


@pytest.mark.parametrize(
    ("connection", "operation", "saves"),
    [(8.0, 1.0, math.inf), (8.0, 0.9, math.inf), (12.0, 0.9, 0.0), (12.0, 1.1, 0.0)],
)
def test_protection_with_cheaper_connections_saves_time_unless_operations_become_slower(
    connection: float, operation: float, saves: float
) -> None:
    rounds = Rounds([10.0] * 8, [connection] * 8, [1.0] * 8, [operation] * 8)
    assert saves_below(rounds, seed=1).value == saves


def share_and_width(arms: int, rounds: int, scatter: float, confidence: float, runs: int = 2000) -> tuple[float, float]:
    """Simulate runs in which several arms are compared with one control. Return two figures about their intervals.

    The figures are the share of intervals that contain the truth, and the width relative to Student's intervals. The
    intervals use moderated variances: the variances of all arms, shrunk towards each other.
    """
    chance = np.random.default_rng(arms * 100 + rounds)
    held, widths = 0, 0.0
    for _ in range(runs):
        control = chance.normal(0, 1, rounds)
        spreads = np.exp(scatter * chance.normal(0, 1, arms))
        differences = chance.normal(0, 1, (arms, rounds)) * spreads[:, None] - control
        unmoderated = [Variance(float(row.var(ddof=1)), rounds - 1) for row in differences]
        for row, each, alone in zip(differences, moderated(unmoderated), unmoderated, strict=True):
            half = math.sqrt(each.value / rounds) * t_quantile(round(each.freedom, 1), confidence)
            held += abs(row.mean()) <= half
            widths += half / (math.sqrt(alone.value / rounds) * t_quantile(rounds - 1, confidence))
    return held / (runs * arms), widths / (runs * arms)


@pytest.mark.parametrize(
    ("arms", "rounds"),
    [(2, 6), pytest.param(4, 6, marks=pytest.mark.slow), pytest.param(8, 12, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("scatter", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_moderated_variances_make_intervals_narrower_and_keep_their_coverage(
    arms: int, rounds: int, scatter: float
) -> None:
    held, width = share_and_width(arms, rounds, scatter, 0.95)
    assert 0.93 <= held <= 0.97
    assert width < 1.0


def test_moderated_variances_make_wide_intervals_of_six_rounds_a_third_narrower() -> None:
    """Many comparisons need a high confidence level, at which intervals with few degrees of freedom are very wide."""
    held, width = share_and_width(4, 6, 0.0, 0.999, runs=500)
    assert held > 0.997
    assert width < 0.7


def test_moderation_makes_similar_variances_equal_but_not_very_different_variances() -> None:
    similar = moderated([Variance(1.0, 5), Variance(1.1, 5), Variance(0.9, 5)])
    assert len({each.value for each in similar}) == 1
    assert similar[0].value == pytest.approx(1.0)
    assert 5 < similar[0].freedom <= 15
    small, large = Variance(1e-6, 20), Variance(1e6, 20)
    pooled = moderated([small, large, Variance(1.0, 20)])
    assert pooled[0].value < 1e-4
    assert pooled[1].value > 1e4


@pytest.mark.parametrize(
    ("rounds", "noise"), [(6, 0.3), *(pytest.param(*each, marks=pytest.mark.slow) for each in [(6, 0.02), (20, 0.3)])]
)
def test_interval_of_a_share_of_a_total_has_95_percent_coverage(rounds: int, noise: float) -> None:
    """The true share is 24 %, and `noise` is the scatter of the rounds. If no interval can be computed, it counts as
    containing the truth.
    """
    chance, held = np.random.default_rng(rounds), 0
    for _ in range(1000):
        wholes = chance.normal(1.0, noise, rounds)
        share = share_of_whole(list(0.24 * wholes + chance.normal(0.0, noise, rounds)), list(wholes))
        held += share is None or share.low <= 0.24 <= share.high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_share_of_a_total_has_no_interval_if_the_total_may_be_zero() -> None:
    chance = np.random.default_rng(3)
    losses = list(chance.normal(0.0, 1.0, 10))
    assert share_of_whole(list(chance.normal(5.0, 1.0, 10)), losses) is None


@pytest.mark.parametrize(
    ("arm", "control", "low", "high"),
    [
        # Newcombe 1998, table II, method 10.
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
    ],
)
def test_interval_of_a_difference_of_shares_equals_the_table_of_newcombe(
    arm: tuple[int, int], control: tuple[int, int], low: float, high: float
) -> None:
    assert newcombe(control, arm)[1:] == pytest.approx((low, high), abs=5e-5)


def test_adjusted_p_values_agree_with_the_example_of_benjamini_and_hochberg() -> None:
    """In the paper's example, 4 of 15 p-values are significant at 5 %, and only 3 with Bonferroni's correction."""
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p_values += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert [p <= 0.05 for p in benjamini_hochberg(p_values)] == [True] * 4 + [False] * 11
    assert [p <= 0.05 for p in holm(p_values)] == [True] * 3 + [False] * 12


def test_adjusting_an_empty_list_of_p_values_returns_an_empty_list() -> None:
    assert holm([]) == []
    assert benjamini_hochberg([]) == []


def test_interval_of_a_share_without_operations_is_from_0_to_1() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    difference, low, high = newcombe((0, 0), (3, 10))
    assert (difference, low < 0 < high) == (0.3, True)
