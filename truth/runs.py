"""The plans of trials, and runs of these plans with a known true cost."""

from __future__ import annotations

from pathlib import Path

from costof.errors import CostofError, ErrorText
from costof.programs.origin import OriginServer
from costof.programs.relay import RelayCost
from costof.programs.server import LabServer
from costof.results.ledger import INTERRUPTED, EndRecord, Ledger
from costof.run.experiment import run
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from truth.design import Trial
from truth.early_ends import QUERY
from truth.lab import TruthLab
from truth.servers import Mariadb, Mongod

STUDY = str(Path(__file__).with_name("truth.toml"))
SERVERS: dict[str, type[LabServer]] = {"mariadb": Mariadb, "mongod": Mongod, "http": OriginServer}


class NoProgress:
    def stage(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def round(self, done: int, elapsed_seconds: float, reached: float | None) -> None: ...


def plan_trial(trial: Trial, budget_seconds: int | None = None, rounds: int | None = None) -> Plan:
    """Return the plan of a trial, with a time budget or with a fixed number of rounds."""
    study = load_study(STUDY)
    budget = f"{budget_seconds}s" if budget_seconds else None
    profile = "counted" if trial.cost.carry_over else "default"
    exact_rounds = str(rounds) if rounds else None
    plan = resolve(study, Options(profile=profile, seed=trial.seed, budget=budget, rounds=exact_rounds))
    if trial.service != "http":
        return plan
    return plan.model_copy(update={"study": _with_requests(study), "records": 0})


def _with_requests(study: Study) -> Study:
    """Return the study with requests instead of queries, since an HTTP server has no records to query."""
    workload = study.workloads["query"].model_copy(update={"kind": "request"})
    metric = study.metrics[QUERY].model_copy(update={"phase": "request"})
    changed = {"workloads": study.workloads | {"query": workload}, "metrics": study.metrics | {QUERY: metric}}
    return study.model_copy(update=changed)


def measure(plan: Plan, service: str, cost: RelayCost, folder: Path) -> Ledger:
    """Run a plan in its own lab and return the ledger.

    Raises what `run` raises, `NOTHING_MEASURED` if the run is partial, and `KeyboardInterrupt` if Ctrl-C ended it.
    """
    ledger = Ledger.create(plan, folder)
    run(plan, TruthLab(plan, SERVERS[service], cost), ledger, NoProgress())
    _check_end(ledger)
    return ledger


def _check_end(ledger: Ledger) -> None:
    """Raise `NOTHING_MEASURED` for a partial run, and `KeyboardInterrupt` if Ctrl-C has ended it."""
    partial = next(record.partial for record in ledger.records() if isinstance(record, EndRecord))
    if partial == INTERRUPTED:
        raise KeyboardInterrupt
    if partial:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail=partial)
