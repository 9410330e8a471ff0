"""From a ledger to a `Result`: everything that is known of a run, and nothing that is not in its ledger."""

from __future__ import annotations

from costof.analysis.arms import arm_result, cpu_of
from costof.analysis.cautions import errors_of, warnings_of
from costof.analysis.cost_model import cost_model
from costof.analysis.cures import candidates, cures_of
from costof.analysis.figures import ab_of, break_evens, compared, effects_of, metric_result, noise_floors, values_of
from costof.analysis.result import Result
from costof.analysis.run_record import Run, read_run
from costof.analysis.sizing import sizing_of
from costof.analysis.split import split_of
from costof.analysis.trees import trees_of
from costof.errors import CostofError, Problem
from costof.ledger.ledger import Ledger
from costof.report import advice, along
from costof.report import answer as words
from costof.report.tables import study_tables
from costof.statistics.effects import Comparisons

__all__ = ["analyse", "read_run"]


def analyse(ledger: Ledger) -> Result:
    """The result of a run. Raises `NOT_A_RUN`, or `NOTHING_MEASURED` when no slice ever ended."""
    run = read_run(ledger)
    if run.environment is None:
        raise CostofError(Problem.NOTHING_MEASURED, detail="the service never started")
    plan, study = run.plan, run.plan.study
    floors = noise_floors(run)
    comparisons = comparisons_of(run)
    effects = effects_of(run, floors, comparisons)
    result = Result(
        study=study.name,
        question=study.question,
        profile=plan.profile,
        run=ledger.folder.name,
        started=run.environment.started,
        measured_seconds=run.measured_seconds,
        rounds=run.rounds,
        partial=run.partial,
        seed=plan.seed,
        precision_asked=plan.precision,
        rounds_asked=plan.most_rounds if plan.precision is None else None,
        answer=[],
        arms=[arm_result(run, arm) for arm in plan.arms],
        metrics=[metric_result(name, metric, run) for name, metric in study.metrics.items()],
        values=values_of(run),
        effects=effects,
        tables=[],
        break_even=break_evens(run),
        cost_model=cost_model(run),
        links=run.links,
        cures=cures_of(run, effects, floors, comparisons),
        sizing=sizing_of(run),
        trees=trees_of(run),
        split=split_of(run),
        ab=ab_of(run),
        published=plan.published,
        noise_floor=floors,
        cpu=[entry for workload in study.workloads for arm in plan.arms if (entry := cpu_of(run, workload, arm))],
        errors=errors_of(run),
        warnings=warnings_of(run, len(compared(run))),
        environment=_environment(run),
    )
    tables = [*study_tables(result), *advice.tables(result, study), *along.tables(result, study)]
    told = result.model_copy(update={"tables": tables})
    return told.model_copy(update={"answer": words.answer(told, study)})


def comparisons_of(run: Run) -> Comparisons:
    """Every effect and every cure of the run is judged, but the twins'."""
    study = run.plan.study
    judged = [name for name, _ in compared(run)]
    judged += [study.cures.metric for _ in candidates(run)] if study.cures else []
    headline = sum(study.metrics[name].headline for name in judged)
    return Comparisons.of(headline, len(judged) - headline)


def _environment(run: Run) -> dict[str, object]:
    assert run.environment is not None
    facts: dict[str, object] = dict(run.environment.facts)
    for record in run.ready:
        facts[f"{record.view} view"] = record.ready.instrument
        facts.update(record.ready.versions)
        for name, nanoseconds in record.ready.self_cost_ns.items():
            facts[f"engine's own cost: {name}, ns"] = round(nanoseconds, 1)
    warehouses = run.plan.study.warehouses
    facts |= {"warehouses": warehouses} if warehouses else {"records": run.plan.records}
    facts["target"] = run.plan.target or "the run's own lab"
    if run.slices:
        facts["peak memory of the engine, MiB"] = round(
            max((p.answer.peak_memory_bytes for p in run.slices if p.view == "wire"), default=0) / 2**20, 1
        )
    if run.end is not None:
        facts["steal"] = f"{run.end.steal_share:.2%}"
    return facts
