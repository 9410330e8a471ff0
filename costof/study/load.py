"""At a load: a study asked at the rate at which somebody's clients come, in place of as fast as it goes.

A closed loop tells capacity: it sends its next request when the last is answered, so a slower arm is asked less.
Clients that come by themselves do not wait for each other, and what they wait for is counted from the instant at which
they came (Schroeder, Wierman & Harchol-Balter, "Open versus closed: a cautionary tale", NSDI 2006).
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from costof.errors import CostofError, Problem
from costof.ipc.plan import Pace
from costof.model import Model
from costof.study.metric import OF_CPU, Metric
from costof.study.options import whole_number
from costof.study.schema import Factor, Profile, SliceSize, Study, Workload

WORKLOAD = "clients"
CONNECTION, FIRST_QUERY, QUERY = f"{WORKLOAD}.connection", f"{WORKLOAD}.first_query", f"{WORKLOAD}.query"
MOST_QUERIES = 100_000
MOST_PER_SECOND = 1_000_000.0
#: Of a connection and its queries, together its life.
PHASES = ["scheduled_connect", "first_operation", "operation"]
#: A slice holds as many connections as a mean wants, in bearable time.
CONNECTIONS_OF_A_SLICE, SHORTEST_SECONDS, LONGEST_SECONDS = 200, 2.0, 10.0
MARGIN = 0.05
ROLES = ("client", "server")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


class Load(Model):
    """New connections that come by themselves, at random instants (Poisson), and what each is asked."""

    connections_per_second: float = Field(gt=0)
    queries_per_connection: int = Field(ge=0)


def in_words(load: Load) -> str:
    """'300 new connections a second, 20 queries each'."""
    rate, queries = f"{load.connections_per_second:,.6g}", load.queries_per_connection
    each = f"{queries:,} {'query' if queries == 1 else 'queries'} each" if queries else "without a query"
    return f"{rate} new connection{'' if rate == '1' else 's'} a second, {each}"


def parse_load(rate: str, queries: str | None) -> Load:
    """Of '300/s' and '20'. Raises `BAD_RATE` and `BAD_NUMBER`."""
    match = _RATE.fullmatch(rate.strip())
    per_second = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not 0 < per_second <= MOST_PER_SECOND:
        raise CostofError(Problem.BAD_RATE, text=rate)
    asked = whole_number("--queries-per-connection", queries or "1", 0, MOST_QUERIES)
    return Load(connections_per_second=per_second, queries_per_connection=asked)


def at_load(study: Study, load: Load) -> Study:
    """The study with one workload: connections of clients that come by themselves. Raises `NO_LOAD` of a study that
    opens none."""
    if not any((each.view, each.kind) == ("wire", "connect") for each in study.workloads.values()):
        raise CostofError(Problem.NO_LOAD, study=study.name)
    seconds = CONNECTIONS_OF_A_SLICE / load.connections_per_second
    # As many as can come in that time: it ends by its seconds.
    size = SliceSize(operations=2**31, seconds=min(max(seconds, SHORTEST_SECONDS), LONGEST_SECONDS))
    metrics = _metrics(study, load.queries_per_connection)
    changes: dict[str, Any] = {
        "factors": {name: _factor(factor) for name, factor in study.factors.items()},
        "workloads": {WORKLOAD: _workload(load, study.connections)},
        "metrics": metrics,
        "profiles": {name: _profile(profile, study, size) for name, profile in study.profiles.items()},
        # What the others ask is of other workloads.
        "sections": {},
        "published": None,
        "limits": {name: limit for name, limit in study.limits.items() if name in metrics},
    }
    return study.model_copy(update=changes)


def _factor(factor: Factor) -> Factor:
    """Without what it would change in the study's own workloads."""
    kept = factor.default[:1] if factor.replaced_by_load else factor.levels
    changes = {
        "each": factor.each.model_copy(update={"workload": {}}),
        "levels": {level: factor.levels[level].model_copy(update={"workload": {}}) for level in kept},
        "default": factor.default[:1] if factor.replaced_by_load else factor.default,
    }
    return factor.model_copy(update=changes)


def _profile(profile: Profile, study: Study, size: SliceSize) -> Profile:
    said = {name for name, factor in study.factors.items() if factor.replaced_by_load}
    changes = {
        "slices": {WORKLOAD: size},
        "factors": {name: levels for name, levels in profile.factors.items() if name not in said},
        "also": [levels for levels in profile.also if not said & levels.keys()],
    }
    return profile.model_copy(update=changes)


def _workload(load: Load, connections: int) -> Workload:
    return Workload(
        label="connections of clients that come by themselves",
        view="wire",
        kind="connect",
        # More wait for one of these to end, which their latency holds.
        workers=connections,
        first_operation=load.queries_per_connection > 0,
        further_operations=max(0, load.queries_per_connection - 1),
        pace=Pace(per_second=load.connections_per_second),
    )


def _metrics(study: Study, queries: int) -> dict[str, Metric]:
    times = {CONNECTION: ("new connection", "From the instant at which a client comes to a connection that is ready.")}
    if queries:
        times[FIRST_QUERY] = ("first query", "The first query on it.")
    if queries > 1:
        times[QUERY] = ("query", "Each further query on it.")
    phase_of = dict(zip([CONNECTION, FIRST_QUERY, QUERY], PHASES, strict=True))
    answering = {CONNECTION, QUERY if queries > 1 else FIRST_QUERY}
    found = {
        name: Metric(
            label=label,
            description=description,
            workload=WORKLOAD,
            phase=phase_of[name],
            headline=name in answering,
            margin=MARGIN,
        )
        for name, (label, description) in times.items()
    }
    told = [metric.phase.removeprefix(OF_CPU) for metric in study.metrics.values() if metric.phase.startswith(OF_CPU)]
    for role in dict.fromkeys([*ROLES, *told]):
        found[f"{WORKLOAD}.cpu.{role}"] = Metric(
            label=f"CPU time of the {role}",
            description="For each connection and all its queries.",
            workload=WORKLOAD,
            phase=f"{OF_CPU}{role}",
            margin=MARGIN,
        )
    return found
