"""The most important (headline) figures of a run in progress.

They are computed from records in memory in the same way as in the final report.
"""

from __future__ import annotations

from pydantic import Field

from costof.format import percent
from costof.model import Model
from costof.results.changes import ContrastedChange, contrast_changes, every_change
from costof.results.disturbances import RoundShares
from costof.results.ledger import AnyRecord, EnvironmentRecord, LostRecord, SliceRecord
from costof.results.metrics import Samples, add_samples
from costof.results.run import Run
from costof.statistics.units import Units
from costof.study.plan import Plan


class Discarded(Model):
    """A slice (measured window) or a round that was discarded: no figure uses it."""

    round: int = Field(description="Number of the round; the first one is 1.")
    arm: str | None = Field(description="None if the whole round was discarded.")
    cause: str


class Tally:
    """The figures of a run in progress.

    While a round is measured, the records of its slices are only stored, so that no computation disturbs the
    measurements. At the end of the round, their numbers are added to the samples, and the records are dropped.
    """

    def __init__(self, plan: Plan, earlier: Run | None = None) -> None:
        """`earlier` is what a resumed run measured before; None for a new run."""
        self._plan = plan
        self._starts: dict[int, int] = {}
        self._samples = Samples(Units(self._starts))
        self._shares = RoundShares()
        self._mismatches: list[Discarded] = []
        self._pending: list[SliceRecord] = []
        self._start = 0
        self._cores = 1
        self._headline = [name for name, metric in plan.study.metrics.items() if metric.headline]
        if earlier is not None:
            self._cores = earlier.cores
            for record in earlier.slices:
                self._start = earlier.samples.units.starts.get(record.round, 0)
                self._count(record)

    def add(self, record: AnyRecord) -> None:
        match record:
            case SliceRecord(warm_up=False):
                self._pending.append(record)
            case EnvironmentRecord():
                self._start, self._cores = record.start, int(record.facts.get("cores", 1))
            case LostRecord(host=str()):
                # Drop the slices of this round, because it will be measured again.
                self._pending.clear()

    def finish_round(self) -> None:
        for record in self._pending:
            self._count(record)
        self._pending.clear()

    def effects(self) -> list[ContrastedChange]:
        """Return the headline effects without disturbed rounds."""
        disturbed = self._shares.judge(self._cores).discarded
        samples = self._samples.without(disturbed) if disturbed else self._samples
        return contrast_changes(self._plan, every_change(self._plan, samples, self._headline))

    def discarded(self) -> list[Discarded]:
        found = self._shares.judge(self._cores)
        rounds = []
        for number in found.discarded:
            if found.shares.get(number, 0.0) > found.typical_share:
                share, usual = percent(found.shares[number]), percent(found.typical_share)
                cause = f"other programs used {share} of the machine's CPU, and {usual} in a typical round"
            else:
                cause = "the machine stood still for a moment"
            rounds.append(Discarded(round=number + 1, arm=None, cause=cause))
        return sorted([*self._mismatches, *rounds], key=lambda each: each.round)

    def _count(self, record: SliceRecord) -> None:
        if record.warm_up:
            return
        if self._plan.starts > 1:
            self._starts[record.round] = self._start
        self._shares.add(record)
        if record.mismatch is not None:
            self._mismatches.append(Discarded(round=record.round + 1, arm=record.answer.arm, cause=record.mismatch))
            return
        add_samples(self._plan, self._samples, record)
