"""Two runs of one study: did a cost change?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from costof.analysis.models import Core, Effect
from costof.errors import CostofError, Problem
from costof.statistics.estimate import Estimate


@dataclass(frozen=True)
class Change:
    """One effect in both runs. `change` is the second run's difference minus the first's, in the metric's unit."""

    metric: str
    unit: str
    arm: str
    first: Estimate
    second: Estimate
    change: Estimate

    @property
    def changed(self) -> bool:
        """Zero lies outside the 95 % interval of the change."""
        return self.change.low > 0 or self.change.high < 0


def compare_runs(first: Core, second: Core) -> list[Change]:
    """Every effect that both runs have. Raises `NOT_A_RUN` when they asked different studies."""
    if first.study != second.study:
        detail = f"it asked {second.study}, and {first.run} asked {first.study}"
        raise CostofError(Problem.NOT_A_RUN, path=second.run, detail=detail)
    of_second = {(effect.metric, effect.arm): effect for effect in second.effects}
    return [
        _change(effect, of_second[effect.metric, effect.arm])
        for effect in first.effects
        if (effect.metric, effect.arm) in of_second
    ]


def _change(first: Effect, second: Effect) -> Change:
    a, b = first.difference, second.difference
    value = b.value - a.value
    # Two runs are independent, so their half-intervals add in squares.
    half = math.hypot((a.high - a.low) / 2, (b.high - b.low) / 2)
    change = Estimate(value=value, low=value - half, high=value + half, rounds=min(a.rounds, b.rounds))
    return Change(first.metric, first.unit, first.arm, a, b, change)
