"""Rows of results about a run with a known true cost, computed from the run's ledger (its raw records)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from costof.errors import CostofError, ErrorText
from costof.programs.relay import NS_PER_MS
from costof.report import analyse
from costof.report.result import Result
from costof.report.sections.tails import worse_than_the_mean
from costof.results.index import Index
from costof.results.ledger import Ledger, SliceRecord
from costof.results.models import Effect
from costof.study.plan import Plan
from truth.rows import EffectRow, Row

QUERY, ADDED = "wire.query", "server.added"
NS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Judged:
    """A run as the current code analyses it. `ledger` has the run's raw records."""

    ledger: Ledger

    @cached_property
    def plan(self) -> Plan:
        return self.ledger.plan()

    @cached_property
    def result(self) -> Result:
        return analyse(self.ledger)

    @cached_property
    def seconds(self) -> list[float]:
        """Return, for each round, the seconds from the start of the run's first slice to the end of the round."""
        measured = [each for each in self.ledger.records() if isinstance(each, SliceRecord) and not each.warm_up]
        began = measured[0].answer.started_unix_ns
        ends = {each.round: each.answer.started_unix_ns + each.answer.elapsed_ns for each in measured}
        return [(end - began) / NS_PER_SECOND for end in ends.values()]

    def effect(self, metric: str, arm: str) -> Effect:
        """Return an effect of the run. Raises `NOTHING_MEASURED` if there is none."""
        for each in self.result.effects:
            if (each.metric, each.arm) == (metric, arm):
                return each
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=f"no effect of '{arm}' on '{metric}'")


def rows_of(done: Judged, about: Row, long_run_ms: float) -> list[EffectRow]:
    """Return a row for each protected arm of a run, and a row for the control's identical copy."""
    paying = [_row(done, about, arm.name, long_run_ms) for arm in done.plan.protected]
    return [*paying, _replicate_row(done, about)]


def _row(done: Judged, about: Row, arm: str, long_run_ms: float) -> EffectRow:
    effect = done.effect(QUERY, arm)
    intermittent, tails = done.result.sections.intermittent, done.result.sections.tails
    assert effect.ratio is not None, "every query takes its time"
    return EffectRow(
        **_common(done, about, effect.rounds),
        arm=arm,
        truth=done.effect(ADDED, arm).difference.value,
        truth_ratio=_truth_ratio(done, arm),
        long_run=long_run_ms,
        control=effect.control_value,
        estimate=effect.difference.value,
        low=effect.difference.low,
        high=effect.difference.high,
        ratio_low=effect.ratio.low,
        ratio_high=effect.ratio.high,
        usual=effect.typical_difference.value,
        verdict=effect.verdict.value,
        intermittent=bool(intermittent) and arm in intermittent.arms,
        order_told=any(each.metric == QUERY for each in done.result.carry_over),
        tail_told=bool(tails) and any(each.arm == arm for each in worse_than_the_mean(Index(done.result), tails)),
    )


def _truth_ratio(done: Judged, arm: str) -> float:
    """Return the factor by which the added cost lengthens an arm's queries, as a geometric mean over its slices."""
    logs = []
    for record in slices_of(done.ledger, arm):
        measured = mean_ms(done.plan, record)
        logs.append(math.log(measured / (measured - record.server_figures["added"])))
    return math.exp(fmean(logs))


def slices_of(ledger: Ledger, arm: str) -> list[SliceRecord]:
    """Return an arm's slices of the workload `query`. Leave out the warm-up, and slices without operations."""
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord) and not record.warm_up]
    return [each for each in slices if (each.workload, each.key.owner) == ("query", arm) and each.answer.operations]


def mean_ms(plan: Plan, record: SliceRecord) -> float:
    phase = record.answer.phases[plan.study.metrics[QUERY].phase]
    return phase.sum_ns / phase.count / NS_PER_MS


def _replicate_row(done: Judged, about: Row) -> EffectRow:
    effect = next(each for each in done.result.noise_floor if each.metric == QUERY)
    control = done.effect(QUERY, done.plan.protected[0].name).control_value
    return EffectRow(
        **_common(done, about, effect.difference.rounds),
        arm="replicate",
        truth=0.0,
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
    return {**dict(about), "rounds": rounds, "discarded": done.result.rounds - rounds, "seconds": done.seconds[-1]}
