"""The rates at which a sweep measures: a search for each arm's capacity, then rates near this capacity.

A sweep is a run that finds the capacity of each arm (a compared configuration): the highest rate of requests at which
the arm keeps a limit on latency. The warm-up halves the range of rates until the capacity is known roughly. Each round
then measures each arm at three rates around its estimated capacity, and improves the estimate (stochastic
approximation: Robbins & Monro 1951). The measurements of all arms alternate, so that drift of the machine affects all
arms alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from costof.messages.plan import SliceRate
from costof.results.capacity import estimate, keeps_limit
from costof.results.metrics import Samples, SliceKey
from costof.statistics.capacity import Observation
from costof.study.plan import Plan
from costof.study.sweep import SLICES_IN_ROUND, Sweep

#: How far apart two neighbouring rates of a round are, as the logarithm of their ratio: 0.07 is about 7 %. The second
#: number is for commands that report only a percentile. It is larger, because a percentile reacts less to a change of
#: the rate than the share of operations above the latency limit does.
SPREAD, SPREAD_OF_PERCENTILES = 0.07, 0.12
#: The maximum change of an estimated capacity in one round, as the logarithm of the ratio: 0.15 is about 16 %.
MOST_CHANGE = 0.15
#: The change of an estimated capacity if all rates of a round were below the capacity, or all above it. As in
#: `MOST_CHANGE`, it is the logarithm of the ratio.
STEP = 0.12


@dataclass
class Rates:
    """The estimated capacities of the arms in a sweep, a search for capacities. They determine the rates of slices."""

    plan: Plan
    sweep: Sweep
    samples: Samples
    _ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    _estimates: dict[str, float] = field(default_factory=dict)
    _latest: dict[str, list[Observation]] = field(default_factory=dict)

    def round(self, number: int, keys: Sequence[SliceKey], seconds: float) -> Iterator[tuple[SliceKey, SliceRate]]:
        """Yield the slices (measured windows) of a round with their rates.

        Call `add` with a slice's result before taking the next slice.
        """
        give_up_ms = self.sweep.give_up_ms(seconds)
        pairs = self._search(keys) if number < 0 else self._near_capacity(number, keys)
        for key, per_second in pairs:
            yield key, SliceRate(per_second, give_up_ms)

    def add(self, key: SliceKey, observed: Observation) -> None:
        """Use the result of a slice (measured window) to choose the rates of later slices.

        A slice of the warm-up narrows its arm's range of rates. An arm's last slice of a round improves the estimate.
        """
        role = key.owner
        if observed.round < 0:
            least, most = self._ranges.get(role, (self.sweep.least, self.sweep.most))
            kept = keeps_limit(self.sweep, observed)
            self._ranges[role] = (observed.per_second, most) if kept else (least, observed.per_second)
            return
        self._latest.setdefault(role, []).append(observed)
        if len(self._latest[role]) == SLICES_IN_ROUND:
            self._improve(role, self._latest.pop(role))

    @property
    def least(self) -> float:
        return min((self._estimate(arm.name) for arm in self.plan.arms), default=self.sweep.least)

    def _search(self, keys: Sequence[SliceKey]) -> Iterator[tuple[SliceKey, float]]:
        """Yield slices (measured windows) with rates that narrow down each arm's capacity, as a bisection.

        The rate of a slice is the geometric mean of the ends of the range that may still contain the arm's capacity.
        `add` halves the range after each slice. A slice without a result, for example because the arm's server was
        lost, leaves the range unchanged. The identical copy of the control is not searched, because its estimate begins
        with the control's capacity.
        """
        searched = [key for key in keys if not self.plan.arm(key.owner).replicate]
        self._ranges = {key.owner: (self.sweep.least, self.sweep.most) for key in searched}
        for _ in range(self.sweep.halvings):
            for key in searched:
                yield key, math.sqrt(math.prod(self._ranges[key.owner]))

    def _near_capacity(self, number: int, keys: Sequence[SliceKey]) -> Iterator[tuple[SliceKey, float]]:
        # If a host was lost, its round is measured again. Remove the results of the first attempt.
        self._latest.clear()
        for observations in self.samples.observations.values():
            observations[:] = [each for each in observations if each.round != number]
        steps = [step - SLICES_IN_ROUND // 2 for step in range(SLICES_IN_ROUND)]
        random.Random(f"{self.plan.seed}/rates/{number}").shuffle(steps)
        estimates = {key.owner: self._estimate(key.owner) for key in keys}
        spread = SPREAD if self.sweep.limit.figure is None else SPREAD_OF_PERCENTILES
        for position, step in enumerate(steps):
            for key in keys if position % 2 == 0 else reversed(keys):
                yield key, self._within_range(estimates[key.owner] * math.exp(step * spread))

    def _estimate(self, role: str) -> float:
        if role not in self._estimates:
            arm = self.plan.arm(role)
            if arm.replicate and arm.control_arm is not None:
                return self._estimate(arm.control_arm)
            self._estimates[role] = math.sqrt(math.prod(self._ranges.get(role, (self.sweep.least, self.sweep.most))))
        return self._estimates[role]

    def _improve(self, role: str, latest: Sequence[Observation]) -> None:
        before = self._estimate(role)
        found = estimate(self.sweep, self.samples.observations.get(role, []), before)
        if found is None:
            beyond, operations = sum(each.beyond for each in latest), sum(each.operations for each in latest)
            change = STEP if beyond <= self.sweep.limit.share_beyond * operations else -STEP
        else:
            change = min(max(math.log(found / before), -MOST_CHANGE), MOST_CHANGE)
        self._estimates[role] = self._within_range(before * math.exp(change))

    def _within_range(self, per_second: float) -> float:
        return min(max(per_second, self.sweep.least), self.sweep.most)
