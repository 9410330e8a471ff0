"""Replays of runs, as if somebody had ended them early because of what their figures showed.

A run is replayed round by round, with the analysis and the rules of `costof` itself, until such an end or its own.
Rounds that the whole run discarded as disturbed are left out, although an early end might not have known them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.model import Finite, Model
from costof.results.changes import every_change
from costof.results.metrics import Samples
from costof.results.run import Run
from costof.run.schedule import enough, precision
from costof.statistics.any_end import widening
from costof.statistics.intervals import FEWEST_ROUNDS, ROUNDS_FOR_INTERVAL
from costof.study.arms import PlannedArm

QUERY, ADDED = "wire.query", "server.added"
#: The precision with which runs are replayed as if `--precision` ended them: the half-width of their widest interval.
PRECISION = 0.05


class EarlyEnd(Model):
    """The effect after an early end, in ms.

    `half_width` is that of the interval of a planned end. Multiplied by `wider`, it is that of the interval which an
    interrupted run reports (`statistics/any_end.py`). `truth` is the true cost of the run until then
    (`EffectRow.truth`).
    """

    rounds: int
    truth: Finite
    estimate: Finite
    half_width: Finite
    wider: Finite

    def holds(self, widened: bool) -> bool:
        return abs(self.estimate - self.truth) <= self.reported_half_width(widened)

    def excludes_zero(self, widened: bool) -> bool:
        """Return whether a cost of 0 lies outside the interval."""
        return abs(self.estimate) > self.reported_half_width(widened)

    def reported_half_width(self, widened: bool) -> float:
        return self.half_width * (self.wider if widened else 1.0)


class Replay(Model):
    """Other ends of a run: the effects there, and whether the intervals that Ctrl-C reports hold at every end."""

    when_convincing: EarlyEnd | None = Field(
        default=None,
        description="The effect at the first round after which a planned end's interval excludes 0, otherwise at the "
        "run's end. Somebody who watches the run and presses Ctrl-C as soon as it shows an effect would end it there.",
    )
    when_precise: EarlyEnd | None = Field(
        default=None,
        description="The effect at the round at which `--precision` would end the run, otherwise at the run's end.",
    )
    always_holds: bool | None = Field(
        default=None, description="Whether the interval that Ctrl-C reports contains the truth after every round."
    )


def replay(run: Run, arm: PlannedArm, endless_ms: float | None) -> Replay:
    """Return other ends of a run: what it would have reported about an arm after each of its rounds.

    The true cost is `endless_ms` or, if None, the mean delay that the relay added in the rounds until then.

    Raises `NOTHING_MEASURED` if the run has too few rounds with this arm and its control for an interval.
    """
    plan, reached = run.plan.model_copy(update={"precision": PRECISION}), []
    end, convincing, precise, holds = None, None, None, True
    for end, samples in _ends(run, arm, endless_ms):
        if precise is None:
            reached.append(precision(plan, samples))
            if enough(plan, end.rounds, elapsed_seconds=0.0, reached=reached, longest_round=0.0):
                precise = end
        if end.rounds >= FEWEST_ROUNDS:
            holds = holds and end.holds(widened=True)
            if convincing is None and end.excludes_zero(widened=False):
                convincing = end
    if end is None:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=f"too few rounds have '{arm.name}' and its control")
    return Replay(when_convincing=convincing or end, when_precise=precise or end, always_holds=holds)


def _ends(run: Run, arm: PlannedArm, endless_ms: float | None) -> Iterator[tuple[EarlyEnd, Samples]]:
    """Yield the run as if it had ended after the first rounds that give an interval, after one more, and so on."""
    numbers = sorted(run.samples.paired_rounds(QUERY, arm.control_arm or "", arm.name)[0])
    for count in range(ROUNDS_FOR_INTERVAL, len(numbers) + 1):
        samples = run.samples.without(numbers[count:])
        changes = every_change(run.plan, samples, [QUERY])[QUERY]
        mean = next(each.difference for each in changes if each.arm == arm)
        control, added = samples.pairs(ADDED, arm.control_arm or "", arm.name)
        end = EarlyEnd(
            rounds=count,
            truth=fmean(added) - fmean(control) if endless_ms is None else endless_ms,
            estimate=mean.value,
            half_width=mean.half(),
            wider=widening(count, mean.freedom),
        )
        yield end, samples
