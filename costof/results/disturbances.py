"""Rounds that others on the machine disturbed.

To leave out a round because its figures look odd would cut off the very costs that come and go. What another program or
the hypervisor took of the machine's CPU says nothing of an arm, so a round in which that was far above its usual is
left out whole, for all arms alike (Kalibera & Jones 2013 ask for causes, too). The rest can be taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from costof.results.ledger import SliceRecord
from costof.statistics.outliers import far_above

#: By this much of the machine's time above the usual, at least, a round is disturbed.
LEAST_SHARE = 0.10
#: The clocks of a machine that stood still, or was moved to another one, are apart by more than this.
CLOCK_JUMP_SECONDS = 0.1
#: Of fewer rounds nobody can say what is usual.
FEWEST_ROUNDS = 8
#: Where more of the rounds are disturbed, that is how the machine is, and all of them stay.
MOST_DISCARDED = 0.25


@dataclass(frozen=True)
class Disturbances:
    """`discarded`: rounds that are in no figure. `shares`: of the machine's CPU time, that others had in each round."""

    discarded: frozenset[int]
    shares: Mapping[int, float]

    @property
    def usual(self) -> float:
        return median(self.shares.values()) if self.shares else 0.0


NO_DISTURBANCES = Disturbances(frozenset(), {})


def disturbances(slices: Iterable[SliceRecord], cores: int) -> Disturbances:
    """Return the rounds that others disturbed, and the share that others had of each."""
    others: dict[int, float] = {}
    observed: dict[int, float] = {}
    stood_still = set()
    for piece in slices:
        if piece.warm_up:
            continue
        others[piece.round] = others.get(piece.round, 0.0) + piece.foreign_cpu_seconds + piece.steal_seconds
        observed[piece.round] = observed.get(piece.round, 0.0) + piece.observed_seconds
        if abs(piece.clock_jump_seconds) > CLOCK_JUMP_SECONDS:
            stood_still.add(piece.round)
    shares = {number: others[number] / (observed[number] * cores) for number in others if observed[number]}
    above = far_above([*shares.values()], LEAST_SHARE) if shares else ()
    found = {number for number, is_far in zip(shares, above, strict=True) if is_far} | stood_still
    all_stay = len(shares) < FEWEST_ROUNDS or len(found) > MOST_DISCARDED * len(shares)
    return Disturbances(frozenset() if all_stay else frozenset(found), shares)
