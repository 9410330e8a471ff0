"""Tests of loads (fixed rates of connections or operations): parsing of options, and studies at a load."""

from __future__ import annotations

from typing import Any

import pytest

from costof.errors import CostofError
from costof.results.metrics import SliceKey
from costof.run.sizes import MeasuredSlice, choose_sizes
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.load import CONNECTION, FIRST_QUERY, PHASES, QUERY, WORKLOAD, Arrivals, Pool, RequestedLoad
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from tests.fake_run import Slice, answer_of, phase_of
from tests.report.results import ENCRYPTION, REPLICATION
from tests.support.small_plans import plan_of


def arriving(study: str, rate: str = "300/s", queries: str | None = "20", profile: str = "quick") -> Plan:
    return plan_of(study, profile, load=RequestedLoad(rate, queries))


@pytest.mark.parametrize(
    ("text", "per_second", "words"),
    [
        ("300/s", 300, "300 new connections a second, 20 queries each"),
        ("90/min", 1.5, "1.5 new connections a second, 20 queries each"),
        (" 3600 / h ", 1, "1 new connection a second, 20 queries each"),
    ],
)
def test_rate_may_be_given_per_second_minute_or_hour(text: str, per_second: float, words: str) -> None:
    load = arriving("redis-tls", text).load
    assert isinstance(load, Arrivals)
    assert (load.connections_per_second, load.in_words) == (per_second, words)


ADD_LOAD = "also needs"


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        *(
            (RequestedLoad(rate), "is not a valid load; write it as 300/s")
            for rate in ("", "300", "300/d", "0/s", "1e3/s", "inf/s")
        ),
        *((RequestedLoad("1/s", n), "-per-connection must be a whole number") for n in ("-1", "1.5", "x", "100001")),
        *(
            (RequestedLoad(pool="8", think_time=t), "is not a valid think time")
            for t in ("", "20", "0ms", "3601s", "-1ms")
        ),
        (RequestedLoad(queries_per_connection="3"), f"--queries-per-connection {ADD_LOAD} --load"),
        (RequestedLoad(pool="8"), f"--pool {ADD_LOAD} --load 2000/s, or --think-time"),
        (RequestedLoad(think_time="20ms"), f"--think-time {ADD_LOAD} --pool"),
        (RequestedLoad("300/s", think_time="20ms"), f"--think-time {ADD_LOAD} --pool"),
        (
            RequestedLoad("300/s", pool="8", think_time="20ms"),
            "--think-time and --load contradict each other; remove one",
        ),
        (RequestedLoad("300/s", "3", "8"), "--queries-per-connection and --pool contradict each other; remove one"),
        (RequestedLoad("300/s", pool="0"), "--pool must be a whole number"),
    ],
)
def test_invalid_or_contradictory_load_is_refused(requested: RequestedLoad, message: str) -> None:
    with pytest.raises(CostofError, match=message):
        plan_of("redis-tls", load=requested)


POOLS = {
    RequestedLoad("2000/s", pool="50"): "2,000 {several} a second over 50 open connections",
    RequestedLoad("60/min", pool="1"): "1 {one} a second over 1 open connection",
    RequestedLoad(pool="8", think_time="1.5s"): "8 open connections whose users think for 1,500 ms before each {one}",
}


@pytest.mark.parametrize("study", study_names())
def test_every_study_supports_loads_on_pooled_connections_in_every_profile(study: str) -> None:
    for profile, requested in zip(load_study(study).profiles, POOLS, strict=False):
        plan = plan_of(study, profile, load=requested)
        assert Plan.model_validate_json(plan.model_dump_json()) == plan
        assert isinstance(plan.load, Pool)
        one, several = plan.load.operation
        assert plan.load.in_words == POOLS[requested].format(one=one, several=several)
        (workload,) = plan.study.workloads.values()
        assert workload.kind != "connect"
        assert {plan.workers(WORKLOAD, arm) for arm in plan.arms} == {plan.load.connections}
        assert (workload.pace is None) != (workload.think_ms is None)
        assert [name for name, metric in plan.study.metrics.items() if metric.headline] == [QUERY]
        assert plan.protected


@pytest.mark.parametrize("study", study_names())
def test_every_study_of_new_connections_supports_a_load_of_arriving_clients(study: str) -> None:
    if "connect" not in {each.kind for each in load_study(study).workloads.values()}:
        with pytest.raises(CostofError, match="measures operations on open connections, not new connections"):
            arriving(study)
        return
    for profile in load_study(study).profiles:
        plan = arriving(study, profile=profile)
        assert list(plan.study.workloads) == list(plan.slices) == [WORKLOAD]
        assert {arm.levels[plan.study.main_factor] for arm in plan.protected}
        assert {name for name, metric in plan.study.metrics.items() if metric.headline} == {CONNECTION, QUERY}


def test_factor_levels_set_workload_options_even_if_a_load_uses_pooled_connections() -> None:
    pool = RequestedLoad("20/s", pool="8")
    plan = plan_of(ENCRYPTION, "default", load=pool)
    assert {arm.settings.workload[WORKLOAD]["isolation"] for arm in plan.arms} == {"serializable"}
    assert not {"terminals", "keying"} & plan.study.factors.keys(), "the load decides the number of workers"
    plan = plan_of(REPLICATION, "quick", "read_share=0,0.5", load=pool)
    assert {arm.settings.workload.get(WORKLOAD, {}).get("phase") for arm in plan.arms} == {None, "run"}


def study_of_commands(line: str, levels: dict[str, Any] | None = None) -> Study:
    factors = {"kind": {"levels": levels or {"a": {}, "b": {}}}}
    content = {"name": "mine", "title": "?", "service": "command", "control": {"kind": "a"}, "factors": factors}
    return Study.model_validate({**content, "workloads": {"w": {"command": {"run": line}}}})


def test_rate_of_the_load_replaces_the_placeholder_in_commands() -> None:
    plan = resolve(study_of_commands("wrk2 -R {rate}"), Options(load=RequestedLoad("90/min")))
    ((_, words),) = plan.programs(plan.arms[0]).values()
    assert words["rate"] == 1.5
    assert plan.load is not None
    assert plan.load.in_words == "1.5 a second, passed to the commands as {rate}"
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    levels = {name: {"set": {"rate": rate}} for name, rate in (("a", "200"), ("b", "150"))}
    assert resolve(study_of_commands("echo {rate}", levels), Options()).load is None, "a level sets the word rate"


@pytest.mark.parametrize(
    ("line", "requested", "message"),
    [
        ("wrk2 -R {rate}", RequestedLoad(), r"of mine contain the placeholder \{rate\}; set its value with --load"),
        (
            "wrk",
            RequestedLoad("300/s"),
            r"--load does not work with the commands of mine; put the placeholder \{rate\} where",
        ),
        ("wrk2 -R {rate}", RequestedLoad("300/s", pool="8"), "--pool does not work with the commands of mine"),
    ],
)
def test_option_load_and_the_placeholder_rate_in_commands_require_each_other(
    line: str, requested: RequestedLoad, message: str
) -> None:
    with pytest.raises(CostofError, match=message):
        resolve(study_of_commands(line), Options(load=requested))


@pytest.mark.parametrize(("study", "role"), [("http-tls-termination", "balancer"), ("mongodb-tls", "server")])
def test_study_at_a_load_measures_the_cpu_time_of_client_and_server(study: str, role: str) -> None:
    roles = [name for name in arriving(study).study.metrics if ".cpu." in name]
    assert roles == [f"{WORKLOAD}.cpu.client", f"{WORKLOAD}.cpu.{role}"]


def test_option_queries_per_connection_removes_the_factor_that_it_replaces() -> None:
    """--queries-per-connection replaces the factor keep_alive.

    A connection makes 20 requests, each of which waits 200 ms at the origin. It is open for 4 s, so more than 1,000
    connections are open at once.
    """
    plan = arriving("http-tls-termination", profile="default")
    assert not any("keep_alive" in arm.levels for arm in plan.arms)
    assert plan.study.workloads[WORKLOAD].workers == plan.study.connections > 1000


def test_metrics_are_left_out_for_queries_that_the_connections_of_a_load_never_send() -> None:
    one, none = arriving("redis-tls", queries=None), arriving("redis-tls", queries="0")
    assert {FIRST_QUERY, QUERY} & one.study.metrics.keys() == {FIRST_QUERY}
    assert not {FIRST_QUERY, QUERY} & none.study.metrics.keys()
    assert not none.study.workloads[WORKLOAD].first_operation


@pytest.mark.parametrize(("lasts_seconds", "seconds"), [(0.1, 2.0), (4.0, 8.0), (60.0, 30.0)])
def test_measurement_lasts_twice_as_long_as_a_connection_but_between_2_and_30_seconds(
    lasts_seconds: float, seconds: float
) -> None:
    plan = arriving("redis-tls", "5000/s")
    phases = {phase: phase_of(lasts_seconds * 1e3 / len(PHASES), 100) for phase in PHASES}
    answer = answer_of(Slice(100, 2.0, phases, {}, {}), WORKLOAD, "tls")
    assert choose_sizes(plan, [MeasuredSlice(SliceKey(WORKLOAD, "tls"), answer, 0.0)])[
        WORKLOAD
    ].seconds == pytest.approx(seconds)


def test_measurement_at_a_low_rate_is_longer_than_at_a_high_rate() -> None:
    seconds = [arriving("redis-tls", rate).slices[WORKLOAD].seconds for rate in ("5000/s", "50/s", "1/s")]
    assert seconds == [2.0, 4.0, 10.0]
    plan = arriving("redis-tls")
    assert not plan.may_shorten_slices
    assert choose_sizes(plan, []) == plan.slices


def test_default_budget_at_a_low_rate_suffices_for_a_verdict() -> None:
    slow = arriving("postgres-tls", "40/s")
    seconds = sum(size.seconds for size in slow.slices.values())
    assert slow.budget_seconds is not None
    assert slow.budget_seconds >= FEWEST_ROUNDS * len(slow.arms) * seconds
    options = Options(profile="quick", load=RequestedLoad("40/s", "20"), budget="10s")
    assert resolve(load_study("postgres-tls"), options).budget_seconds == 10
