"""A study at a load: its workloads give way to one, of clients that ask as much as the load says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costof.messages.plan import Pace
from costof.study.load import CONNECTION, FIRST_QUERY, PHASES, QUERY, WORKLOAD, Arrivals, Load, Pool, Told, standing
from costof.study.metric import OF_CPU, OF_SERVERS, Metric
from costof.study.schema import Factor, Profile, SliceSize, Study, Workload

#: A slice holds as many connections or operations as a mean wants, in bearable time.
OF_A_SLICE, SHORTEST_SECONDS, LONGEST_SECONDS = 200, 2.0, 10.0
MARGIN = 0.05
CLIENT_ROLE = "client"
#: The role that serves clients, by kind of service; "server" for all others.
SERVING_ROLES = {"http": "balancer"}


def at_load(study: Study, load: Load) -> Study:
    """The study with one workload: what clients ask who come by themselves, or who hold connections. One of commands is
    as it was."""
    if isinstance(load, Told):
        return study
    replaced = {name for name, factor in study.factors.items() if factor.replaced_by_load}
    asked = standing(study) if isinstance(load, Pool) else ""
    metrics = _of_pool(study, load, asked) if isinstance(load, Pool) else _of_arrivals(load)
    metrics |= _cpu(study, "operation" if isinstance(load, Pool) else f"connection and all its {load.query[1]}")
    # As many as can come in that time: it ends by its seconds.
    seconds = min(max(OF_A_SLICE / load.most_per_second, SHORTEST_SECONDS), LONGEST_SECONDS)
    size = SliceSize(operations=2**31, seconds=seconds)
    changes: dict[str, Any] = {
        "factors": {name: _factor(each, asked) for name, each in study.factors.items() if name not in replaced},
        "workloads": {WORKLOAD: _workload(study, load, asked)},
        "metrics": metrics,
        "profiles": {name: _profile(profile, replaced, size) for name, profile in study.profiles.items()},
        # What the others ask is of other workloads.
        "sections": _sections(load),
        "published": None,
        "limits": {name: limit for name, limit in study.limits.items() if name in metrics},
    }
    return study.model_copy(update=changes)


def _sections(load: Arrivals | Pool) -> dict[str, Any]:
    """The cost model of a connection and of its queries, where there are both."""
    if isinstance(load, Pool) or not load.queries_per_connection:
        return {}
    query = QUERY if load.queries_per_connection > 1 else FIRST_QUERY
    operations = {"connection": CONNECTION, "operation": query}
    return {
        "cost_model": [
            {"operation": operation, "metric": metric, "predicts": [metric]} for operation, metric in operations.items()
        ]
    }


def _factor(factor: Factor, asked: str) -> Factor:
    """What it changes in a workload of the study's own it changes in the load, where that asks the same; how many ask
    the load says."""

    def options(of: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        found = {name: value for name, value in of.get(asked, {}).items() if name != "workers"}
        return {WORKLOAD: found} if found else {}

    changes = {
        "each": factor.each.model_copy(update={"workload": options(factor.each.workload)}),
        "levels": {
            name: level.model_copy(update={"workload": options(level.workload)})
            for name, level in factor.levels.items()
        },
    }
    return factor.model_copy(update=changes)


def _profile(profile: Profile, replaced: set[str], size: SliceSize) -> Profile:
    changes = {
        "slices": {WORKLOAD: size},
        "factors": {name: levels for name, levels in profile.factors.items() if name not in replaced},
        "also": [levels for levels in profile.also if not replaced & levels.keys()],
    }
    return profile.model_copy(update=changes)


def _workload(study: Study, load: Arrivals | Pool, asked: str) -> Workload:
    pace = Pace(per_second=load.per_second) if load.per_second else None
    if isinstance(load, Pool):
        changes = {
            "label": f"{load.operation[1]} over standing connections",
            "workers": load.connections,
            "pace": pace,
            "think_ms": load.think_ms,
        }
        return study.workloads[asked].model_copy(update=changes)
    return Workload(
        label="connections of clients that come by themselves",
        view="wire",
        kind="connect",
        # More wait for one of these to end, which their latency holds.
        workers=study.connections,
        first_operation=load.queries_per_connection > 0,
        further_operations=max(0, load.queries_per_connection - 1),
        pace=pace,
    )


def _of_arrivals(load: Arrivals) -> dict[str, Metric]:
    queries = load.queries_per_connection
    times = {CONNECTION: ("new connection", "From the instant at which a client comes to a connection that is ready.")}
    if queries:
        times[FIRST_QUERY] = (f"first {load.query[0]}", f"The first {load.query[0]} on it.")
    if queries > 1:
        times[QUERY] = (load.query[0], f"Each further {load.query[0]} on it.")
    phase_of = dict(zip([CONNECTION, FIRST_QUERY, QUERY], PHASES, strict=True))
    answering = {CONNECTION, QUERY if queries > 1 else FIRST_QUERY}
    return {
        name: _metric(label, description, phase_of[name], headline=name in answering)
        for name, (label, description) in times.items()
    }


def _of_pool(study: Study, load: Pool, asked: str) -> dict[str, Metric]:
    """Of an operation, and what the servers tell in the study's own workload."""
    come = "the instant at which it was to begin" if load.per_second else "its beginning"
    phase = "request" if study.workloads[asked].kind == "request" else "operation"
    told = {
        name: metric.model_copy(update={"workload": WORKLOAD, "headline": False})
        for name, metric in study.metrics.items()
        if metric.workload == asked and metric.phase.startswith(OF_SERVERS)
    }
    return {QUERY: _metric(load.operation[0], f"From {come} to its end.", phase, headline=True)} | told


def _cpu(study: Study, each: str) -> dict[str, Metric]:
    told = [metric.phase.removeprefix(OF_CPU) for metric in study.metrics.values() if metric.phase.startswith(OF_CPU)]
    return {
        f"{WORKLOAD}.cpu.{role}": _metric(f"CPU time of the {role}", f"For each {each}.", f"{OF_CPU}{role}")
        for role in dict.fromkeys([CLIENT_ROLE, SERVING_ROLES.get(study.service.kind, "server"), *told])
    }


def _metric(label: str, description: str, phase: str, headline: bool = False) -> Metric:
    return Metric(
        label=label, description=description, workload=WORKLOAD, phase=phase, headline=headline, margin=MARGIN
    )
