"""Rounds that other programs on the machine disturbed.

A round is discarded if other programs and the hypervisor used far more CPU time than in the median round. It is then
discarded for all arms. This favours no arm, because the disturbance does not depend on the arm (Kalibera and Jones
2013). Rounds are never discarded because their figures look odd, since that would hide intermittent costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from costof.results.ledger import SliceRecord
from costof.statistics.outliers import far_above

#: A machine counts as busy if other programs and the hypervisor use more than this share of its CPU time in the median
#: round. The share is not 0, because the kernel and the lab's helper processes also use CPU time.
NOTABLE_SHARE_OF_OTHERS = 0.10
#: A machine counts as busy if the hypervisor uses more than this share of its CPU time during the run.
NOTABLE_STEAL = 0.02
#: A round is disturbed only if other programs and the hypervisor used at least this much more of the machine's CPU time
#: than in the median round; 0.10 is 10 percentage points.
LEAST_SHARE = 0.10
#: If the clock jumped by more than this, the machine was suspended or moved to another host.
CLOCK_JUMP_SECONDS = 0.1
#: With fewer rounds, no round counts as disturbed, because the median is too uncertain.
FEWEST_ROUNDS = 8
#: If more than this share of the rounds is disturbed, disturbances are normal on the machine, and all rounds are kept.
MOST_DISCARDED = 0.25


@dataclass(frozen=True)
class Disturbances:
    """The discarded rounds, and for each round the share of CPU time that other programs and the hypervisor used."""

    discarded: frozenset[int]
    shares: Mapping[int, float]

    @property
    def typical_share(self) -> float:
        return median(self.shares.values()) if self.shares else 0.0


NO_DISTURBANCES = Disturbances(frozenset(), {})


class RoundShares:
    """The CPU time that other programs and the hypervisor used in each round, added up slice by slice."""

    def __init__(self) -> None:
        self._foreign_seconds: dict[int, float] = {}
        self._observed_seconds: dict[int, float] = {}
        self._stood_still: set[int] = set()

    def add(self, record: SliceRecord) -> None:
        """Add a slice. Slices of a warm-up do not count."""
        if record.warm_up:
            return
        number, foreign = record.round, record.foreign_cpu_seconds + record.steal_seconds
        self._foreign_seconds[number] = self._foreign_seconds.get(number, 0.0) + foreign
        self._observed_seconds[number] = self._observed_seconds.get(number, 0.0) + record.observed_seconds
        if abs(record.clock_jump_seconds) > CLOCK_JUMP_SECONDS:
            self._stood_still.add(number)

    def judge(self, cores: int) -> Disturbances:
        shares = {
            number: foreign / (self._observed_seconds[number] * cores)
            for number, foreign in self._foreign_seconds.items()
            if self._observed_seconds[number]
        }
        above = far_above([*shares.values()], LEAST_SHARE) if shares else ()
        disturbed = {number for number, is_far in zip(shares, above, strict=True) if is_far} | self._stood_still
        all_stay = len(shares) < FEWEST_ROUNDS or len(disturbed) > MOST_DISCARDED * len(shares)
        return Disturbances(frozenset() if all_stay else frozenset(disturbed), shares)


def disturbances(slices: Iterable[SliceRecord], cores: int) -> Disturbances:
    """Return the rounds to discard, and the CPU share of other programs and the hypervisor in each round."""
    rounds = RoundShares()
    for record in slices:
        rounds.add(record)
    return rounds.judge(cores)
