"""Runs of `costof` whose truth is known: from a trial to its rows, through plan, engine, ledger and report."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from costof.analysis.models import Effect
from costof.errors import CostofError, Problem
from costof.ledger.ledger import EndRecord, Ledger, SliceRecord
from costof.programs.server import LabServer
from costof.report import analyse
from costof.report.result import Result
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from truth.design import Trial
from truth.lab import TruthLab
from truth.relay import NS_PER_MS, RelayCost
from truth.rows import EffectRow, Row
from truth.servers import Mariadb, Mongod, Origin

STUDY = str(Path(__file__).with_name("truth.toml"))
QUERY, ADDED = "wire.query", "server.added"
#: What a run says that a Ctrl-C has ended.
INTERRUPTED = "interrupted"
SERVERS: dict[str, type[LabServer]] = {"mariadb": Mariadb, "mongod": Mongod, "http": Origin}


@dataclass
class Clock:
    """Watches a run: seconds from its first round to the end of each."""

    seconds: list[float] = field(default_factory=list)

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None:
        self.seconds.append(elapsed_seconds)


@dataclass(frozen=True)
class Finished:
    """A run that is over; its ledger is there as long as the context is."""

    plan: Plan
    ledger: Ledger
    result: Result
    clock: Clock

    def effect(self, metric: str, arm: str) -> Effect:
        """Raises `NOTHING_MEASURED`."""
        for each in self.result.effects:
            if (each.metric, each.arm) == (metric, arm):
                return each
        raise CostofError(Problem.NOTHING_MEASURED, detail=f"there is no {metric} of {arm}")


def planned(trial: Trial, budget_seconds: int | None = None, rounds: int | None = None) -> Plan:
    """It measures for so long, or exactly so many rounds."""
    study = load_study(STUDY)
    levels = ",".join(list(study.factors["cost"].levels)[: trial.arms + 1])
    budget = f"{budget_seconds}s" if budget_seconds else None
    exactly = str(rounds) if rounds else None
    plan = resolve(study, Options(settings=[f"cost={levels}"], budget=budget, rounds=exactly, seed=trial.seed))
    if trial.service != "http":
        return plan
    return plan.model_copy(update={"study": _of_requests(study), "records": 0})


def _of_requests(study: Study) -> Study:
    """For the one server without records, of which requests are made and not queries."""
    workload = study.workloads["query"].model_copy(update={"kind": "request"})
    metric = study.metrics[QUERY].model_copy(update={"phase": "request"})
    changed = {"workloads": study.workloads | {"query": workload}, "metrics": study.metrics | {QUERY: metric}}
    return study.model_copy(update=changed)


@contextmanager
def finished(plan: Plan, service: str, cost: RelayCost) -> Iterator[Finished]:
    """Carry a plan out in a lab of its own. Raises what a run raises, and for one in part `NOTHING_MEASURED`."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.create(plan, Path(folder) / "run")
        run(plan, TruthLab(plan, SERVERS[service], cost), ledger, clock)
        _check_end(ledger)
        yield Finished(plan, ledger, analyse(ledger), clock)


def _check_end(ledger: Ledger) -> None:
    """Raises for a run in part; a Ctrl-C, which ends a run as any other reason does, goes on to whoever started it."""
    partial = next(record.partial for record in ledger.records() if isinstance(record, EndRecord))
    if partial == INTERRUPTED:
        raise KeyboardInterrupt
    if partial:
        raise CostofError(Problem.NOTHING_MEASURED, detail=partial)


def rows_of(done: Finished, about: Row, long_run_ms: float) -> list[EffectRow]:
    """One for each arm that pays, and one for the control's twin."""
    paying = [_row(done, about, arm.name, long_run_ms) for arm in done.plan.protected]
    return [*paying, _twin(done, about)]


def _row(done: Finished, about: Row, arm: str, long_run_ms: float) -> EffectRow:
    found = done.effect(QUERY, arm)
    told = done.result.sections.intermittent
    assert found.ratio is not None, "every query takes its time"
    return EffectRow(
        **_common(done, about, found.rounds),
        arm=arm,
        truth=done.effect(ADDED, arm).difference.value,
        truth_ratio=_truth_ratio(done, arm),
        long_run=long_run_ms,
        control=found.control_value,
        estimate=found.difference.value,
        low=found.difference.low,
        high=found.difference.high,
        ratio_low=found.ratio.low,
        ratio_high=found.ratio.high,
        usual=found.usual.value,
        verdict=found.verdict.value,
        intermittent=bool(told) and any(each.arm == arm for each in told.found),
    )


def _truth_ratio(done: Finished, arm: str) -> float:
    """Of an arm's rounds: what they took over what they would have taken without the added, as a geometric mean."""
    logs = []
    for record in slices_of(done.ledger, arm):
        taken = mean_ms(done.plan, record)
        logs.append(math.log(taken / (taken - record.server_figures["added"])))
    return math.exp(fmean(logs))


def slices_of(ledger: Ledger, arm: str) -> list[SliceRecord]:
    """Of queries, without the warm-up and those that a busy machine let nothing succeed in."""
    slices = [record for record in ledger.records() if isinstance(record, SliceRecord) and not record.warm_up]
    return [each for each in slices if (each.workload, each.answer.arm) == ("query", arm) and each.answer.operations]


def mean_ms(plan: Plan, record: SliceRecord) -> float:
    """Of a slice's queries."""
    phase = record.answer.phases[plan.study.metrics[QUERY].phase]
    return phase.sum_ns / phase.count / NS_PER_MS


def _twin(done: Finished, about: Row) -> EffectRow:
    found = next(each for each in done.result.noise_floor if each.metric == QUERY)
    control = done.effect(QUERY, done.plan.protected[0].name).control_value
    return EffectRow(
        **_common(done, about, found.difference.rounds),
        arm="twin",
        truth=0.0,
        truth_ratio=1.0,
        long_run=0.0,
        control=control,
        estimate=found.difference.value,
        low=found.difference.low,
        high=found.difference.high,
        ratio_low=found.ratio.low,
        ratio_high=found.ratio.high,
    )


def _common(done: Finished, about: Row, rounds: int) -> dict[str, object]:
    return {
        **dict(about),
        "rounds": rounds,
        "discarded": done.result.rounds - rounds,
        "seconds": done.clock.seconds[-1],
    }
