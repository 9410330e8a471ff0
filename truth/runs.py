"""Runs of `costof` whose truth is known: from a trial to its ledger, through plan, lab and engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.programs.server import LabServer
from costof.results.ledger import EndRecord, Ledger
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from truth.design import Trial
from truth.judged import QUERY
from truth.lab import TruthLab
from truth.relay import FREE, RelayCost
from truth.servers import Mariadb, Mongod, Origin

STUDY = str(Path(__file__).with_name("truth.toml"))
#: What a run says that a Ctrl-C has ended.
INTERRUPTED = "interrupted"
SERVERS: dict[str, type[LabServer]] = {"mariadb": Mariadb, "mongod": Mongod, "http": Origin}


class Unwatched:
    """Of a run that nobody watches."""

    def stage(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


def planned(trial: Trial, budget_seconds: int | None = None, rounds: int | None = None) -> Plan:
    """Return a plan that measures for so long, or exactly so many rounds."""
    study = load_study(STUDY)
    budget = f"{budget_seconds}s" if budget_seconds else None
    exactly = str(rounds) if rounds else None
    plan = resolve(study, replace(_options(trial, study), budget=budget, rounds=exactly))
    if trial.service != "http":
        return plan
    return plan.model_copy(update={"study": _of_requests(study), "records": 0})


def planned_as_earlier(trial: Trial) -> Plan:
    """It measures as `EARLIER` did: slices are not shortened, and the run does not end once its verdicts stand."""
    study = load_study(STUDY)
    plan = resolve(study, replace(_options(trial, study), profile="earlier"))
    return plan.model_copy(update={"precision": None, "ends_when_resolved": False})


def _options(trial: Trial, study: Study) -> Options:
    levels = ",".join(list(study.factors["cost"].levels)[: trial.arms + 1])
    return Options(settings=[f"cost={levels}"], seed=trial.seed)


def _of_requests(study: Study) -> Study:
    """Ask for requests instead of queries: the one server has no records."""
    workload = study.workloads["query"].model_copy(update={"kind": "request"})
    metric = study.metrics[QUERY].model_copy(update={"phase": "request"})
    changed = {"workloads": study.workloads | {"query": workload}, "metrics": study.metrics | {QUERY: metric}}
    return study.model_copy(update=changed)


def measured(plan: Plan, service: str, cost: RelayCost, folder: Path, common: RelayCost = FREE) -> Ledger:
    """Carry a plan out in a lab of its own. Raises what a run raises, and for one in part `NOTHING_MEASURED`."""
    ledger = Ledger.create(plan, folder)
    run(plan, TruthLab(plan, SERVERS[service], cost, common), ledger, Unwatched())
    _check_end(ledger)
    return ledger


def _check_end(ledger: Ledger) -> None:
    """Raises for a run in part; a Ctrl-C, which ends a run as any other reason does, goes on to whoever started it."""
    partial = next(record.partial for record in ledger.records() if isinstance(record, EndRecord))
    if partial == INTERRUPTED:
        raise KeyboardInterrupt
    if partial:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=partial)
