"""Tests of sweeps (searches for the capacity): parsing of a range of loads and a limit, and the resulting plan."""

from __future__ import annotations

import pytest

from costof.errors import CostofError
from costof.instruments.commands.settings import Program
from costof.study.load import FIRST_QUERY, WORKLOAD, Arrivals, RequestedLoad
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from costof.study.sweep import CAPACITY, OVERHEAD_SECONDS, percentile_figures
from tests.support.small_plans import plan_of

LIMIT = ("p99 of a query", "10ms")


def sweeping(rate: str = "100/s..3000/s", *limits: tuple[str, str], study: str = "postgres-tls") -> Plan:
    return plan_of(study, "quick", load=RequestedLoad(rate, "20"), limits=limits or (LIMIT,))


def test_range_of_loads_with_a_latency_limit_has_the_capacity_as_its_only_metric() -> None:
    plan = sweeping()
    sweep, load = plan.sweep, plan.load
    assert sweep is not None
    assert isinstance(load, Arrivals)
    assert (sweep.least, sweep.most, load.connections_per_second) == (100, 3000, 100)
    assert sweep.limit.in_words == "p99 of a query within 10 ms"
    # The limit applies to 19 of a connection's 20 queries: the first query has a separate metric.
    assert (sweep.limit.share_beyond, sweep.operations_per_arrival) == (pytest.approx(0.01), 19)
    assert ([*plan.study.metrics], [*plan.study.workloads]) == ([CAPACITY], [WORKLOAD])
    assert plan.limits == []


@pytest.mark.parametrize(
    ("limit", "percentile", "milliseconds", "metric"),
    [
        (("P95 of a new connection", "0.5s"), 95, 500, "clients.connection"),
        (("p99.9 of first query", "800us"), 99.9, 0.8, "clients.first_query"),
        (("p50 of the query", "1.5ms"), 50, 1.5, "clients.query"),
    ],
)
def test_latency_limit_is_parsed_into_its_parts(
    limit: tuple[str, str], percentile: float, milliseconds: float, metric: str
) -> None:
    sweep = sweeping("1/s..9/s", limit).sweep
    assert sweep is not None
    parsed = sweep.limit
    assert (parsed.percentile, parsed.milliseconds, parsed.metric) == (percentile, milliseconds, metric)


def test_slices_of_a_load_sweep_are_long_enough_for_five_operations_above_the_latency_limit() -> None:
    sweep = sweeping("1/s..3000/s", ("p99 of a new connection", "10ms")).sweep
    assert sweep is not None
    # 500 connections, of which five exceed the limit, arrive in 2.5 s at 200 a second.
    assert sweep.seconds(200) == pytest.approx(2.5)
    assert (sweep.seconds(10_000), sweep.fit(3600, arms=3).seconds(1)) == (2, 4)


@pytest.mark.parametrize("study", ["postgres-tls", "mysql-transport", "http-tls-termination"])
def test_load_sweep_at_low_rates_takes_less_than_four_minutes(study: str) -> None:
    plan = plan_of(study, "quick", load=RequestedLoad("1/s..90/s"), limits=(("p99 of a new connection", "100ms"),))
    assert plan.sweep is not None
    assert plan.budget_seconds is not None
    seconds = plan.sweep.seconds(1) + OVERHEAD_SECONDS
    assert plan.budget_seconds + plan.sweep.halvings * (len(plan.arms) - 1) * seconds < 220


def test_latency_limit_of_a_query_applies_to_the_first_query_if_connections_send_only_one() -> None:
    plan = plan_of("postgres-tls", "quick", load=RequestedLoad("100/s..3000/s"), limits=(LIMIT,))
    assert plan.sweep is not None
    assert (plan.sweep.limit.metric, plan.sweep.limit.in_words) == (FIRST_QUERY, "p99 of a query within 10 ms")


@pytest.mark.parametrize(
    ("rate", "limits", "message"),
    [
        ("300/s", (LIMIT,), "needs a range of loads"),
        ("100/s..120/s", (LIMIT,), "too narrow a range"),
        ("3000/s..100/s", (LIMIT,), "too narrow a range"),
        ("100/s..", (LIMIT,), "is not a valid load"),
        ("100..3000/s", (LIMIT,), "is not a valid load"),
        ("100/s..3000/s", (LIMIT, LIMIT), "can have only one limit on a percentile"),
        ("100/s..3000/s", (("p99 of a query", "+10%"),), "is not a valid limit"),
        ("100/s..3000/s", (("p49 of a query", "10ms"),), "is not a valid limit"),
        ("100/s..3000/s", (("p99 of a transaction", "10ms"),), "'p99 of a query'"),
    ],
)
def test_invalid_range_of_loads_or_latency_limit_is_refused(
    rate: str, limits: tuple[tuple[str, str], ...], message: str
) -> None:
    with pytest.raises(CostofError, match=message):
        sweeping(rate, *limits)


def test_range_of_loads_together_with_a_think_time_is_refused() -> None:
    load = RequestedLoad("100/s..200/s", pool="8", think_time="20ms")
    with pytest.raises(CostofError):
        plan_of("postgres-tls", "quick", load=load, limits=(LIMIT,))


def study_of_commands(run: str, read: str) -> Study:
    factors = {"kind": {"levels": {"a": {}, "b": {}}}}
    command = {"run": run, "read": read}
    content = {"name": "mine", "title": "?", "service": "command", "control": {"kind": "a"}, "factors": factors}
    return Study.model_validate({**content, "workloads": {"w": {"command": command}}})


def sweeping_commands(run: str, read: str, limit: str) -> Plan:
    options = Options("quick", load=RequestedLoad("10/s..100/s"), limits=[(limit, "10ms")])
    return resolve(study_of_commands(run, read), options)


@pytest.mark.parametrize(
    ("read", "limit", "figure"),
    [
        ("wrk", "p99 of a request", "p99_ms"),
        ("wrk", "p99.9 of the latency", "p999_ms"),
        ("memtier", "p99 of a get", "get_p99_ms"),
        ("memtier", "p99 of an operation", "p99_ms"),
    ],
)
def test_latency_limit_of_a_command_applies_to_a_percentile_that_the_command_prints(
    read: str, limit: str, figure: str
) -> None:
    plan = sweeping_commands("load -R {rate} -d {seconds}", read, limit)
    assert plan.sweep is not None
    assert (plan.sweep.limit.figure, plan.sweep.workload, [*plan.study.metrics]) == (figure, "w", [CAPACITY])
    assert plan.sweep.seconds(1.0) == plan.slices["w"].seconds
    ((_, words),) = plan.programs(plan.arms[0]).values()
    program = Program(argv=["load", "-R", str(words["rate"])], once=True, timeout_seconds=1)
    assert program.at_rate(12.5).argv == ["load", "-R", "12.5"]


@pytest.mark.parametrize(("read", "known"), [("pgbench", "no percentiles"), ("wrk", "p50 of a request")])
def test_error_for_a_limit_on_an_unknown_percentile_lists_the_known_percentiles(read: str, known: str) -> None:
    with pytest.raises(CostofError, match=f"{read} has no such percentile .*{known}"):
        sweeping_commands("load -R {rate}", read, "p97 of a request")


def test_figure_is_recognized_as_a_percentile_by_its_name() -> None:
    names = ["p50_ms", "p999_ms", "get_p99_us", "p99_latency_ms", "latency_ms", "p9_ms"]
    assert percentile_figures(names) == {("", 50): "p50_ms", ("", 99.9): "p999_ms", ("get", 99): "get_p99_us"}
