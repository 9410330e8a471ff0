"""Estimates with intervals, and verdicts."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from pydantic import Field

from costof.model import Finite, Model


class Verdict(StrEnum):
    COSTS = "costs"
    SAVES = "saves"
    NO_DIFFERENCE = "no difference above the margin"
    NO_COST = "no cost above the margin"
    UNRESOLVED = "unresolved"

    def words(self, better: str) -> str:
        """Return the verdict in words. If `better` is 'higher', as for a rate, the verdict 'saves' becomes 'gains'."""
        return "gains" if self is Verdict.SAVES and better == "higher" else self.value


class Estimate(Model):
    """A number with its 95 % interval."""

    value: Finite
    low: Finite
    high: Finite
    rounds: int = Field(description="Number of rounds behind the interval, or of starts if the servers were restarted.")

    def through(self, function: Callable[[float], float]) -> Estimate:
        """Return the estimate with a monotonic function applied to value and interval."""
        low, high = sorted(map(function, (self.low, self.high)))
        return Estimate(value=function(self.value), low=low, high=high, rounds=self.rounds)
