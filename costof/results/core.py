"""The core result: the figures of a run that every report needs, whichever sections the study has."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

from costof.errors import CostofError, ErrorText
from costof.messages.answers import MISSING, PEAK_MEMORY
from costof.results.arms import build_arm, build_cpu, same_set_ups
from costof.results.figures import between_starts, build_effects, build_metric, build_values, noise_floors
from costof.results.ledger import SliceRecord
from costof.results.load import drop_overloaded
from costof.results.models import CarryOver, Core, FailedOperations, HostStartSpread, MissingFigure
from costof.results.run import Run
from costof.results.warnings import collect_warnings, count_errors, lost_host_warnings
from costof.statistics.carry_over import carry_over
from costof.statistics.intervals import FEWEST_ROUNDS, Mean
from costof.statistics.proportions import newcombe
from costof.study.arms import PlannedArm
from costof.study.command_line import command_line


def build_core(run: Run, name: str) -> Core:
    """Return the core result of a run. `name` is the name of its folder.

    Arms that could not carry the load lose their times (`drop_overloaded`). Raises `NOTHING_MEASURED` if the servers
    never started.
    """
    if run.environment is None:
        raise CostofError(ErrorText.NOTHING_MEASURED, detail="the service never started")
    plan, study = run.plan, run.plan.study
    drop_overloaded(run)
    floors = noise_floors(run)
    effects = build_effects(run)
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
        widening=max((each.widening for changes in run.changes.values() for each in changes), default=1.0),
        continued=run.continued,
        seed=plan.seed,
        budget_seconds=plan.budget_seconds,
        resumed_with_budget=run.resumed_with_budget,
        resumable_rounds=run.resumable_rounds,
        hosts=plan.hosts,
        resolved_early=run.resolved_early and not run.dropped,
        target_precision=plan.precision if plan.starts == 1 else None,
        requested_rounds=plan.most_rounds if plan.precision is None else None,
        slice_shares={name: size.seconds / plan.slices[name].seconds for name, size in (run.sizes or {}).items()},
        arms=[build_arm(run, arm, same[arm.name]) for arm in plan.arms],
        workloads={name: workload.label for name, workload in study.workloads.items()},
        distances={control.context: study.round_trip_ms(control.levels) for control in plan.controls}
        if study.distance_factor
        else {},
        metrics=[
            build_metric(name, metric, run)
            for name, metric in study.metrics.items()
            if metric.command_figure is None or _is_reported(run, name)
        ],
        values=build_values(run),
        effects=effects,
        noise_floor=floors,
        between_starts=between_starts(run),
        carry_over=find_carry_over(run),
        # Published figures hold for the lab's servers, not for a user's target.
        published=study.published if plan.target is None else None,
        links=run.links,
        cpu=[entry for workload in study.workloads for arm in plan.arms if (entry := build_cpu(run, workload, arm))],
        errors=count_errors(run),
        failures=count_failures(run),
        missing=[*find_missing_figures(run), *find_overloaded_figures(run)],
        warnings=collect_warnings(run, len(effects)),
        lost_hosts=lost_host_warnings(run),
        host_start_spread=host_start_spread(run),
        environment=_environment(run),
        command=command_line(plan, max(2, run.rounds if not run.starts else max(run.starts))),
    )


def _environment(run: Run) -> dict[str, object]:
    assert run.environment is not None
    facts: dict[str, object] = dict(run.environment.facts)
    for record in run.ready:
        named = dict.fromkeys(other.ready.instrument for other in run.ready if other.view == record.view)
        facts[f"{record.view} view"] = ", ".join(named)
        facts.update({"TLS library": run.tls_library()} if record.view == "wire" else record.ready.versions)
        if record.ready.runtime:
            facts["engine event loop"] = record.ready.runtime
        for name, nanoseconds in record.ready.self_cost_ns.items():
            facts[f"engine overhead: {name}, ns"] = round(nanoseconds, 1)
    warehouses = run.plan.study.warehouses
    facts |= {"warehouses": warehouses} if warehouses else {"records": run.plan.records}
    facts["target"] = run.plan.target or "lab"
    if engine := [record.answer.peak_memory_bytes for record in run.slices if record.view == "wire"]:
        facts["peak memory of the engine, MiB"] = round(max(engine) / 2**20, 1)
    if run.steal_share is not None:
        facts["steal"] = f"{run.steal_share:.2%}"
    return facts


def count_failures(run: Run) -> list[FailedOperations]:
    failures = []
    for workload in run.plan.study.workloads:
        counts = {}
        for arm in run.plan.arms:
            answers = [record.answer for record in run.counted_slices(workload, arm.name)]
            counts[arm.name] = (sum(answer.failed for answer in answers), sum(answer.begun for answer in answers))
        if not any(failed for failed, _ in counts.values()):
            continue
        for arm in run.plan.arms:
            (failed, begun), control = counts[arm.name], counts.get(arm.control_arm or "", (0, 0))
            if begun:
                excess, low, high = newcombe(control, (failed, begun)) if control[1] else (None, None, None)
                failures.append(
                    FailedOperations(
                        workload=workload,
                        arm=arm.name,
                        failed=failed,
                        begun=begun,
                        excess=excess,
                        excess_low=low,
                        excess_high=high,
                    )
                )
    return failures


def _is_reported(run: Run, metric: str) -> bool:
    """Return whether any arm has the metric. A command may print fewer figures than its reader (parser) knows."""
    return any(run.samples.by_round(metric, arm.name) for arm in run.plan.arms)


def find_missing_figures(run: Run) -> list[MissingFigure]:
    """Return the figures that some or all slices of an arm lack, although commands reported them for other arms."""
    missing = []
    for name, metric in run.plan.study.metrics.items():
        figure = metric.command_figure
        if figure is None or figure == PEAK_MEMORY or not _is_reported(run, name):
            continue
        for arm in run.plan.arms:
            records = [record for record in run.counted_slices(metric.workload, arm.name) if record.answer.operations]
            without_figure = [record for record in records if figure not in record.answer.figures]
            if without_figure and not arm.replicate:
                reasons = (record.answer.evidence.get(MISSING, {}).get(figure) for record in without_figure)
                why = next((f" ({each})" for each in reasons if each), "")
                some = (
                    "" if len(without_figure) == len(records) else f" in {len(without_figure)} of {len(records)} slices"
                )
                reason = f"the output of {arm.label} does not have it{some}{why}"
                missing.append(
                    MissingFigure(
                        metric=name,
                        arm=arm.name,
                        missing_slices=len(without_figure),
                        total_slices=len(records),
                        reason=reason,
                    )
                )
    return missing


def find_overloaded_figures(run: Run) -> list[MissingFigure]:
    """Return the metrics that have no figures on an arm because the arm could not carry the load."""
    missing = []
    for arm, metrics in run.dropped.items():
        slices = len(run.counted_slices(run.plan.study.metrics[metrics[0]].workload, arm))
        reason = f"{run.plan.arm(arm).label} cannot carry this load, so its times mean nothing"
        missing += [
            MissingFigure(metric=name, arm=arm, missing_slices=slices, total_slices=slices, reason=reason)
            for name in metrics
        ]
    return [each for each in missing if not run.plan.arm(each.arm).replicate]


#: Probability that a run without carry-over is reported to have carry-over in some headline metric (Bonferroni).
FALSE_ALARMS = 0.01


def find_carry_over(run: Run) -> list[CarryOver]:
    """Return the headline (most important) metrics whose figure depends on which arm was measured just before.

    For each workload and context, slices (measured windows) that follow a slice of another arm are compared with slices
    that follow a slice of the same arm. Differences below the metric's margin are left out, because they are too small
    to matter.
    """
    followers = [
        (record, _copy(run, before) is not _copy(run, record))
        for before, record in pairwise(run.slices)
        if run.counts(record) and before.workload == record.workload and _context(run, before) == _context(run, record)
    ]
    metrics = [name for name, metric in run.plan.study.metrics.items() if metric.headline]
    effects = []
    for name in metrics:
        metric, difference = run.plan.study.metrics[name], _difference_after_other(run, name, followers)
        if difference is None or abs(difference.value) < math.log1p(metric.margin):
            continue
        level = FALSE_ALARMS / len(metrics)
        if abs(difference.value) > difference.half(1 - level):
            effects.append(CarryOver(metric=name, ratio=difference.estimate(run.rounds).through(math.exp)))
    return effects


def _difference_after_other(run: Run, name: str, followers: list[tuple[SliceRecord, bool]]) -> Mean | None:
    """Return how much higher a metric's logarithm is in slices that follow another arm's slice than in other slices.

    Return None if there are too few rounds.
    """
    logs, rounds, arms, after_other = [], [], [], []
    names = [arm.name for arm in run.plan.arms]
    contexts = [control.context for control in run.plan.controls]
    for record, is_after_other in followers:
        if record.workload != run.plan.study.metrics[name].workload:
            continue
        number = run.samples.by_round(name, record.key.owner).get(record.round)
        if number is not None and number > 0:
            logs.append(math.log(number))
            rounds.append(record.round * len(contexts) + contexts.index(_context(run, record)))
            arms.append(names.index(_copy(run, record).name))
            after_other.append(is_after_other)
    if len(set(rounds)) < FEWEST_ROUNDS:
        return None
    return carry_over(logs, rounds, arms, after_other)


def _copy(run: Run, record: SliceRecord) -> PlannedArm:
    return run.plan.original(run.plan.arm(record.answer.arm))


def _context(run: Run, record: SliceRecord) -> str:
    return run.plan.arm(record.answer.arm).context


NS_PER_MS = 1e6


def host_start_spread(run: Run) -> HostStartSpread | None:
    """Return how far apart the hosts (load machines) began the same slice; None unless several measured at once."""
    spreads, clocks = [], []
    for record in run.counted:
        workload = run.plan.study.workloads[record.workload]
        # If the load has a schedule, the first operation begins at a random time. So use the time at which the host
        # began the slice.
        scheduled = workload.pace is not None or workload.think_ms is not None
        begun = [part.late_ns if scheduled else part.first_ns for part in record.hosts if part.participated]
        known = [each for each in begun if each is not None]
        if len(known) > 1:
            spreads.append(max(known) - min(known))
            clocks += [part.clock_error_ns for part in record.hosts]
    if not spreads:
        return None
    spreads.sort()
    return HostStartSpread(
        slices=len(spreads),
        median_ms=median(spreads) / NS_PER_MS,
        p99_ms=spreads[max(0, round(0.99 * len(spreads)) - 1)] / NS_PER_MS,
        max_ms=spreads[-1] / NS_PER_MS,
        clock_error_ms=max(clocks) / NS_PER_MS,
    )
