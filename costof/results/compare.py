"""Two runs of one study: did a cost change?

Costs are compared as ratios, each arm over its own run's control: on another machine, or in another hour, everything
may be slower, and the cost is the same. The change of the ratio is judged as an effect is, with the uncertainty of both
runs, corrected for how many there are, and must exceed what the twins of both runs differ by.
"""

from __future__ import annotations

import math
from collections.abc import Container

from costof.errors import CostofError, Problem
from costof.model import Finite, Model
from costof.results.index import Index
from costof.results.models import Core, Effect
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import CONFIDENCE, Mean, combined, half_width, t_quantile
from costof.statistics.verdicts import Contrast, verdicts


class Change(Model):
    """One effect in both runs, as ratios. `change` is the second over the first: above 1 the ratio has risen.

    `change`, `margin` and `verdict` are None where the two are no cost of the same.
    """

    metric: str
    arm: str
    margin: Finite | None
    first: Estimate
    second: Estimate
    change: Estimate | None
    verdict: Verdict | None


def compare_runs(first: Core, second: Core, unlike: Container[str] = ()) -> list[Change]:
    """Every effect that both runs have as a ratio; those of `unlike` arms side by side, without a verdict.

    Raises `OTHER_STUDY`.
    """
    if first.study != second.study:
        raise CostofError(
            Problem.OTHER_STUDY, first=first.run, asked=first.study, second=second.run, other=second.study
        )
    before, after = Index(first), Index(second)
    both = [(a, b) for a in first.effects if (b := after.effect(a.metric, a.arm)) and a.ratio and b.ratio]
    alike = [(a, b) for a, b in both if a.arm not in unlike]
    contrasts = [_contrast(before, after, a, b) for a, b in alike]
    found = zip(alike, contrasts, verdicts(contrasts), strict=True)
    judged = {(a.metric, a.arm): _change(a, b, contrast, verdict) for (a, b), contrast, verdict in found}
    return [judged.get((a.metric, a.arm), _side_by_side(a, b)) for a, b in both]


def _side_by_side(a: Effect, b: Effect) -> Change:
    assert a.ratio is not None
    assert b.ratio is not None
    return Change(metric=a.metric, arm=a.arm, margin=None, first=a.ratio, second=b.ratio, change=None, verdict=None)


def _contrast(before: Index, after: Index, a: Effect, b: Effect) -> Contrast:
    metric = before.metrics[a.metric]
    noise = math.hypot(_noise(before, a), _noise(after, b))
    rounds = min(a.rounds, b.rounds)
    return Contrast(_mean(a, b), rounds, metric.margin, noise, metric.headline, metric.better)


def _mean(a: Effect, b: Effect) -> Mean:
    """The change's logarithm, of two independent runs."""
    assert a.ratio is not None
    assert b.ratio is not None
    return combined([(-1, _logarithm(a.ratio)), (1, _logarithm(b.ratio))])


def _logarithm(ratio: Estimate) -> Mean:
    freedom = ratio.rounds - 1
    error = half_width(ratio) / t_quantile(freedom, CONFIDENCE) if ratio.high > ratio.low else 0.0
    return Mean(math.log(ratio.value), error, freedom)


def _noise(index: Index, effect: Effect) -> float:
    """Return how far the control replicate may differ from the control in the effect's metric and context."""
    arm = index.arm(effect.arm)
    floor = index.noise(effect.metric, arm.context) if arm else None
    return floor.relative if floor else 0.0


def _change(a: Effect, b: Effect, contrast: Contrast, verdict: Verdict) -> Change:
    assert a.ratio is not None
    assert b.ratio is not None
    change = contrast.change.estimate(contrast.rounds).through(math.exp)
    assert contrast.margin is not None
    return Change(
        metric=a.metric,
        arm=a.arm,
        margin=contrast.margin,
        first=a.ratio,
        second=b.ratio,
        change=change,
        verdict=verdict,
    )
