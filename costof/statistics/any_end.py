"""Confidence sequences: intervals that stay valid even if a run is ended because of its figures.

An ordinary 95 % interval is valid only if the end of the run was planned. A confidence sequence has one interval after
each round. In 95 % of runs, all of these intervals contain the true effect. So the last interval is valid, even if
someone ended the run because of its figures.

The intervals are those of Student's t test, but wider (Lai 1976, "On confidence sequences"; Lindon, Ham, Tingley &
Bojinov 2022, "Anytime-valid linear models and regression adjusted causal inference in randomized experiments"). If
differences are normally distributed, the intervals are exact after any number of rounds, even though the variance is
not known.
"""

from __future__ import annotations

import math
from functools import cache

from costof.statistics.intervals import CONFIDENCE, FEWEST_ROUNDS, t_quantile

#: The method averages likelihood ratios over many possible effects. These effects are normally distributed around 0,
#: with the variance of a mean over this number of rounds. With 1, intervals are finite from five rounds on. From 10 to
#: 200 rounds, the factor by which they are wider than ordinary intervals is nearly constant.
MIXTURE_ROUNDS = 1.0


@cache
def widening(rounds: int, freedom: float) -> float:
    """Return the factor by which a 95 % interval must be widened, so that it is valid whenever a run is ended.

    `freedom` is the number of degrees of freedom of the variance. It may exceed `rounds` - 1, because arms share
    information about their variances. For fewer than `FEWEST_ROUNDS` rounds, return the factor for `FEWEST_ROUNDS`.
    """
    rounds, freedom = max(rounds, FEWEST_ROUNDS), max(freedom, FEWEST_ROUNDS - 1)
    share = MIXTURE_ROUNDS / (MIXTURE_ROUNDS + rounds)
    # `share` is the prior's share of all rounds: the prior counts as MIXTURE_ROUNDS rounds. Take an effect that lies t
    # standard errors from the mean. Its likelihood ratio, averaged over the prior, is
    # sqrt(share) * ((1 + t² / freedom) / (1 + share * t² / freedom)) ** ((freedom + 1) / 2).
    # For the true effect, the ratio reaches 1 / (1 - CONFIDENCE) in at most 5 % of runs (Ville's inequality). The
    # interval ends at the t at which the ratio has this value.
    bound = ((1 - CONFIDENCE) ** 2 * share) ** (-1 / (freedom + 1))
    distance = math.sqrt(freedom * (bound - 1) / (1 - bound * share))
    return distance / t_quantile(freedom, CONFIDENCE)


def widening_to(confidence: float, rounds: int, freedom: float) -> float:
    """Return the width of an interval of this confidence, divided by the width of a 95 % interval."""
    return t_quantile(freedom, confidence) / t_quantile(freedom, CONFIDENCE)
