"""Moderated variances: the arms of one metric share information, so that a run needs six rounds instead of twelve.

Arms that are measured in turn on the same servers have noise of similar size. But with few rounds, the variance of each
arm is uncertain. Empirical Bayes (Smyth 2004, "Linear models and empirical Bayes methods", 3 and 6.2) therefore moves
each variance towards a common variance: all the way if the variances are similar, and hardly at all if they are very
different.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Squared correlation between the differences of two arms from the same control. The correlation is 1/2, because the
#: control contributes half of the variance of each difference. Additional arms therefore add less information.
SHARED_BY_CONTROL = 0.25


@dataclass(frozen=True)
class Variance:
    value: float
    freedom: float


def moderated(variances: Sequence[Variance]) -> list[Variance]:
    """Return the variances, each moved towards the others. A single variance, or a variance of 0, does not change."""
    known = [each for each in variances if each.value > 0 and each.freedom > 0]
    if len(known) < 2:
        return list(variances)
    prior = _prior(known)
    pooled = sum(each.freedom for each in known) / (1 + (len(known) - 1) * SHARED_BY_CONTROL)
    return [_shrunk(each, prior, pooled) if each in known else each for each in variances]


def _shrunk(variance: Variance, prior: Variance, pooled: float) -> Variance:
    if math.isinf(prior.freedom):
        return Variance(prior.value, max(variance.freedom, pooled))
    freedom = variance.freedom + prior.freedom
    value = (variance.freedom * variance.value + prior.freedom * prior.value) / freedom
    return Variance(value, max(variance.freedom, min(freedom, pooled)))


def _prior(known: Sequence[Variance]) -> Variance:
    """Return the common variance and its degrees of freedom (Smyth 2004, 6.2: moments of the variances' logarithms).

    The degrees of freedom are infinite if the variances differ no more than expected by chance.
    """
    # Imported here because the import takes a tenth of a second, and `costof list` should not wait for it.
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
    """Return the inverse of the trigamma function, by Newton's method on its reciprocal (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    if value > 1e7:
        return 1 / math.sqrt(value)
    if value < 1e-6:
        return 1 / value
    root = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, root))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, root))
        root += step
        if abs(step) < 1e-8 * root:
            break
    return root
