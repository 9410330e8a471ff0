"""A load: how it is said, and what a study becomes that is asked at one."""

from __future__ import annotations

from typing import Any

import pytest

from costof.errors import CostofError
from costof.results.samples import SliceKey
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

#: Whose clients open connections; those of the others hold them.
ASKED = ["http-tls-termination", "mongodb-tls", "mysql-transport", "postgres-pooling", "postgres-tls", "redis-tls"]


def arriving(study: str, rate: str = "300/s", queries: str | None = "20", profile: str = "quick") -> Plan:
    return plan_of(study, profile, load=RequestedLoad(rate, queries))


@pytest.mark.parametrize(
    ("said", "per_second", "words"),
    [
        ("300/s", 300, "300 new connections a second, 20 queries each"),
        ("90/min", 1.5, "1.5 new connections a second, 20 queries each"),
        (" 3600 / h ", 1, "1 new connection a second, 20 queries each"),
    ],
)
def test_a_rate_is_said_with_its_time(said: str, per_second: float, words: str) -> None:
    load = arriving("redis-tls", said).load
    assert isinstance(load, Arrivals)
    assert (load.connections_per_second, load.in_words) == (per_second, words)


ADD_LOAD = "does not say how much is asked; add"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        *((RequestedLoad(rate), "is no load; write 300/s") for rate in ("", "300", "300/d", "0/s", "1e3/s", "inf/s")),
        *((RequestedLoad("1/s", n), "-per-connection must be a whole number") for n in ("-1", "1.5", "x", "100001")),
        *((RequestedLoad(pool="8", think_time=t), "is no time to think") for t in ("", "20", "0ms", "3601s", "-1ms")),
        (RequestedLoad(queries_per_connection="3"), f"--queries-per-connection {ADD_LOAD} --load"),
        (RequestedLoad(pool="8"), f"--pool {ADD_LOAD} --load 2000/s, or --think-time"),
        (RequestedLoad(think_time="20ms"), f"--think-time {ADD_LOAD} --pool"),
        (RequestedLoad("300/s", think_time="20ms"), f"--think-time {ADD_LOAD} --pool"),
        (RequestedLoad("300/s", pool="8", think_time="20ms"), "--think-time says of a load what --load says otherwise"),
        (RequestedLoad("300/s", "3", "8"), "--queries-per-connection says of a load what --pool says otherwise"),
        (RequestedLoad("300/s", pool="0"), "--pool must be a whole number"),
    ],
)
def test_what_is_no_load_or_contradicts_itself_is_refused(asked: RequestedLoad, told: str) -> None:
    with pytest.raises(CostofError, match=told):
        plan_of("redis-tls", load=asked)


POOLS = {
    RequestedLoad("2000/s", pool="50"): "2,000 {several} a second over 50 standing connections",
    RequestedLoad("60/min", pool="1"): "1 {one} a second over 1 standing connection",
    RequestedLoad(
        pool="8", think_time="1.5s"
    ): "8 standing connections whose users think for 1,500 ms before each {one}",
}


@pytest.mark.parametrize("study", study_names())
@pytest.mark.parametrize("asked", POOLS)
def test_every_study_can_be_asked_over_standing_connections(study: str, asked: RequestedLoad) -> None:
    for profile in load_study(study).profiles:
        found = plan_of(study, profile, load=asked)
        assert Plan.model_validate_json(found.model_dump_json()) == found
        assert isinstance(found.load, Pool)
        one, several = found.load.operation
        assert found.load.in_words == POOLS[asked].format(one=one, several=several)
        (workload,) = found.study.workloads.values()
        assert workload.kind != "connect"
        assert {found.workers(WORKLOAD, arm) for arm in found.arms} == {found.load.connections}
        assert (workload.pace is None) != (workload.think_ms is None)
        assert [name for name, metric in found.study.metrics.items() if metric.headline] == [QUERY]
        assert found.protected


@pytest.mark.parametrize("study", study_names())
def test_every_study_whose_clients_connect_can_be_asked_at_a_load(study: str) -> None:
    if study not in ASKED:
        with pytest.raises(CostofError, match="open no new connections"):
            arriving(study)
        return
    for profile in load_study(study).profiles:
        asked = arriving(study, profile=profile)
        assert Plan.model_validate_json(asked.model_dump_json()) == asked
        assert list(asked.study.workloads) == list(asked.slices) == [WORKLOAD]
        assert {arm.levels[asked.study.main_factor] for arm in asked.protected}
        assert {name for name, metric in asked.study.metrics.items() if metric.headline} == {CONNECTION, QUERY}


def test_levels_change_what_a_pool_is_asked_as_they_change_the_study() -> None:
    pool = RequestedLoad("20/s", pool="8")
    asked = plan_of(ENCRYPTION, "default", load=pool)
    assert {arm.settings.workload[WORKLOAD]["isolation"] for arm in asked.arms} == {"serializable"}
    assert not {"terminals", "keying"} & asked.study.factors.keys(), "the load says how many there are"
    asked = plan_of(REPLICATION, "quick", "read_share=0,0.5", load=pool)
    assert {arm.settings.workload.get(WORKLOAD, {}).get("phase") for arm in asked.arms} == {None, "run"}


def of_commands(line: str, levels: dict[str, Any] | None = None) -> Study:
    factors = {"kind": {"levels": levels or {"a": {}, "b": {}}}}
    told = {"name": "mine", "title": "?", "service": "command", "control": {"kind": "a"}, "factors": factors}
    return Study.model_validate({**told, "workloads": {"w": {"command": {"run": line}}}})


def test_commands_are_told_a_rate_where_they_take_one() -> None:
    plan = resolve(of_commands("wrk2 -R {rate}"), Options(load=RequestedLoad("90/min")))
    ((_, words),) = plan.programs(plan.arms[0]).values()
    assert words["rate"] == 1.5
    assert plan.load is not None
    assert plan.load.in_words == "1.5 a second, as the commands are told"
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    own = {name: {"set": {"rate": rate}} for name, rate in (("a", "200"), ("b", "150"))}
    assert resolve(of_commands("echo {rate}", own), Options()).load is None, "a word of the user's own is no rate"


@pytest.mark.parametrize(
    ("line", "asked", "told"),
    [
        ("wrk2 -R {rate}", RequestedLoad(), "the commands of mine are told a rate; say it: --load"),
        ("wrk", RequestedLoad("300/s"), r"none of them can be told --load; .* write \{rate\} in its line"),
        ("wrk2 -R {rate}", RequestedLoad("300/s", pool="8"), "none of them can be told --pool"),
    ],
)
def test_commands_and_a_rate_go_together(line: str, asked: RequestedLoad, told: str) -> None:
    with pytest.raises(CostofError, match=told):
        resolve(of_commands(line), Options(load=asked))


@pytest.mark.parametrize(("study", "role"), [("http-tls-termination", "balancer"), ("mongodb-tls", "server")])
def test_cpu_time_is_of_the_role_that_serves(study: str, role: str) -> None:
    roles = [name for name in arriving(study).study.metrics if ".cpu." in name]
    assert roles == [f"{WORKLOAD}.cpu.client", f"{WORKLOAD}.cpu.{role}"]


def test_what_the_load_says_is_no_factor_any_more() -> None:
    """Requests a connection are said by --queries-per-connection; whoever waits long holds many connections."""
    asked = arriving("http-tls-termination", profile="default")
    assert not any("keep_alive" in arm.levels for arm in asked.arms)
    assert asked.study.workloads[WORKLOAD].workers == asked.study.connections > 1000


def test_one_query_is_the_first_and_none_is_none() -> None:
    one, none = arriving("redis-tls", queries=None), arriving("redis-tls", queries="0")
    assert {FIRST_QUERY, QUERY} & one.study.metrics.keys() == {FIRST_QUERY}
    assert not {FIRST_QUERY, QUERY} & none.study.metrics.keys()
    assert not none.study.workloads[WORKLOAD].first_operation


@pytest.mark.parametrize(("lasts_seconds", "seconds"), [(0.1, 2.0), (4.0, 8.0), (60.0, 30.0)])
def test_connections_come_for_a_multiple_of_how_long_one_lasts(lasts_seconds: float, seconds: float) -> None:
    asked = arriving("redis-tls", "5000/s")
    phases = {phase: phase_of(lasts_seconds * 1e3 / len(PHASES), 100) for phase in PHASES}
    answer = answer_of(Slice(100, 2.0, phases, {}, {}), WORKLOAD, "tls")
    assert choose_sizes(asked, [MeasuredSlice(SliceKey(WORKLOAD, "tls"), answer, 0.0)])[
        WORKLOAD
    ].seconds == pytest.approx(seconds)


def test_a_slice_holds_enough_connections_and_is_never_shortened() -> None:
    seconds = [arriving("redis-tls", rate).slices[WORKLOAD].seconds for rate in ("5000/s", "50/s", "1/s")]
    assert seconds == [2.0, 4.0, 10.0]
    asked = arriving("redis-tls")
    assert not asked.may_shorten_slices
    assert choose_sizes(asked, []) == asked.slices


def test_a_budget_that_nobody_gave_holds_the_rounds_of_an_answer() -> None:
    slow = arriving("postgres-tls", "40/s")
    seconds = sum(size.seconds for size in slow.slices.values())
    assert slow.budget_seconds is not None
    assert slow.budget_seconds >= FEWEST_ROUNDS * len(slow.arms) * seconds
    given = Options(profile="quick", load=RequestedLoad("40/s", "20"), budget="10s")
    assert resolve(load_study("postgres-tls"), given).budget_seconds == 10
