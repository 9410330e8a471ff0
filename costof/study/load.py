"""At a load: a study asked as much as somebody's clients ask, in place of as much as it can take.

A closed loop tells capacity: it sends its next request when the last is answered, so a slower arm is asked less.
Clients that come by themselves do not wait for each other, and what they wait for is counted from the instant at which
they came; users of standing connections think before they ask again (Schroeder, Wierman & Harchol-Balter, "Open versus
closed: a cautionary tale", NSDI 2006).
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
from costof.study.options import whole_number
from costof.study.schema import CPU_PREFIX, SERVER_PREFIX, Factor, Metric, Profile, SliceSize, Study, Workload

WORKLOAD = "clients"
CONNECTION, FIRST_QUERY, QUERY = f"{WORKLOAD}.connection", f"{WORKLOAD}.first_query", f"{WORKLOAD}.query"
MOST_QUERIES = 100_000
MOST_CONNECTIONS = 10_000
MOST_PER_SECOND = 1_000_000.0
LONGEST_THINK_MS = 3_600_000.0
#: Of a connection and its queries, together its life.
PHASES = ["scheduled_connect", "first_operation", "operation"]
#: By kind of workload: what one operation over a standing connection is, and its phase.
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
    """New connections that come by themselves, at random instants (Poisson), and what each is asked."""

    connections_per_second: float = Field(gt=0)
    queries_per_connection: int = Field(ge=0)
    query: tuple[str, str] = Field(default=_OPERATIONS["query"], description="What one is called, and several.")

    @property
    def in_words(self) -> str:
        """'300 new connections a second, 20 queries each'."""
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


class Pool(Model):
    """Connections that stand. Either operations come by themselves, at random instants (Poisson), and go over whichever
    is free; or each has a user who thinks for so long on average (negative exponential, as in TPC-C's clause 5.2.5.4)
    before each operation."""

    connections: int = Field(gt=0)
    operation: tuple[str, str] = Field(description="What one is called, and several.")
    operations_per_second: float | None = Field(default=None, gt=0)
    think_ms: float | None = Field(default=None, gt=0)

    @property
    def in_words(self) -> str:
        """'2,000 queries a second over 50 standing connections', '… whose users think …'."""
        one, several = self.operation
        standing = f"{self.connections:,} standing connection{'' if self.connections == 1 else 's'}"
        if self.operations_per_second is None:
            assert self.think_ms is not None
            return f"{standing} whose users think for {_number(self.think_ms)} ms before each {one}"
        rate = _number(self.operations_per_second)
        return f"{rate} {one if rate == '1' else several} a second over {standing}"

    @property
    def per_second(self) -> float | None:
        """None: as often as users have thought."""
        return self.operations_per_second

    @property
    def most_per_second(self) -> float:
        """Of servers that answer at once."""
        return self.operations_per_second or self.connections * 1000 / (self.think_ms or 1.0)


class CommandRate(Model):
    """A rate that commands are told."""

    commands_per_second: float = Field(gt=0)

    @property
    def in_words(self) -> str:
        return f"{_number(self.commands_per_second)} a second, as the commands are told"


Load = Arrivals | Pool | CommandRate


@dataclass(frozen=True)
class RequestedLoad:
    """What a user has said of a load: '300/s', '20', '50', '10ms'."""

    rate: str | None = None
    queries_per_connection: str | None = None
    pool: str | None = None
    think_time: str | None = None

    @property
    def options(self) -> Mapping[str, str | None]:
        """By their names on the command line."""
        return {
            "--load": self.rate,
            "--queries-per-connection": self.queries_per_connection,
            "--pool": self.pool,
            "--think-time": self.think_time,
        }


def load_of(study: Study, asked: RequestedLoad) -> Load | None:
    """None where nothing is asked.

    Raises `BAD_RATE`, `BAD_TIME`, `BAD_NUMBER`; `LOAD_INCOMPLETE` and `LOAD_CONTRADICTORY` of options that do not go
    together; `NO_LOAD` of a study that opens no connections, and `RATE_WITHOUT_LOAD` and `NO_RATE` of commands.
    """
    said = {name for name, value in asked.options.items() if value is not None}
    if study.service.kind == COMMAND:
        return _told(study, asked, said)
    if not said:
        return None
    if "--pool" in said:
        return _pool(study, asked, said)
    if "--think-time" in said:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--think-time", other="--pool 50")
    if asked.rate is None:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--queries-per-connection", other="--load 300/s")
    if not any((each.view, each.kind) == ("wire", "connect") for each in study.workloads.values()):
        raise CostofError(ErrorText.NO_LOAD, study=study.name)
    queries = whole_number("--queries-per-connection", asked.queries_per_connection or "1", 0, MOST_QUERIES)
    return Arrivals(connections_per_second=_rate(asked.rate), queries_per_connection=queries, query=_operation(study))


def takes_rate(study: Study) -> bool:
    """Whether a command of its own is told one, and no level sets a word of that name."""
    levels = (level for factor in study.factors.values() for level in (factor.each, *factor.levels.values()))
    if any(RATE in level.set for level in levels):
        return False
    return any(each.command is not None and each.command.takes_rate for each in study.workloads.values())


def _told(study: Study, asked: RequestedLoad, said: set[str]) -> Load | None:
    if others := said - {"--load"}:
        raise CostofError(ErrorText.NO_RATE, option=min(others), study=study.name)
    if asked.rate is None:
        if takes_rate(study):
            raise CostofError(ErrorText.RATE_WITHOUT_LOAD, study=study.name)
        return None
    if not takes_rate(study):
        raise CostofError(ErrorText.NO_RATE, option="--load", study=study.name)
    return CommandRate(commands_per_second=_rate(asked.rate))


def _pool(study: Study, asked: RequestedLoad, said: set[str]) -> Pool:
    assert asked.pool is not None
    if "--queries-per-connection" in said:
        raise CostofError(ErrorText.LOAD_CONTRADICTORY, option="--queries-per-connection", other="--pool")
    if asked.rate is not None and asked.think_time is not None:
        raise CostofError(ErrorText.LOAD_CONTRADICTORY, option="--think-time", other="--load")
    if asked.rate is None and asked.think_time is None:
        raise CostofError(ErrorText.LOAD_INCOMPLETE, option="--pool", other="--load 2000/s, or --think-time 20ms")
    return Pool(
        connections=whole_number("--pool", asked.pool, 1, MOST_CONNECTIONS),
        operation=_operation(study),
        operations_per_second=None if asked.rate is None else _rate(asked.rate),
        think_ms=None if asked.think_time is None else _milliseconds(asked.think_time),
    )


def _operation(study: Study) -> tuple[str, str]:
    return _OPERATIONS.get(study.workloads[standing(study)].kind, _OPERATIONS["ycsb"])


def _rate(text: str) -> float:
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


def standing(study: Study) -> str:
    """The workload whose operations go over standing connections: the first of the engine's."""
    return next(name for name, each in study.workloads.items() if each.view == "wire" and each.kind != "connect")


def _number(value: float) -> str:
    return f"{value:,.6g}"


#: A slice holds as many connections or operations as a mean wants, in bearable time.
OF_A_SLICE, SHORTEST_SECONDS, LONGEST_SECONDS = 200, 2.0, 10.0
MARGIN = 0.05
CLIENT_ROLE = "client"
#: The role that serves clients, by kind of service; "server" for all others.
SERVING_ROLES = {"http": "balancer"}


def at_load(study: Study, load: Load) -> Study:
    """The study with one workload: what clients ask who come by themselves, or who hold connections. One of commands is
    as it was."""
    if isinstance(load, CommandRate):
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
        if metric.workload == asked and metric.phase.startswith(SERVER_PREFIX)
    }
    return {QUERY: _metric(load.operation[0], f"From {come} to its end.", phase, headline=True)} | told


def _cpu(study: Study, each: str) -> dict[str, Metric]:
    told = [
        metric.phase.removeprefix(CPU_PREFIX)
        for metric in study.metrics.values()
        if metric.phase.startswith(CPU_PREFIX)
    ]
    return {
        f"{WORKLOAD}.cpu.{role}": _metric(f"CPU time of the {role}", f"For each {each}.", f"{CPU_PREFIX}{role}")
        for role in dict.fromkeys([CLIENT_ROLE, SERVING_ROLES.get(study.service.kind, "server"), *told])
    }


def _metric(label: str, description: str, phase: str, headline: bool = False) -> Metric:
    return Metric(
        label=label, description=description, workload=WORKLOAD, phase=phase, headline=headline, margin=MARGIN
    )
