"""Uneven rounds: a few rounds that dominate a mean over rounds, such as a round in which a server stalled.

The mean includes these rounds, because stalls are a real cost if they happen again. But readers should know if a single
round causes most of a cost, or makes the cost's interval include 0. Uneven rounds also make figures look inconsistent:
the printed ratio is the mean of the rounds' ratios, and differs from the ratio of the two means printed beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median

from pydantic import Field

from costof.model import Finite, Model
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS, TRIMMED, difference, share_of_whole, trimmed_mean

#: Readers notice if the printed ratio differs by more than this share from the ratio of the two printed means.
VISIBLY = 0.1
#: The report explains uneven rounds if they make two figures of one effect, such as its mean and its trimmed mean,
#: differ by more than this share.
CLEARLY = 0.2
#: The distance of a round is the distance of the control's figure from its median, plus that of the arm's figure from
#: its median. A round is far from the others if its distance is more than FAR times the median distance.
FAR = 5.0
#: A round counts as far from the others only if its distance (see `FAR`) also exceeds this share of the largest
#: distance.
LEAST_OF_FARTHEST = 0.2


class UnevenRounds(Model):
    """The rounds that dominate a mean over rounds, and the figures in these rounds and in the others.

    `rounds` is empty if no rounds are far from the others, or too many to be exceptions. In this case, `low`, `high`
    and `quotient_without` cover all rounds.
    """

    rounds: list[int] = Field(
        description="Numbers, from 1, of the rounds (or starts) that are far from the others; empty if there are none, "
        "or too many to be exceptions."
    )
    in_control: bool = Field(description="Whether the figures below are the control's; otherwise they are the arm's.")
    far: list[Finite] = Field(description="The figures in these rounds.")
    low: Finite = Field(description="The lowest figure in the other rounds.")
    high: Finite = Field(description="The highest figure in the other rounds.")
    without: Estimate = Field(
        description="The mean difference without these rounds; without any such rounds, the trimmed mean."
    )
    quotient_without: Finite | None = Field(
        description="Mean of the arm divided by mean of the control, without these rounds; None if the control is 0."
    )


def disagrees(
    effect: Estimate,
    ratio: Estimate | None,
    control: Sequence[float],
    values: Sequence[float],
    least: float = VISIBLY,
) -> bool:
    """Return whether a ratio contradicts the difference and the two means that are printed beside it.

    There are two kinds of contradictions. The ratio differs from `values`' mean / `control`'s mean by more than the
    share `least`. Or the interval of the difference (`effect`) includes 0, but that of the ratio does not include 1.
    """
    if ratio is None or ratio.value <= 0 or fmean(control) <= 0 or fmean(values) <= 0:
        return False
    quotient = fmean(values) / fmean(control)
    if abs(math.log(quotient / ratio.value)) > math.log1p(least):
        return True
    return effect.low <= 0 <= effect.high and not ratio.low <= 1 <= ratio.high


def ratio_of_means(control: Sequence[float], values: Sequence[float]) -> Estimate | None:
    """Return the arm's mean divided by the control's, with Fieller's interval; None if the interval is not bounded.

    The interval includes 1 only if the difference may be 0, and so agrees with the interval of the difference.
    """
    found = share_of_whole(values, control) if len(values) > 1 else None
    return found and found.model_copy(update={"low": max(0.0, found.low)})


def uneven_rounds(
    numbers: Sequence[int], effect: Estimate, ratio: Estimate | None, control: Sequence[float], values: Sequence[float]
) -> UnevenRounds | None:
    """Return the rounds that dominate the mean difference; None if none do. `numbers` are the numbers of the rounds.

    Rounds dominate the mean difference in two cases:

    - The mean difference disagrees clearly (`CLEARLY`) with the ratio or with the trimmed mean.
    - The interval of the mean difference includes 0, although the interval of the trimmed mean does not.
    """
    if len(values) < FEWEST_ROUNDS:
        return None
    pairs = list(zip(control, values, strict=True))
    usual = trimmed_mean([b - a for a, b in pairs]).estimate(len(values))
    far = _far(control, values)
    resolved = not usual.low <= 0 <= usual.high
    includes_none = resolved and effect.low <= 0 <= effect.high
    differs = resolved and abs(effect.value - usual.value) > CLEARLY * abs(usual.value)
    if not (includes_none or disagrees(effect, ratio, control, values, CLEARLY) or (differs and far)):
        return None
    rest = [place for place in range(len(values)) if place not in far]
    kept_control, kept = [control[place] for place in rest], [values[place] for place in rest]
    in_control = _spread(control, far) > _spread(values, far)
    shown = control if in_control else values
    return UnevenRounds(
        rounds=[numbers[place] for place in far],
        in_control=in_control,
        far=[shown[place] for place in far],
        low=min(shown[place] for place in rest),
        high=max(shown[place] for place in rest),
        without=difference(kept_control, kept) if far else usual,
        quotient_without=fmean(kept) / fmean(kept_control) if fmean(kept_control) > 0 else None,
    )


def _far(control: Sequence[float], values: Sequence[float]) -> list[int]:
    """Return the positions of the rounds that are far from the others, in order.

    Return [] if several rounds, and more than 15 % of all rounds, are far from the others: so many rounds are not
    exceptions.
    """
    usual_control, usual = median(control), median(values)
    distances = [abs(a - usual_control) + abs(b - usual) for a, b in zip(control, values, strict=True)]
    least = max(FAR * median(distances), LEAST_OF_FARTHEST * max(distances))
    far = [place for place, distance in enumerate(distances) if distance > least]
    return far if len(far) <= max(1, int(TRIMMED * len(values))) else []


def _spread(numbers: Sequence[float], far: Sequence[int]) -> float:
    """Return how far the numbers at the positions `far` are from the median: the largest of their distances.

    If `far` is empty, return the range of all numbers.
    """
    if not far:
        return max(numbers) - min(numbers)
    usual = median(numbers)
    return max(abs(numbers[place] - usual) for place in far)
