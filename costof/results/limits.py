"""Comparison of effects with the user's limits. The whole interval of an effect decides, not its estimate alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from costof.format import percent
from costof.messages.answers import MOST_FAILED
from costof.results.index import Index
from costof.results.models import LONGEST_WAIT, Arm, Effect
from costof.statistics.estimate import Estimate
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.study.options import Limit

#: An arm cannot keep a limit if more than this share of its operations fail, and if it fails significantly more often
#: than its control.
FAILED_MORE = 0.01


class State(StrEnum):
    """The verdict on a limit. Commands print its value."""

    WITHIN = "within"
    EXCEEDED = "exceeded"
    OPEN = "undecided"


@dataclass(frozen=True)
class Outcome:
    """The verdict on a limit for one arm.

    - `effect` is None if the arm failed or was not measured.
    - `needed_seconds` is the estimated further measuring time until a decision. It is None if the limit is decided or
      if the time is too long.
    - `reason` says why the figure cannot be judged. It is None if the figure can be judged.
    """

    limit: Limit
    arm: Arm
    effect: Effect | None
    state: State
    needed_seconds: float | None = None
    reason: str | None = None


def outcomes(index: Index, limits: Iterable[Limit]) -> Iterator[Outcome]:
    """Yield the verdict on each limit for each protected arm."""
    for limit in limits:
        for arm in index.arms:
            yield _outcome(index, limit, arm, index.effect(limit.metric, arm.name))


def limit_state(change: Estimate, limit: Limit) -> State:
    """Return the verdict on a change in the limit's unit: undecided if the change's interval includes the limit."""
    # With this sign, a lower change is always better.
    sign = 1 if limit.better == "lower" else -1
    least, most = sorted((sign * change.low, sign * change.high))
    if change.rounds < FEWEST_ROUNDS or least <= sign * limit.worst < most:
        return State.OPEN
    return State.WITHIN if most <= sign * limit.worst else State.EXCEEDED


def _outcome(index: Index, limit: Limit, arm: Arm, effect: Effect | None) -> Outcome:
    change, reason = None, unusable(index, limit.metric, arm)
    if effect is not None:
        relative = effect.ratio and effect.ratio.through(lambda ratio: ratio - 1)
        change = relative if limit.relative else effect.difference
    if arm.error or change is None:
        return Outcome(limit, arm, effect, State.OPEN, reason=reason)
    state = limit_state(change, limit)
    if reason and state is State.WITHIN:
        return Outcome(limit, arm, effect, State.OPEN, reason=reason)
    more = _needed_seconds(index.core.measured_seconds, change, limit.worst) if state is State.OPEN else None
    return Outcome(limit, arm, effect, state, more)


def unusable(index: Index, metric: str, arm: Arm) -> str | None:
    """Return why the figure of an arm cannot prove that the arm keeps a limit on the metric; None if it can.

    The reason is a missing figure of arm or control, or too many failed operations.
    """
    both = [name for name in (arm.name, arm.control_arm) if name is not None]
    missing = next((each for each in index.core.missing if each.metric == metric and each.arm in both), None)
    if missing is not None:
        return missing.reason
    workload = index.metrics[metric].workload if metric in index.metrics else None
    failing = [each for each in index.core.failures if each.workload == workload and each.arm in both]
    too_many = (each for each in failing if each.share > (FAILED_MORE if each.fails_more else MOST_FAILED))
    worst = max(too_many, key=lambda each: each.share, default=None)
    if worst is None:
        return None
    return f"{percent(worst.share)} of the operations of {index.label_at(worst.arm)} failed"


def _needed_seconds(measured: float, change: Estimate, worst: float) -> float | None:
    """Return the further seconds until the interval excludes the limit; None if it takes too long.

    The assumption is that the estimate stays the same, and that the interval narrows with the square root of the time.
    """
    half, gap = (change.high - change.low) / 2, abs(change.value - worst)
    times = (half / gap) ** 2 if gap and change.rounds >= FEWEST_ROUNDS else float("inf")
    return (times - 1) * measured if 1 < times <= LONGEST_WAIT + 1 else None
