"""Rows of results about a run with a known true cost, computed from the run's ledger (its raw records)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from costof.errors import CostofError, ErrorText
from costof.report import analyse
from costof.report.result import Result
from costof.report.sections.tails import worse_than_the_mean
from costof.results.index import Index
from costof.results.ledger import Ledger, SliceRecord
from costof.results.models import Effect
from costof.results.run import Run, read_run
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from truth.early_ends import ADDED, QUERY, replay
from truth.rows import EffectRow, Row

NS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Judged:
    """A run as the current code analyses it. `ledger` has the run's raw records."""

    ledger: Ledger

    @cached_property
    def run(self) -> Run:
        return read_run(self.ledger)

    @property
    def plan(self) -> Plan:
        return self.run.plan

    @cached_property
    def result(self) -> Result:
        return analyse(self.ledger)

    @property
    def seconds(self) -> float:
        """Return the seconds from the start of the run's first slice to the end of its last one."""
        measured = [each for each in self.ledger.records() if isinstance(each, SliceRecord) and not each.warm_up]
        last = measured[-1].answer
        return (last.started_unix_ns + last.elapsed_ns - measured[0].answer.started_unix_ns) / NS_PER_SECOND

    def effect(self, metric: str, arm: str) -> Effect:
        """Return an effect of the run. Raises `NOTHING_MEASURED` if there is none."""
        for each in self.result.effects:
            if (each.metric, each.arm) == (metric, arm):
                return each
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=f"no effect of '{arm}' on '{metric}'")


def rows_of(done: Judged, about: Row, long_run_ms: float) -> list[EffectRow]:
    """Return a row for the protected arm of a run, and a row for the control's identical copy."""
    (arm,) = done.plan.protected
    return [_row(done, about, arm, long_run_ms), _replicate_row(done, about)]


def _row(done: Judged, about: Row, paying: PlannedArm, long_run_ms: float) -> EffectRow:
    arm = paying.name
    effect = done.effect(QUERY, arm)
    intermittent, tails = done.result.sections.intermittent, done.result.sections.tails
    assert effect.ratio is not None, "every query takes its time"
    endless_ms = None if about.payers == "all" else long_run_ms
    return EffectRow(
        **_common(done, about, effect.rounds),
        arm=arm,
        added=done.effect(ADDED, arm).difference.value,
        truth_ratio=_truth_ratio(done, paying, endless_ms),
        long_run=long_run_ms,
        control=effect.control_value,
        estimate=effect.difference.value,
        low=effect.difference.low,
        high=effect.difference.high,
        ratio_low=effect.ratio.low,
        ratio_high=effect.ratio.high,
        verdict=effect.verdict.value,
        intermittent=bool(intermittent) and arm in intermittent.arms,
        order_told=any(each.metric == QUERY for each in done.result.carry_over),
        tail_told=any(each.arm == arm for each in worse_than_the_mean(Index(done.result), tails)) if tails else None,
        replay=replay(done.run, paying, endless_ms),
    )


def _truth_ratio(done: Judged, arm: PlannedArm, endless_ms: float | None) -> float:
    """Return the factor by which the true cost lengthens an arm's queries, as a geometric mean over its rounds.

    The true cost is `endless_ms` or, if None, what the relay added in the round. The relay delays a request a little
    longer than it should. It does so with the control's requests too, so it added what the arm's requests were delayed
    longer than the control's. The time without the cost is the mean of both arms' times, because the noise of only one
    arm's time would move the truth away from the estimate.
    """
    samples = done.run.samples
    control = arm.control_arm or ""
    times, added = ([samples.by_round(metric, name) for name in (control, arm.name)] for metric in (QUERY, ADDED))
    logs = []
    for number in times[0].keys() & times[1].keys() & added[0].keys() & added[1].keys():
        cost = added[1][number] - added[0][number]
        without = (times[0][number] + times[1][number] - cost) / 2
        logs.append(math.log1p((cost if endless_ms is None else endless_ms) / without))
    return math.exp(fmean(logs))


def _replicate_row(done: Judged, about: Row) -> EffectRow:
    effect = next(each for each in done.result.noise_floor if each.metric == QUERY)
    control = done.effect(QUERY, done.plan.protected[0].name).control_value
    return EffectRow(
        **_common(done, about, effect.difference.rounds),
        arm="replicate",
        added=0.0,
        truth_ratio=1.0,
        long_run=0.0,
        control=control,
        estimate=effect.difference.value,
        low=effect.difference.low,
        high=effect.difference.high,
        ratio_low=effect.ratio.low,
        ratio_high=effect.ratio.high,
    )


def _common(done: Judged, about: Row, rounds: int) -> dict[str, object]:
    return {**dict(about), "rounds": rounds, "discarded": done.result.rounds - rounds, "seconds": done.seconds}
