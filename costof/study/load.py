"""Loads: measure a study at a given rate of requests, instead of sending requests as fast as the servers answer.

The kinds of load generation (Schroeder, Wierman & Harchol-Balter, "Open versus closed: a cautionary tale", NSDI 2006):

- closed loop: each client sends its next request when the last one is answered, perhaps after a think time. A closed
  loop without a think time measures capacity, and a slower arm gets fewer requests;
- open loop: requests arrive at random, even if earlier ones are not answered yet. Latency counts from the arrival;
- partly open loop: clients arrive at random, and each sends several requests, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from costof.errors import CostofError, ErrorText
from costof.instruments.commands.settings import RATE
from costof.messages.plan import Pace
from costof.model import Model
from costof.study.commands import COMMAND
from costof.study.options import parse_whole_number
from costof.study.schema import CPU_PREFIX, SERVER_PREFIX, Factor, Metric, Profile, SliceSize, Study, Workload

WORKLOAD = "clients"
CONNECTION, FIRST_QUERY, QUERY = f"{WORKLOAD}.connection", f"{WORKLOAD}.first_query", f"{WORKLOAD}.query"
MOST_QUERIES = 100_000
MOST_CONNECTIONS = 10_000
MOST_PER_SECOND = 1_000_000.0
LONGEST_THINK_MS = 3_600_000.0
#: The phases of a connection with its queries. Their times add up to the time from a client's arrival to the end of its
#: last query.
PHASES = ["scheduled_connect", "first_operation", "operation"]
#: The noun for an operation on an open connection, singular and plural, by kind of workload.
_OPERATIONS = {
    "query": ("query", "queries"),
    "request": ("request", "requests"),
    "tpcc": ("transaction", "transactions"),
    "ycsb": ("operation", "operations"),
}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s)")
_MILLISECONDS = {"ms": 1.0, "s": 1000.0}


class Arrivals(Model):
    """New connections that arrive at random (a Poisson process), and the number of queries on each."""

    connections_per_second: float = Field(gt=0)
    queries_per_connection: int = Field(ge=0)
    query: tuple[str, str] = Field(
        default=_OPERATIONS["query"], description="The noun for an operation, singular and plural."
    )

    @property
    def in_words(self) -> str:
        """The load as text: '300 new connections a second, 20 queries each'."""
        rate, queries = _number(self.connections_per_second), self.queries_per_connection
        one, several = self.query
        each = f"{queries:,} {one if queries == 1 else several} each" if queries else f"without a {one}"
        return f"{rate} new connection{'' if rate == '1' else 's'} a second, {each}"

    @property
    def per_second(self) -> float:
        return self.connections_per_second

    @property
    def most_per_second(self) -> float:
        return self.connections_per_second

    @property
    def operation(self) -> tuple[str, str]:
        return ("connection", "connections")

    def at_rate(self, per_second: float) -> Arrivals:
        return self.model_copy(update={"connections_per_second": per_second})


class Pool(Model):
    """Connections that stay open, with operations that arrive at a rate, or with users who think between operations.

    With a rate, operations arrive at random (a Poisson process), and each uses any free connection. Without a rate,
    each connection has a user, who thinks before each operation: `think_ms` on average, with a negative exponential
    distribution, as in TPC-C (clause 5.2.5.4).
    """

    connections: int = Field(gt=0)
    operation: tuple[str, str] = Field(description="The noun for an operation, singular and plural.")
    operations_per_second: float | None = Field(default=None, gt=0)
    think_ms: float | None = Field(default=None, gt=0)

    @property
    def in_words(self) -> str:
        """The load as text: '2,000 queries a second over 50 open connections'.

        Or: '50 open connections whose users think for 10 ms before each query'.
        """
        one, several = self.operation
        connections = f"{self.connections:,} open connection{'' if self.connections == 1 else 's'}"
        if self.operations_per_second is None:
            assert self.think_ms is not None
            return f"{connections} whose users think for {_number(self.think_ms)} ms before each {one}"
        rate = _number(self.operations_per_second)
        return f"{rate} {one if rate == '1' else several} a second over {connections}"

    @property
    def per_second(self) -> float | None:
        """The operations a second; None if the users' think time determines the rate."""
        return self.operations_per_second

    @property
    def most_per_second(self) -> float:
        """The maximum number of operations a second. It is reached if servers answer immediately."""
        return self.operations_per_second or self.connections * 1000 / (self.think_ms or 1.0)

    def at_rate(self, per_second: float) -> Pool:
        return self.model_copy(update={"operations_per_second": per_second})


class CommandRate(Model):
    """A rate of operations for a study of commands. The rate replaces {rate} in the command lines."""

    commands_per_second: float = Field(gt=0)

    @property
    def in_words(self) -> str:
        return f"{_number(self.commands_per_second)} a second, passed to the commands as {{rate}}"

    @property
    def per_second(self) -> float:
        return self.commands_per_second

    @property
    def operation(self) -> tuple[str, str]:
        return ("operation", "operations")

    def at_rate(self, per_second: float) -> CommandRate:
        return self.model_copy(update={"commands_per_second": per_second})


Load = Arrivals | Pool | CommandRate


@dataclass(frozen=True)
class RequestedLoad:
    """The load options as the user wrote them, such as '300/s', '20', '50' and '10ms'. None: the option is not used."""

    rate: str | None = None
    queries_per_connection: str | None = None
    pool: str | None = None
    think_time: str | None = None

    @property
    def options(self) -> Mapping[str, str | None]:
        """The value of each load option by its name, such as '300/s' for --load; None for an unused option."""
        return {
            "--load": self.rate,
            "--queries-per-connection": self.queries_per_connection,
            "--pool": self.pool,
            "--think-time": self.think_time,
        }


def parse_load(study: Study, requested: RequestedLoad) -> Load | None:
    """Return the load that the options describe, or None if no load option is used.

    Raises `BAD_RATE`, `BAD_TIME` and `BAD_NUMBER`. Raises `LOAD_INCOMPLETE` and `LOAD_CONTRADICTORY` for options that
    do not go together. Raises `NO_LOAD` for a study that opens no connections. Raises `RATE_WITHOUT_LOAD` and `NO_RATE`
    for a study of commands.
    """
    options = {name for name, value in requested.options.items() if value is not None}
    if study.service.kind == COMMAND:
        return _command_rate(study, requested, options)
    if not options:
        return None
    if "--pool" in options:
        return _pool(study, requested, options)
    if "--think-time" in options:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--think-time", other="--pool 50")
    if requested.rate is None:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--queries-per-connection", other="--load 300/s")
    if not any((each.view, each.kind) == ("wire", "connect") for each in study.workloads.values()):
        raise CostofError(ErrorText.NO_LOAD, study=study.name)
    queries = parse_whole_number("--queries-per-connection", requested.queries_per_connection or "1", 0, MOST_QUERIES)
    return Arrivals(
        connections_per_second=parse_rate(requested.rate), queries_per_connection=queries, query=_operation(study)
    )


def takes_rate(study: Study) -> bool:
    """Return whether a command of the study needs a rate: it contains {rate}, and no level sets a value for {rate}."""
    levels = (level for factor in study.factors.values() for level in (factor.each, *factor.levels.values()))
    if any(RATE in level.set for level in levels):
        return False
    return any(each.takes_rate for each in study.workloads.values())


def _command_rate(study: Study, requested: RequestedLoad, options: set[str]) -> Load | None:
    if unsupported := options - {"--load"}:
        raise CostofError(ErrorText.NO_RATE, option=min(unsupported), study=study.name)
    if requested.rate is None:
        if takes_rate(study):
            raise CostofError(ErrorText.RATE_WITHOUT_LOAD, study=study.name)
        return None
    if not takes_rate(study):
        raise CostofError(ErrorText.NO_RATE, option="--load", study=study.name)
    return CommandRate(commands_per_second=parse_rate(requested.rate))


def _pool(study: Study, requested: RequestedLoad, options: set[str]) -> Pool:
    assert requested.pool is not None
    if "--queries-per-connection" in options:
        raise CostofError(ErrorText.LOAD_CONTRADICTORY, option="--queries-per-connection", other="--pool")
    if requested.rate is not None and requested.think_time is not None:
        raise CostofError(ErrorText.LOAD_CONTRADICTORY, option="--think-time", other="--load")
    if requested.rate is None and requested.think_time is None:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--pool", other="--load 2000/s, or --think-time 20ms")
    return Pool(
        connections=parse_whole_number("--pool", requested.pool, 1, MOST_CONNECTIONS),
        operation=_operation(study),
        operations_per_second=None if requested.rate is None else parse_rate(requested.rate),
        think_ms=None if requested.think_time is None else _milliseconds(requested.think_time),
    )


def _operation(study: Study) -> tuple[str, str]:
    return _OPERATIONS.get(study.workloads[pooled_workload(study)].kind, _OPERATIONS["ycsb"])


def parse_rate(text: str) -> float:
    """Return the rate a second that a text such as '300/s' means. Raises `BAD_RATE`."""
    match = _RATE.fullmatch(text.strip())
    per_second = float(match[1]) / _SECONDS[match[2]] if match else 0.0
    if not 0 < per_second <= MOST_PER_SECOND:
        raise CostofError(ErrorText.BAD_RATE, text=text)
    return per_second


def _milliseconds(text: str) -> float:
    match = _TIME.fullmatch(text.strip())
    milliseconds = float(match[1]) * _MILLISECONDS[match[2]] if match else 0.0
    if not 0 < milliseconds <= LONGEST_THINK_MS:
        raise CostofError(ErrorText.BAD_TIME, text=text)
    return milliseconds


def pooled_workload(study: Study) -> str:
    """Return the name of the workload whose operations `--pool` repeats.

    It is the first workload that the load generator (the engine) measures on open connections.
    """
    return next(name for name, each in study.workloads.items() if each.view == "wire" and each.kind != "connect")


def _number(value: float) -> str:
    return f"{value:,.6g}"


#: The length of a slice (measured window) at a given load: the time in which `OPERATIONS_IN_SLICE` connections or
#: operations arrive on average, but at least `SHORTEST_SECONDS` and at most `LONGEST_SECONDS`.
OPERATIONS_IN_SLICE, SHORTEST_SECONDS, LONGEST_SECONDS = 200, 2.0, 10.0
MARGIN = 0.05
CLIENT_ROLE = "client"
#: Maps a kind of service to the role of the server that clients connect to, if this role is not 'server'. The metric of
#: this server's CPU time is named after the role: 'cpu.balancer'.
SERVING_ROLES = {"http": "balancer"}


def at_load(study: Study, load: Load) -> Study:
    """Return the study with only one workload, which produces the load. A study of commands is returned unchanged."""
    if isinstance(load, CommandRate):
        return study
    replaced = {name for name, factor in study.factors.items() if factor.replaced_by_load}
    base = pooled_workload(study) if isinstance(load, Pool) else ""
    metrics = _pool_metrics(study, load, base) if isinstance(load, Pool) else _arrival_metrics(load)
    metrics |= _cpu(study, "operation" if isinstance(load, Pool) else f"connection and all its {load.query[1]}")
    # No slice (measured window) performs 2**31 operations, so each slice ends after its seconds.
    seconds = min(max(OPERATIONS_IN_SLICE / load.most_per_second, SHORTEST_SECONDS), LONGEST_SECONDS)
    size = SliceSize(operations=2**31, seconds=seconds)
    changes: dict[str, Any] = {
        "factors": {name: _factor(each, base) for name, each in study.factors.items() if name not in replaced},
        "workloads": {WORKLOAD: _workload(study, load, base)},
        "clients": {},
        "metrics": metrics,
        "profiles": {name: _profile(profile, replaced, size) for name, profile in study.profiles.items()},
        # Drop the study's own report sections: they need workloads that the load has replaced.
        "sections": _sections(load),
        "published": None,
        "limits": {name: limit for name, limit in study.limits.items() if name in metrics},
    }
    return study.model_copy(update=changes)


def _sections(load: Arrivals | Pool) -> dict[str, Any]:
    """Return the settings of the report section `cost_model`.

    Return {} for a load without new connections or without queries, because the section needs the costs of both.
    """
    if isinstance(load, Pool) or not load.queries_per_connection:
        return {}
    query = QUERY if load.queries_per_connection > 1 else FIRST_QUERY
    operations = {"connection": CONNECTION, "operation": query}
    return {
        "cost_model": [
            {"operation": operation, "metric": metric, "predicts": [metric]} for operation, metric in operations.items()
        ]
    }


def _factor(factor: Factor, base: str) -> Factor:
    """Return a copy of the factor that changes the load's workload instead of the workload `base`.

    The load's workload replaces `base`, so it gets the options that the factor's levels set for `base`. Only the option
    `workers` is dropped, because the load itself sets the number of workers.
    """

    def options(by_workload: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        kept = {name: value for name, value in by_workload.get(base, {}).items() if name != "workers"}
        return {WORKLOAD: kept} if kept else {}

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


def _workload(study: Study, load: Arrivals | Pool, base: str) -> Workload:
    pace = Pace(per_second=load.per_second) if load.per_second else None
    if isinstance(load, Pool):
        changes = {
            "label": f"{load.operation[1]} over open connections",
            "workers": load.connections,
            "pace": pace,
            "think_ms": load.think_ms,
        }
        return study.workloads[base].model_copy(update=changes)
    return Workload(
        label="connections of clients that arrive independently",
        view="wire",
        kind="connect",
        # At most this many connections are open at once. Further clients wait, and their wait counts as latency.
        workers=study.connections,
        first_operation=load.queries_per_connection > 0,
        further_operations=max(0, load.queries_per_connection - 1),
        pace=pace,
    )


def _arrival_metrics(load: Arrivals) -> dict[str, Metric]:
    queries = load.queries_per_connection
    times = {CONNECTION: ("new connection", "From a client's arrival until its connection is ready.")}
    if queries:
        times[FIRST_QUERY] = (f"first {load.query[0]}", f"The first {load.query[0]} on a new connection.")
    if queries > 1:
        times[QUERY] = (load.query[0], f"Each further {load.query[0]} on the connection.")
    phases = dict(zip([CONNECTION, FIRST_QUERY, QUERY], PHASES, strict=True))
    answering = {CONNECTION, QUERY if queries > 1 else FIRST_QUERY}
    return {
        name: _metric(label, description, phases[name], headline=name in answering)
        for name, (label, description) in times.items()
    }


def _pool_metrics(study: Study, load: Pool, base: str) -> dict[str, Metric]:
    """Return the metrics of a study at this load, by name.

    They are the time of one of the load's operations, and the figures that servers report for the workload `base`,
    which the load replaces.
    """
    beginning = "the instant at which it was due" if load.per_second else "its beginning"
    phase = "request" if study.workloads[base].kind == "request" else "operation"
    server_metrics = {
        name: metric.model_copy(update={"workload": WORKLOAD, "headline": False})
        for name, metric in study.metrics.items()
        if metric.workload == base and metric.phase.startswith(SERVER_PREFIX)
    }
    return {QUERY: _metric(load.operation[0], f"From {beginning} to its end.", phase, headline=True)} | server_metrics


def _cpu(study: Study, each: str) -> dict[str, Metric]:
    roles = [
        metric.phase.removeprefix(CPU_PREFIX)
        for metric in study.metrics.values()
        if metric.phase.startswith(CPU_PREFIX)
    ]
    return {
        f"{WORKLOAD}.cpu.{role}": _metric(f"CPU time of the {role}", f"For each {each}.", f"{CPU_PREFIX}{role}")
        for role in dict.fromkeys([CLIENT_ROLE, SERVING_ROLES.get(study.service.kind, "server"), *roles])
    }


def _metric(label: str, description: str, phase: str, headline: bool = False) -> Metric:
    return Metric(
        label=label, description=description, workload=WORKLOAD, phase=phase, headline=headline, margin=MARGIN
    )
