"""Forecasts of a run in progress: the time of its end, and whether its effects will have verdicts at its end.

A verdict says whether an effect is a cost, a saving, or too small to matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from costof.results.changes import ContrastedChange
from costof.results.models import LONGEST_WAIT
from costof.run.schedule import LOOKS, SPENDING_POWER, STEADY_ROUNDS
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.statistics.verdicts import ERROR_RATE, Contrast, rounds_needed
from costof.study.plan import Plan


@dataclass(frozen=True)
class Pace:
    """The number of complete rounds since the servers were last started, and the seconds that they took."""

    rounds: int
    seconds: float

    @property
    def round_seconds(self) -> float:
        return self.seconds / max(1, self.rounds)

    def rounds_after(self, seconds: float) -> int:
        return self.rounds + int(seconds / self.round_seconds) if self.round_seconds else self.rounds


def seconds_left(plan: Plan, pace: Pace) -> float:
    """Return the seconds until the last round ends: at the end of the budget or after the maximum number of rounds.

    With --restarts, budget and number of rounds are those of one start of the servers.
    """
    for_rounds = (plan.most_rounds - pace.rounds) * pace.round_seconds
    budget = plan.start_budget_seconds
    return max(0.0, for_rounds if budget is None else min(budget - pace.seconds, for_rounds))


def may_end_earlier(plan: Plan) -> bool:
    return plan.starts == 1 and (plan.precision is not None or plan.ends_when_resolved)


def seconds_to_verdict(
    plan: Plan, pace: Pace, effects: Sequence[ContrastedChange], precision: float | None, left: float
) -> float | None:
    """Return the seconds until the run will probably end with a verdict on every effect; None if it will not.

    The result is also None if there are too few rounds to tell. `precision` is the half-width of the widest confidence
    interval so far: 0.02 means ±2 %. `left` is the maximum number of seconds until the run ends.
    """
    if not effects or (plan.starts > 1 and plan.starts < FEWEST_ROUNDS):
        return None
    contrasts = [each.contrast for each in effects]
    if plan.starts > 1:
        starts = {each.rounds for each in contrasts}
        return left if min(starts) >= FEWEST_ROUNDS and _are_resolved(contrasts, plan.starts, ERROR_RATE) else None
    for share, earlier in _looks(plan, pace):
        seconds = share * (plan.start_budget_seconds or 0.0) - pace.seconds
        rounds, rate = pace.rounds_after(seconds), ERROR_RATE * (share**SPENDING_POWER - earlier**SPENDING_POWER)
        if seconds < left and rounds >= plan.fewest_rounds and _are_resolved(contrasts, rounds, rate):
            left = seconds
            break
    if plan.precision is not None and precision is not None:
        # The half-width is inversely proportional to the square root of the number of rounds: a quarter of the
        # half-width needs 16 times as many rounds.
        rounds = max(
            math.ceil(pace.rounds * (precision / plan.precision) ** 2),
            plan.fewest_rounds,
            pace.rounds + STEADY_ROUNDS - 1,
        )
        left = min(left, (rounds - pace.rounds) * pace.round_seconds)
    return left if _are_resolved(contrasts, pace.rounds_after(left), ERROR_RATE) else None


def needed_seconds(effects: Sequence[ContrastedChange], pace: Pace, longest_seconds: float) -> list[float | None]:
    """Return, for each effect, how many more seconds the run must measure until the effect has a verdict.

    An entry is None if the time is unknown or more than `LONGEST_WAIT` times `longest_seconds`.
    """
    most = pace.rounds_after(LONGEST_WAIT * longest_seconds)
    return [_needed(each.contrast, len(effects), most, pace.round_seconds) for each in effects]


def _needed(contrast: Contrast, count: int, most: int, round_seconds: float) -> float | None:
    if contrast.rounds >= FEWEST_ROUNDS and contrast.change.error == 0:
        return 0.0
    rounds = rounds_needed(contrast, count, max(most, contrast.rounds))
    return None if rounds is None else max(0, rounds - contrast.rounds) * round_seconds


def _are_resolved(contrasts: Sequence[Contrast], rounds: int, error_rate: float) -> bool:
    """Return whether all effects are expected to have a verdict after this number of rounds."""
    return rounds >= FEWEST_ROUNDS and all(
        contrast.rounds >= FEWEST_ROUNDS
        and (
            contrast.change.error == 0
            or rounds_needed(contrast, len(contrasts), max(rounds, FEWEST_ROUNDS), error_rate) is not None
        )
        for contrast in contrasts
    )


def _looks(plan: Plan, pace: Pace) -> list[tuple[float, float]]:
    """Return the interim analyses (looks) that are still to come, each as two shares of the budget, such as (0.5, 0.3).

    The pair (0.5, 0.3) means: this look takes place when half of the budget is spent, and the look before it when 30 %
    are spent. In the pair of the first look, the second share is 0.
    """
    budget = plan.start_budget_seconds
    if budget is None or not plan.ends_when_resolved:
        return []
    return [(share, earlier) for earlier, share in pairwise((0.0, *LOOKS)) if share * budget > pace.seconds]
