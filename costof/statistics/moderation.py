"""Variances that arms of one metric lend each other, so that six rounds judge as twice as many would.

Arms that take turns on the same servers have noise of much the same size, and each arm's own few rounds know theirs
badly. Empirical Bayes (Smyth 2004, "Linear models and empirical Bayes methods", 3 and 6.2) takes the arms' variances
for draws around a common one, estimates how far they scatter, and pulls each towards the middle by as much as that
allows: alike ones to their mean, unlike ones hardly at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Of the variances of two paired differences that share their control: half of each is the control's, and the square
#: of that is what they have in common. So many arms know less than as many apart would.
SHARED_BY_CONTROL = 0.25


@dataclass(frozen=True)
class Variance:
    value: float
    freedom: float


def moderated(variances: Sequence[Variance]) -> list[Variance]:
    """Pull each variance towards the others. One alone, or one that is 0, stays as it is."""
    known = [each for each in variances if each.value > 0 and each.freedom > 0]
    if len(known) < 2:
        return list(variances)
    prior = _prior(known)
    pooled = sum(each.freedom for each in known) / (1 + (len(known) - 1) * SHARED_BY_CONTROL)
    return [_pulled(each, prior, pooled) if each in known else each for each in variances]


def _pulled(own: Variance, prior: Variance, pooled: float) -> Variance:
    if math.isinf(prior.freedom):
        return Variance(prior.value, max(own.freedom, pooled))
    freedom = own.freedom + prior.freedom
    value = (own.freedom * own.value + prior.freedom * prior.value) / freedom
    return Variance(value, max(own.freedom, min(freedom, pooled)))


def _prior(known: Sequence[Variance]) -> Variance:
    """The common variance and its weight, by the moments of the variances' logarithms (Smyth 2004, 6.2).

    Infinite where they scatter no more than so few rounds make them.
    """
    # Imported here: it takes a tenth of a second, and `costof list` should not wait for it.
    from scipy.special import digamma, polygamma

    values = np.array([each.value for each in known])
    halves = np.array([each.freedom for each in known]) / 2
    logs = np.log(values) - digamma(halves) + np.log(halves)
    scatter = float(logs.var(ddof=1) - polygamma(1, halves).mean())
    if scatter <= 0:
        return Variance(float(np.average(values, weights=halves)), math.inf)
    half = _inverse_trigamma(scatter)
    return Variance(math.exp(float(logs.mean()) + float(digamma(half)) - math.log(half)), 2 * half)


def _inverse_trigamma(value: float) -> float:
    """Newton's method on its reciprocal, which is convex and nearly linear (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, found))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, found))
        found += step
        if abs(step) < 1e-8 * found:
            break
    return found
