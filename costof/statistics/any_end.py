"""Confidence sequences: intervals that stay valid even if a run is ended because of its figures.

An ordinary 95 % interval holds only for a planned end. A confidence sequence has an interval after every round. In 95 %
of runs, all of these intervals contain the truth, so the last one holds whenever a run is ended.

This sequence belongs to Student's t test. An interval contains all effects that are not excluded by a mixture of
likelihood ratios over normally distributed effects (Lai 1976, "On confidence sequences"; Lindon, Ham, Tingley & Bojinov
2022, "Anytime-valid linear models and regression adjusted causal inference in randomized experiments"). If differences
are normally distributed, the sequence is exact after any number of rounds. It does not need to know the variance.
"""

from __future__ import annotations

import math
from functools import cache

from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, t_quantile

#: The prior weight of the mixture: its effects scatter around 0 as much as means over this number of rounds do. With 1,
#: intervals are bounded from five rounds on. From 10 to 200 rounds, they are nearly the same multiple of ordinary
#: intervals.
MIXTURE_ROUNDS = 1.0


@cache
def widening(rounds: int, freedom: float) -> float:
    """Return the width of an interval that is valid whenever a run is ended, divided by that of an ordinary one.

    Both are 95 % intervals. `freedom` are the degrees of freedom of the variance, which may exceed `rounds` - 1 if arms
    share their variances. With fewer rounds than a verdict needs, return the width for `FEWEST_ROUNDS`.
    """
    rounds, freedom = max(rounds, FEWEST_ROUNDS), max(freedom, FEWEST_ROUNDS - 1)
    share = MIXTURE_ROUNDS / (MIXTURE_ROUNDS + rounds)
    # The likelihood ratio of an effect that is t standard errors away is
    # sqrt(share) * ((1 + t² / freedom) / (1 + share * t² / freedom)) ** ((freedom + 1) / 2).
    # By Ville's inequality, it ever reaches 1 / (1 - CONFIDENCE) for the true effect in 5 % of runs at most.
    bound = ((1 - CONFIDENCE) ** 2 * share) ** (-1 / (freedom + 1))
    distance = math.sqrt(freedom * (bound - 1) / (1 - bound * share))
    return distance / t_quantile(freedom, CONFIDENCE)


def widening_to(confidence: float, rounds: int, freedom: float) -> float:
    """Return the width of an interval of this confidence, as a multiple of an ordinary 95 % interval."""
    return t_quantile(freedom, confidence) / t_quantile(freedom, CONFIDENCE)
