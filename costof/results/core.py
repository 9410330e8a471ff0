"""The core result: what a ledger shows of a run before any section of the report adds to it."""

from __future__ import annotations

from costof.errors import CostofError, Problem
from costof.results.arms import arm_result, cpu_of, same_set_ups
from costof.results.carry_over import carry_over_of
from costof.results.cautions import errors_of, warnings_of
from costof.results.failures import failing_of, missing_of, overloaded_of
from costof.results.figures import between_starts, effects_of, metric_result, noise_floors, values_of
from costof.results.load import drop_overloaded
from costof.results.models import Core
from costof.results.run import Run
from costof.results.together import starting_together


def core_of(run: Run, name: str) -> Core:
    """The core result of the run in the folder `name`. Raises `NOTHING_MEASURED` when no slice ever ended."""
    if run.environment is None:
        raise CostofError(Problem.NOTHING_MEASURED, detail="the service never started")
    plan, study = run.plan, run.plan.study
    drop_overloaded(run)
    floors = noise_floors(run)
    effects = effects_of(run)
    same = same_set_ups(run)
    return Core(
        study=study.name,
        question=study.question,
        profile=plan.profile,
        run=name,
        started=run.environment.started,
        measured_seconds=run.measured_seconds,
        rounds=run.rounds,
        starts=run.starts,
        partial=run.partial,
        seed=plan.seed,
        budget_seconds=plan.budget_seconds,
        resolved_early=run.resolved_early,
        precision_asked=plan.precision if plan.starts == 1 else None,
        rounds_asked=plan.most_rounds if plan.precision is None else None,
        slice_shares={name: size.seconds / plan.slices[name].seconds for name, size in (run.sizes or {}).items()},
        arms=[arm_result(run, arm, same[arm.name]) for arm in plan.arms],
        distances={control.context: study.round_trip_ms(control.levels) for control in plan.controls}
        if study.distance_factor
        else {},
        metrics=[metric_result(name, metric, run) for name, metric in study.metrics.items() if _is_told(run, name)],
        values=values_of(run),
        effects=effects,
        noise_floor=floors,
        between_starts=between_starts(run),
        carry_over=carry_over_of(run),
        # What others published is of other servers than a user's own.
        published=study.published if plan.target is None else None,
        links=run.links,
        cpu=[entry for workload in study.workloads for arm in plan.arms if (entry := cpu_of(run, workload, arm))],
        errors=errors_of(run),
        failures=failing_of(run),
        missing=[*missing_of(run), *overloaded_of(run)],
        warnings=warnings_of(run, len(effects)),
        starting_together=starting_together(run),
        environment=_environment(run),
    )


def _is_told(run: Run, name: str) -> bool:
    """A reader knows more figures than a run of its program has."""
    of_command = run.plan.study.metrics[name].of_command is not None
    return not of_command or any(run.samples.by_round(name, arm.name) for arm in run.plan.arms)


def _environment(run: Run) -> dict[str, object]:
    assert run.environment is not None
    facts: dict[str, object] = dict(run.environment.facts)
    for record in run.ready:
        named = dict.fromkeys(other.ready.instrument for other in run.ready if other.view == record.view)
        facts[f"{record.view} view"] = ", ".join(named)
        facts.update({"TLS library": run.tls_library()} if record.view == "wire" else record.ready.versions)
        if record.ready.runtime:
            facts["engine waits by"] = record.ready.runtime
        for name, nanoseconds in record.ready.self_cost_ns.items():
            facts[f"engine's own cost: {name}, ns"] = round(nanoseconds, 1)
    warehouses = run.plan.study.warehouses
    facts |= {"warehouses": warehouses} if warehouses else {"records": run.plan.records}
    facts["target"] = run.plan.target or "the run's own lab"
    if engine := [piece.answer.peak_memory_bytes for piece in run.slices if piece.view == "wire"]:
        facts["peak memory of the engine, MiB"] = round(max(engine) / 2**20, 1)
    if run.steal_share is not None:
        facts["steal"] = f"{run.steal_share:.2%}"
    return facts
