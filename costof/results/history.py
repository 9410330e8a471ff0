"""Effects over many runs of one study, and the runs from which they changed.

For each effect, the logarithm of arm / control is a series with one value for each run. The runs from which the effect
changed are the change points of this series (`statistics/change_points.py`). The values are first divided by their
noise: by the standard deviation between consecutive runs or the median standard error of a run, whichever is larger.
Because of this division, the same penalty (3 log n for n runs) suits all effects. In simulations with 6 to 50 runs and
no change, at most 4 % of 150 series had a change point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

import numpy as np

from costof.model import Finite, Model
from costof.results.index import Index
from costof.statistics.change_points import change_points
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import CONFIDENCE, half_width, t_quantile

#: With fewer runs, a change cannot be distinguished from chance.
FEWEST_RUNS = 6
#: Minimum number of runs between two changes, because a single run may be an outlier.
FEWEST_BETWEEN = 2
PENALTY = 3.0


class Point(Model):
    """The effect in one run of the series, as the ratio of arm to control."""

    run: str
    started: str
    ratio: Estimate


class Step(Model):
    """A change of an effect from the ratio `before` to the ratio `after`.

    `first` is the first run with the new ratio.
    """

    first: str
    before: Finite
    after: Finite


class History(Model):
    """An effect in one of the study's headline (most important) metrics over several runs, oldest first.

    `steps` are the changes of the effect; None if there are too few runs.
    """

    metric: str
    arm: str
    points: list[Point]
    steps: list[Step] | None


def histories(indexes: Sequence[Index]) -> list[History]:
    """Return the history of every headline effect in these runs of one study."""
    ordered = sorted(indexes, key=lambda index: index.core.started)
    headline = {metric.name for index in ordered for metric in index.headline_metrics}
    pairs = dict.fromkeys(
        (effect.metric, effect.arm) for index in ordered for effect in index.core.effects if effect.metric in headline
    )
    result = []
    for metric, arm in pairs:
        effects = [(index.core, index.effect(metric, arm)) for index in ordered]
        points = [
            Point(run=core.run, started=core.started, ratio=effect.ratio)
            for core, effect in effects
            if effect is not None and effect.ratio is not None and effect.ratio.low > 0
        ]
        if points:
            steps = _steps(points) if len(points) >= FEWEST_RUNS else None
            result.append(History(metric=metric, arm=arm, points=points, steps=steps))
    return result


def _steps(points: Sequence[Point]) -> list[Step]:
    ratios = [point.ratio for point in points]
    values = np.log([ratio.value for ratio in ratios])
    deviation = float(np.std(np.diff(values))) / math.sqrt(2)
    # Standard errors of the logarithms of the ratios.
    errors = [
        half_width(each) / t_quantile(each.rounds - 1, CONFIDENCE) if each.rounds > 1 and each.high > each.low else 0.0
        for each in ratios
    ]
    scale = max(deviation, median(errors))
    if scale <= 0:
        return []
    changes = change_points((values / scale).tolist(), PENALTY * math.log(len(points)), FEWEST_BETWEEN)
    means = [math.exp(fmean(values[low:high])) for low, high in pairwise([0, *changes, len(points)])]
    return [
        Step(first=points[first].run, before=before, after=after)
        for first, (before, after) in zip(changes, pairwise(means), strict=True)
    ]
