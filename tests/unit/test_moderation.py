"""Variances that are lent: right on average, and no surer than they may be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costof.statistics.intervals import t_quantile
from costof.statistics.moderation import Variance, moderated

RUNS = 2000


def share_that_holds(arms: int, rounds: int, scatter: float, confidence: float) -> tuple[float, float]:
    """Of simulated intervals against one control those that hold 0, and their width as a share of Student's own."""
    chance = np.random.default_rng(arms * 100 + rounds)
    held, widths = 0, 0.0
    for _ in range(RUNS):
        control = chance.normal(0, 1, rounds)
        spreads = np.exp(scatter * chance.normal(0, 1, arms))
        found = chance.normal(0, 1, (arms, rounds)) * spreads[:, None] - control
        own = [Variance(float(row.var(ddof=1)), rounds - 1) for row in found]
        for row, each, alone in zip(found, moderated(own), own, strict=True):
            half = math.sqrt(each.value / rounds) * t_quantile(round(each.freedom, 1), confidence)
            held += abs(row.mean()) <= half
            widths += half / (math.sqrt(alone.value / rounds) * t_quantile(rounds - 1, confidence))
    return held / (RUNS * arms), widths / (RUNS * arms)


@pytest.mark.parametrize(("arms", "rounds"), [(2, 6), (4, 6), (8, 12)])
@pytest.mark.parametrize("scatter", [0.0, 0.5])
def test_intervals_keep_their_coverage_and_get_narrower(arms: int, rounds: int, scatter: float) -> None:
    held, width = share_that_holds(arms, rounds, scatter, 0.95)
    assert 0.93 <= held <= 0.97
    assert width < 1.0


def test_six_rounds_judge_as_many_more_would() -> None:
    """At the level of many comparisons, where few degrees of freedom cost most."""
    held, width = share_that_holds(4, 6, 0.0, 0.999)
    assert held > 0.997
    assert width < 0.7


def test_alike_variances_meet_in_the_middle_and_unlike_ones_stay() -> None:
    alike = moderated([Variance(1.0, 5), Variance(1.1, 5), Variance(0.9, 5)])
    assert len({each.value for each in alike}) == 1
    assert alike[0].value == pytest.approx(1.0)
    assert 5 < alike[0].freedom <= 15
    small, large = Variance(1e-6, 20), Variance(1e6, 20)
    found = moderated([small, large, Variance(1.0, 20)])
    assert found[0].value < 1e-4
    assert found[1].value > 1e4


def test_what_lends_nothing_stays_as_it_is() -> None:
    nothing = Variance(0.0, 5)
    assert moderated([Variance(2.0, 5)]) == [Variance(2.0, 5)]
    assert moderated([nothing, Variance(2.0, 5)]) == [nothing, Variance(2.0, 5)]
    assert moderated([]) == []
