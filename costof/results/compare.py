"""Comparison of two runs of one study: the costs that changed.

Costs are compared as ratios of arm to control, because another machine or another hour may slow arm and control alike.
The change of a ratio gets a verdict like an effect. The verdict includes the uncertainty of both runs and is corrected
for the number of changes. A change must also exceed the noise between the control and its identical copy (the
replicate) in each of the two runs.
"""

from __future__ import annotations

import math
from collections.abc import Container

from costof.errors import CostofError, ErrorText
from costof.model import Finite, Model
from costof.results.index import Index
from costof.results.models import Core, Effect
from costof.statistics.estimate import Estimate, Verdict
from costof.statistics.intervals import CONFIDENCE, Mean, combined, half_width, t_quantile
from costof.statistics.verdicts import Contrast, verdicts


class Change(Model):
    """An effect in both runs, as ratios of arm to control. `change` is the second ratio divided by the first.

    `change`, `margin` and `verdict` are None if the two ratios cannot be compared.
    """

    metric: str
    arm: str
    margin: Finite | None
    first: Estimate
    second: Estimate
    change: Estimate | None
    verdict: Verdict | None


def compare_runs(first: Core, second: Core, changed_arms: Container[str] = ()) -> list[Change]:
    """Return the comparison of every effect that both runs have as a ratio. Raises `OTHER_STUDY`.

    An effect gets no verdict in two cases:

    - Its arm is in `changed_arms`: the levels of the arm, or of its control, differ between the runs.
    - The interval of its ratio reaches 0 in one of the runs, so that the interval has no logarithm.
    """
    if first.study != second.study:
        raise CostofError(
            ErrorText.OTHER_STUDY, first=first.run, study=first.study, second=second.run, other=second.study
        )
    before, after = Index(first), Index(second)
    both = [(a, b) for a in first.effects if (b := after.effect(a.metric, a.arm)) and a.ratio and b.ratio]
    contrasts = {}
    for a, b in both:
        if a.arm not in changed_arms and a.ratio and b.ratio and min(a.ratio.low, b.ratio.low) > 0:
            metric = before.metrics[a.metric]
            noise = math.hypot(_noise(before, a), _noise(after, b))
            # The logarithm of the change. The runs are independent, so the variances of their ratios are added.
            mean = combined([(-1, _logarithm(a.ratio)), (1, _logarithm(b.ratio))])
            rounds = min(a.rounds, b.rounds)
            contrasts[a.metric, a.arm] = Contrast(mean, rounds, metric.margin, noise, metric.headline, metric.better)
    verdict_by_effect = dict(zip(contrasts, verdicts([*contrasts.values()]), strict=True))
    changes = []
    for a, b in both:
        assert a.ratio is not None
        assert b.ratio is not None
        contrast = contrasts.get((a.metric, a.arm))
        changes.append(
            Change(
                metric=a.metric,
                arm=a.arm,
                margin=contrast and contrast.margin,
                first=a.ratio,
                second=b.ratio,
                change=contrast and contrast.change.estimate(contrast.rounds).through(math.exp),
                verdict=verdict_by_effect.get((a.metric, a.arm)),
            )
        )
    return changes


def _logarithm(ratio: Estimate) -> Mean:
    """Return the logarithm of a ratio, with the standard error that its interval implies."""
    freedom = ratio.rounds - 1
    error = half_width(ratio) / t_quantile(freedom, CONFIDENCE) if ratio.high > ratio.low else 0.0
    return Mean(math.log(ratio.value), error, freedom)


def _noise(index: Index, effect: Effect) -> float:
    """Return by how much the control and its identical copy may differ in the effect's metric; 0.05 is 5 %."""
    arm = index.arm(effect.arm)
    floor = index.noise(effect.metric, arm.context) if arm else None
    return floor.relative if floor else 0.0
