"""What a run would have reported if it had ended at a moment that nobody had planned.

Each run is replayed from its differences, one for each round: an end is chosen by looking at the figures so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from costof.model import Finite, Model
from costof.statistics.any_end import widening
from costof.statistics.intervals import FEWEST_ROUNDS, Mean, mean_over_rounds

#: An early end by precision comes when the interval's half-width is this share of the control's time.
PRECISION = 0.05


class EarlyEnd(Model):
    """The effect after an early end, in ms.

    `low` and `high` are the interval of a planned end. Multiplied by `wider`, it is the one that an interrupted run
    reports (`statistics/any_end.py`). `truth` is the mean delay that the relay added until then.
    """

    rounds: int
    truth: Finite
    estimate: Finite
    half_width: Finite
    wider: Finite

    def holds(self, widened: bool) -> bool:
        return abs(self.estimate - self.truth) <= self._half_width(widened)

    def excludes_nothing(self, widened: bool) -> bool:
        """Return whether the interval excludes a cost of 0."""
        return abs(self.estimate) > self._half_width(widened)

    def _half_width(self, widened: bool) -> float:
        return self.half_width * (self.wider if widened else 1.0)


def when_convincing(differences: Sequence[float], added: Sequence[float]) -> EarlyEnd:
    """Return the effect at the first round after which the interval excludes 0, otherwise at the run's end.

    Nobody can choose an end that makes ordinary intervals less valid. `differences` has the arm's time minus the
    control's for each round, and `added` the delay that the relay added.
    """
    return _first(differences, added, lambda mean: abs(mean.value) > mean.half())


def when_precise(differences: Sequence[float], added: Sequence[float], control: float) -> EarlyEnd:
    """Return the effect at the first round after which the interval is narrow, otherwise at the run's end."""
    return _first(differences, added, lambda mean: mean.half() <= PRECISION * control)


def _first(differences: Sequence[float], added: Sequence[float], is_end: Callable[[Mean], bool]) -> EarlyEnd:
    for rounds in range(min(FEWEST_ROUNDS, len(differences)), len(differences) + 1):
        mean = mean_over_rounds(differences[:rounds])
        if is_end(mean):
            break
    return EarlyEnd(
        rounds=rounds,
        truth=fmean(added[:rounds]),
        estimate=mean.value,
        half_width=mean.half(),
        wider=widening(rounds, mean.freedom),
    )
