"""What a run may say of a quantity: an estimate with its interval, and a verdict."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from pydantic import Field

from costof.model import Finite, Model


class Verdict(StrEnum):
    """The only things a run may say of an effect (design: rules of measurement, 6)."""

    COSTS = "costs"
    SAVES = "saves"
    NO_DIFFERENCE = "no difference above the margin"
    NO_COST = "no cost above the margin"
    UNRESOLVED = "unresolved"


class Estimate(Model):
    """A number with its 95 % interval; its unit is its owner's."""

    value: Finite
    low: Finite
    high: Finite
    rounds: int = Field(description="That the interval is over; starts where the servers were started anew.")

    def through(self, function: Callable[[float], float]) -> Estimate:
        """Apply a monotonic function to value and interval."""
        low, high = sorted(map(function, (self.low, self.high)))
        return Estimate(value=function(self.value), low=low, high=high, rounds=self.rounds)
