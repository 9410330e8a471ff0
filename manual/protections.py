"""What each protection adds to an operation: round trips, flushes, bytes and CPU time, from a run's raw results.

The page Costs shows this for every arm, and a study's page gives it as the reason for the costs in its answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costof import format as fmt
from costof.report.key_figures import CORES, KeyFigure
from costof.report.result import Result
from costof.report.sections.cost_model import needs
from costof.report.sections.cost_model.model import ExtraCost, Operation, extra_cost
from costof.results.index import Index, verdict_words
from costof.results.memory import ArmMemory
from costof.results.models import Arm, Effect, Metric
from costof.results.run import Run

#: The kind of a workload whose operation is a new connection.
CONNECT = "connect"


@dataclass(frozen=True)
class StoredRun:
    run: Run
    result: Result


@dataclass(frozen=True)
class Cost:
    """A row of the table: what a protection adds to an operation. `missing` says why there are no figures."""

    operation: str
    effect: Effect | None = None
    verdict: str = ""
    extra: ExtraCost | None = None
    counted: bool = False
    missing: str = ""


@dataclass(frozen=True)
class Protection:
    """The costs of one arm, or why they are not shown."""

    label: str
    costs: Sequence[Cost] = ()
    memory: ArmMemory | None = None
    hidden: str = ""


def protections(stored: StoredRun) -> list[Protection]:
    """Return the costs of every protected arm, in the order of the report: the arms at the shortest distance first."""
    index = Index(stored.result)
    return [_protection(stored, index, arm) for context in index.contexts for arm in context.arms]


def _protection(stored: StoredRun, index: Index, arm: Arm) -> Protection:
    label, result = arm.label_at_place, stored.result
    control = index.arm(arm.control_arm) if arm.control_arm else None
    for each in filter(None, [arm, control]):
        if each.error is not None and not any(index.effect(name, arm.name) for name in index.metrics):
            return Protection(label, hidden=f"Not measured: {each.error}")
        if not each.evidence:
            return Protection(label, hidden=f"Not shown: there is no evidence of what '{each.label}' used.")
    costs = [cost for metric in index.headline_metrics if (cost := _cost(stored, index, metric, arm)) is not None]
    memory = result.sections.memory
    of_arm = (each for each in memory.arms if each.arm == arm.name) if memory is not None else iter(())
    return Protection(label, costs, next(of_arm, None))


def _cost(stored: StoredRun, index: Index, metric: Metric, arm: Arm) -> Cost | None:
    """Return the arm's cost in the metric; None if the arm does not perform the metric's workload."""
    study = stored.run.plan.study
    workload = study.workloads[metric.workload]
    operation = index.metric_title(metric.name)
    effect = index.effect(metric.name, arm.name)
    if effect is not None and not _verified(index, workload.view, arm):
        return Cost(operation, missing="there is no evidence of what the arms used in this view")
    if effect is None:
        reasons = (each.reason for each in index.core.missing if (each.metric, each.arm) == (metric.name, arm.name))
        if reason := next(reasons, arm.error or ""):
            return Cost(operation, missing=reason)
        return Cost(operation, missing="too few rounds") if workload.is_done_on(arm.levels) else None
    value = index.value(metric.name, arm.name)
    return Cost(
        operation,
        effect,
        verdict_words(effect, metric),
        _extra(stored.run, metric.name, arm.name),
        counted=value is not None and value.round_trips is not None,
    )


def _extra(run: Run, metric: str, arm: str) -> ExtraCost | None:
    workload = run.plan.study.workloads[run.plan.study.metrics[metric].workload]
    kind = "connection" if workload.kind == CONNECT else "operation"
    operation = Operation.model_validate({"operation": kind, "metric": metric, "predicts": []})
    return extra_cost(run, operation, run.plan.arm(arm))


def _verified(index: Index, view: str, arm: Arm) -> bool:
    """Return whether evidence confirms the settings of the arm and of its control.

    Only evidence from slices (measured windows) counts. It must be from the client that sent the operations. `view`
    names this client: 'wire' is the engine, 'app' a driver.
    """
    control = index.arm(arm.control_arm or "")
    return all(
        each is not None and any(item.view == view and item.slices for item in each.evidence) for each in (arm, control)
    )


def needs_in_verdict(stored: StoredRun) -> list[str]:
    """Return a sentence for each protection in the verdict: what the operations that the verdict names need with it.

    For example: "With TLS, a new connection needs 3 more round trips and 4.0 ms more CPU time (client and server)."
    """
    index, verdict = Index(stored.result), stored.result.summary.verdict
    clauses: dict[str, dict[str, str]] = {}
    for figure in (each for each in stored.result.summary.figures if each.name != CORES):
        # In a verdict about several figures of one context, their quantities do not name the context.
        quantity = figure.words[: figure.words.rfind("'") + 1] or figure.words
        workload = index.metrics[figure.metrics[0]].workload
        of_protection = clauses.setdefault(figure.arm_label, {})
        if quantity in verdict and workload not in of_protection:
            of_protection[workload] = _clause(stored, index, figure)
    by_protection = {label: [*filter(None, each.values())] for label, each in clauses.items()}
    return [f"With {label}, {'; '.join(texts)}." for label, texts in by_protection.items() if texts]


def _clause(stored: StoredRun, index: Index, figure: KeyFigure) -> str:
    """Return what the operation of a key figure needs: 'a query needs 0.02 ms more CPU time'; '' if it is unknown."""
    metric, arm = index.metrics[figure.metrics[0]], _at_shortest_distance(index, index.arm(figure.arms[0]))
    workload = stored.run.plan.study.workloads[metric.workload]
    if arm is None or not _verified(index, workload.view, arm):
        return ""
    extra, value = _extra(stored.run, metric.name, arm.name), index.value(metric.name, arm.name)
    if extra is not None and (value is None or value.round_trips is None):
        extra = extra.model_copy(update={"round_trips": 0.0, "bytes": 0.0})
    parts = [*needs(extra)] if extra is not None else []
    operation = figure.words.partition(" of a client")[0]
    if metric.unit == "per_second":
        operation = f"an operation of {operation}"
    return f"{operation} needs {fmt.listed(parts)}" if parts else ""


def _at_shortest_distance(index: Index, arm: Arm | None) -> Arm | None:
    """Return the arm of the same protection at the shortest distance, as in the summary's reason.

    The distance makes no difference to what an operation needs, but the CPU time is measured best where it is short.
    """
    if arm is None or len(set(index.core.distances.values())) < 2:
        return arm
    return next((each for each in index.nearest.arms if each.protection == arm.protection), arm)
