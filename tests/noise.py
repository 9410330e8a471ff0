"""Random noise of the slices (measured windows) of a simulated run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costof.study.arms import PlannedArm


@dataclass(frozen=True)
class Noise:
    """The noise of a run. The times of a slice are multiplied by random factors.

    Three fields are standard deviations of the logarithms of such factors:

    - `slice`: a factor that is drawn for each slice;
    - `drift`: a factor that all arms share and that changes from round to round, as a random walk;
    - `luck`: a factor that an arm keeps until the servers are restarted.

    `correlation` is the correlation between the `slice` factors of an arm's successive slices. In addition, a share
    `stalls` of the slices (such as 0.1) is slower by the factor `stalled`.
    """

    slice: float = 0.01
    drift: float = 0.0
    luck: float = 0.0
    correlation: float = 0.0
    stalls: float = 0.0
    stalled: float = 2.0


@dataclass(frozen=True)
class Chance:
    """The random numbers of one slice. The slice's times are multiplied by `times`. `source` gives further numbers."""

    times: float
    source: np.random.Generator

    def more(self, deviation: float) -> float:
        """Return another random factor around 1; `deviation` is the standard deviation of its logarithm."""
        return float(np.exp(self.source.normal(0, deviation)))


class Chances:
    def __init__(self, noise: Noise, source: np.random.Generator, arms: list[PlannedArm]) -> None:
        self._noise, self._source = noise, source
        self._drift = 0.0
        self._luck = {arm.name: source.normal(0, noise.luck) for arm in arms}
        self._last: dict[tuple[str, str], float] = {}

    def next_round(self) -> None:
        self._drift += self._source.normal(0, self._noise.drift)

    def of(self, workload: str, arm: PlannedArm, times: float) -> Chance:
        noise = self._noise
        own = self._source.normal(0, noise.slice * np.sqrt(1 - noise.correlation**2))
        own += noise.correlation * self._last.get((workload, arm.name), 0.0)
        self._last[workload, arm.name] = own
        stalled = noise.stalled if self._source.random() < noise.stalls else 1.0
        factor = float(np.exp(own + self._drift + self._luck[arm.name]))
        return Chance(factor * stalled * times, self._source)
