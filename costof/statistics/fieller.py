"""A share with its interval: one paired difference over another.

The interval is Fieller's (1954), on the same means as every other interval of a run: all shares s for which the
interval of the rounds' `part - s * whole` holds 0. It needs no resampling, is as sound at six rounds as the effects
are, and widens as the whole gets small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from costof.statistics.estimate import Estimate
from costof.statistics.intervals import estimate

#: No share is looked for beyond this many times the whole, either way.
FARTHEST = 1e4


def share_of(parts: Sequence[float], wholes: Sequence[float]) -> Estimate | None:
    """Part over whole, paired by round; None where the share has no bounded interval."""

    def left(share: float) -> Estimate:
        return estimate([part - share * whole for part, whole in zip(parts, wholes, strict=True)])

    value, one, other = (_crossing(left, of) for of in ("value", "low", "high"))
    if value is None or one is None or other is None:
        return None
    return Estimate(value=value, low=min(value, one, other), high=max(value, one, other), rounds=len(parts))


def _crossing(left: Callable[[float], Estimate], end: str) -> float | None:
    """The share at which this end of the interval of `part - share * whole` is 0; None where it never is.

    Halved rather than by scipy's `brentq`, whose import takes longer than a page.
    """

    def at(share: float) -> float:
        return float(getattr(left(share), end))

    reach = 2.0
    while at(-reach) * at(reach) > 0:
        reach *= 4
        if reach > FARTHEST:
            return None
    rising, low, high = at(reach) > 0, -reach, reach
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (low, middle) if (at(middle) > 0) == rising else (middle, high)
    return low
