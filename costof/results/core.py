"""The core result: what a ledger shows of a run before any section of the report adds to it."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

from costof.errors import CostofError, ErrorText
from costof.messages.answers import MISSING, PEAK_MEMORY
from costof.results.arms import arm_result, cpu_of, same_set_ups
from costof.results.figures import between_starts, effects_of, metric_result, noise_floors, values_of
from costof.results.ledger import SliceRecord
from costof.results.load import drop_overloaded
from costof.results.models import CarryOver, Core, Failing, Missing, StartingTogether
from costof.results.run import Run
from costof.results.warnings import errors_of, warnings_of
from costof.statistics.carry_over import carry_over
from costof.statistics.intervals import FEWEST_ROUNDS, Mean
from costof.statistics.proportions import newcombe
from costof.study.arms import PlannedArm
from costof.study.load import WORKLOAD


def build_core(run: Run, name: str) -> Core:
    """Return the core result of the run in the folder `name`. Raises `NOTHING_MEASURED` when no slice ever ended."""
    if run.environment is None:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail="the service never started")
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
        target_precision=plan.precision if plan.starts == 1 else None,
        requested_rounds=plan.most_rounds if plan.precision is None else None,
        slice_shares={name: size.seconds / plan.slices[name].seconds for name, size in (run.sizes or {}).items()},
        arms=[arm_result(run, arm, same[arm.name]) for arm in plan.arms],
        workloads={name: workload.label for name, workload in study.workloads.items()},
        distances={control.context: study.round_trip_ms(control.levels) for control in plan.controls}
        if study.distance_factor
        else {},
        metrics=[
            metric_result(name, metric, run)
            for name, metric in study.metrics.items()
            if metric.of_command is None or _is_reported(run, name)
        ],
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


def failing_of(run: Run) -> list[Failing]:
    found = []
    for workload in run.plan.study.workloads:
        counts = {}
        for arm in run.plan.arms:
            answers = [piece.answer for piece in run.of(workload, arm.name)]
            counts[arm.name] = (sum(answer.failed for answer in answers), sum(answer.begun for answer in answers))
        if not any(failed for failed, _ in counts.values()):
            continue
        for arm in run.plan.arms:
            (failed, of), control = counts[arm.name], counts.get(arm.baseline or "", (0, 0))
            if of:
                more, low, high = newcombe(control, (failed, of)) if control[1] else (None, None, None)
                found.append(
                    Failing(
                        workload=workload, arm=arm.name, failed=failed, of=of, more=more, more_low=low, more_high=high
                    )
                )
    return found


def _is_reported(run: Run, metric: str) -> bool:
    """A reader knows more figures than its program reports in a run."""
    return any(run.samples.by_round(metric, arm.name) for arm in run.plan.arms)


def missing_of(run: Run) -> list[Missing]:
    """Return the figures that commands report on some arms and not, or not in every slice, on others."""
    found = []
    for name, metric in run.plan.study.metrics.items():
        figure = metric.of_command
        if figure is None or figure == PEAK_MEMORY or not _is_reported(run, name):
            continue
        for arm in run.plan.arms:
            pieces = [piece for piece in run.of(metric.workload, arm.name) if piece.answer.operations]
            lacking = [piece for piece in pieces if figure not in piece.answer.figures]
            if lacking and not arm.replicate:
                reasons = (piece.answer.evidence.get(MISSING, {}).get(figure) for piece in lacking)
                why = next((f" ({each})" for each in reasons if each), "")
                some = "" if len(lacking) == len(pieces) else f" in {len(lacking)} of {len(pieces)} slices"
                reason = f"the output of {arm.label} does not have it{some}{why}"
                found.append(Missing(metric=name, arm=arm.name, slices=len(lacking), of=len(pieces), reason=reason))
    return found


def overloaded_of(run: Run) -> list[Missing]:
    found = []
    for arm, metrics in run.dropped.items():
        slices = len(run.of(WORKLOAD, arm))
        reason = f"{run.plan.arm(arm).label} cannot carry this load, so its times mean nothing"
        found += [Missing(metric=name, arm=arm, slices=slices, of=slices, reason=reason) for name in metrics]
    return [each for each in found if not run.plan.arm(each.arm).replicate]


#: Chance of a run without carry-over that is said to have some, over all its headline metrics (Bonferroni).
FALSE_ALARMS = 0.01


def carry_over_of(run: Run) -> list[CarryOver]:
    """Return the headline metrics in which slices after another arm differ from those after their own.

    Differences below the metric's margin are left out. Only pairs of slices of one workload and context are compared.
    """
    followers = [
        (piece, _copy(run, before) is not _copy(run, piece))
        for before, piece in pairwise(run.slices)
        if run.counts(piece) and before.workload == piece.workload and _context(run, before) == _context(run, piece)
    ]
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
    found = []
    for name in metrics:
        metric, difference = run.plan.study.metrics[name], _difference_after_other(run, name, followers)
        if difference is None or abs(difference.value) < math.log1p(metric.margin):
            continue
        level = FALSE_ALARMS / len(metrics)
        if abs(difference.value) > difference.half(1 - level):
            found.append(CarryOver(metric=name, ratio=difference.estimate(run.rounds).through(math.exp)))
    return found


def _difference_after_other(run: Run, name: str, followers: list[tuple[SliceRecord, bool]]) -> Mean | None:
    logs, rounds, arms, after_other = [], [], [], []
    names = [arm.name for arm in run.plan.arms]
    contexts = [control.context for control in run.plan.controls]
    for piece, is_after_other in followers:
        if piece.workload != run.plan.study.metrics[name].workload:
            continue
        number = run.samples.by_round(name, piece.turn.role).get(piece.round)
        if number is not None and number > 0:
            logs.append(math.log(number))
            rounds.append(piece.round * len(contexts) + contexts.index(_context(run, piece)))
            arms.append(names.index(_copy(run, piece).name))
            after_other.append(is_after_other)
    if len(set(rounds)) < FEWEST_ROUNDS:
        return None
    return carry_over(logs, rounds, arms, after_other)


def _copy(run: Run, piece: SliceRecord) -> PlannedArm:
    return run.plan.original(run.plan.arm(piece.answer.arm))


def _context(run: Run, piece: SliceRecord) -> str:
    return run.plan.arm(piece.answer.arm).context


NS_PER_MS = 1e6


def starting_together(run: Run) -> StartingTogether | None:
    """Return None where no two hosts measured at once."""
    spreads, clocks = [], []
    for piece in run.counted:
        workload = run.plan.study.workloads[piece.workload]
        # Where operations begin at instants of a schedule, the openings of the hosts' windows count.
        scheduled = workload.pace is not None or workload.think_ms is not None
        begun = [part.late_ns if scheduled else part.first_ns for part in piece.hosts if part.participated]
        known = [each for each in begun if each is not None]
        if len(known) > 1:
            spreads.append(max(known) - min(known))
            clocks += [part.clock_error_ns for part in piece.hosts]
    if not spreads:
        return None
    spreads.sort()
    return StartingTogether(
        slices=len(spreads),
        median_ms=median(spreads) / NS_PER_MS,
        p99_ms=spreads[max(0, round(0.99 * len(spreads)) - 1)] / NS_PER_MS,
        most_ms=spreads[-1] / NS_PER_MS,
        clocks_ms=max(clocks) / NS_PER_MS,
    )
