"""A load: how it is said, and what a study becomes that is asked at one."""

from __future__ import annotations

import pytest

from costof.errors import CostofError
from costof.results.samples import Turn
from costof.run.sizes import Taken, chosen_sizes
from costof.statistics.intervals import FEWEST_ROUNDS
from costof.studies import study_names
from costof.study.library import load_study
from costof.study.load import CONNECTION, FIRST_QUERY, PHASES, QUERY, WORKLOAD, Arrivals, LoadAsked, Pool
from costof.study.plan import Options, Plan, resolve
from costof.study.schema import Study
from tests.fake_run import Slice, answer_of, phase_of

#: Whose clients open connections; those of the others hold them.
ASKED = ["http-tls-termination", "mongodb-tls", "mysql-transport", "postgres-pooling", "postgres-tls", "redis-tls"]


def plan(study: str, rate: str = "300/s", queries: str | None = "20", profile: str = "quick") -> Plan:
    return planned(study, LoadAsked(rate, queries), profile)


def planned(study: str, load: LoadAsked, profile: str = "quick") -> Plan:
    return resolve(load_study(study), Options(profile=profile, seed=1, load=load))


@pytest.mark.parametrize(
    ("said", "per_second", "words"),
    [
        ("300/s", 300, "300 new connections a second, 20 queries each"),
        ("90/min", 1.5, "1.5 new connections a second, 20 queries each"),
        (" 3600 / h ", 1, "1 new connection a second, 20 queries each"),
        ("0.5/s", 0.5, "0.5 new connections a second, 20 queries each"),
    ],
)
def test_a_rate_is_said_with_its_time(said: str, per_second: float, words: str) -> None:
    load = plan("redis-tls", said).load
    assert isinstance(load, Arrivals)
    assert load.connections_per_second == per_second
    assert load.in_words == words


@pytest.mark.parametrize("said", ["", "300", "300/d", "0/s", "-1/s", "2000000/s", "many/s", "1e3/s", "inf/s"])
def test_what_is_no_rate_is_refused(said: str) -> None:
    with pytest.raises(CostofError, match="is no load; write 300/s"):
        plan("redis-tls", said)


@pytest.mark.parametrize("said", ["-1", "1.5", "x", "100001"])
def test_what_is_no_number_of_queries_is_refused(said: str) -> None:
    with pytest.raises(CostofError, match="--queries-per-connection must be a whole number"):
        plan("redis-tls", "1/s", said)


@pytest.mark.parametrize("said", ["", "20", "0ms", "2h", "3601s", "-1ms"])
def test_what_is_no_time_to_think_is_refused(said: str) -> None:
    with pytest.raises(CostofError, match="is no time to think"):
        planned("redis-tls", LoadAsked(pool="8", think_time=said))


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (LoadAsked(queries_per_connection="3"), "--queries-per-connection does not say how much is asked; add --load"),
        (LoadAsked(pool="8"), "--pool does not say how much is asked; add --load 2000/s, or --think-time"),
        (LoadAsked(think_time="20ms"), "--think-time does not say how much is asked; add --pool"),
        (LoadAsked("300/s", think_time="20ms"), "--think-time does not say how much is asked; add --pool"),
        (LoadAsked("300/s", pool="8", think_time="20ms"), "--think-time says of a load what --load says otherwise"),
        (LoadAsked("300/s", "3", "8"), "--queries-per-connection says of a load what --pool says otherwise"),
        (LoadAsked("300/s", pool="0"), "--pool must be a whole number"),
    ],
)
def test_what_does_not_go_together_is_refused(asked: LoadAsked, told: str) -> None:
    with pytest.raises(CostofError, match=told):
        planned("redis-tls", asked)


POOLS = {
    LoadAsked("2000/s", pool="50"): "2,000 {several} a second over 50 standing connections",
    LoadAsked("60/min", pool="1"): "1 {one} a second over 1 standing connection",
    LoadAsked(pool="8", think_time="1.5s"): "8 standing connections whose users think for 1,500 ms before each {one}",
}


@pytest.mark.parametrize("study", study_names())
@pytest.mark.parametrize("asked", POOLS)
def test_every_study_can_be_asked_over_standing_connections(study: str, asked: LoadAsked) -> None:
    for profile in load_study(study).profiles:
        found = planned(study, asked, profile)
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


def test_levels_change_what_a_pool_is_asked_as_they_change_the_study() -> None:
    asked = planned("mysql-column-encryption", LoadAsked("20/s", pool="8"), "default")
    assert {arm.asked.workload[WORKLOAD]["isolation"] for arm in asked.arms} == {"serializable"}
    assert not {"terminals", "keying"} & asked.study.factors.keys(), (
        "how many there are and what they think the load says"
    )
    asked = resolve(
        load_study("mongodb-chained-replication"),
        Options(profile="quick", settings=["read_share=0,0.5"], load=LoadAsked("20/s", pool="8")),
    )
    assert {arm.asked.workload.get(WORKLOAD, {}).get("phase") for arm in asked.arms} == {None, "run"}


COMMANDS = {
    "service": "command",
    "title": "What does it cost?",
    "control": {"kind": "a"},
    "factors": {"kind": {"levels": {"a": {}, "b": {}}}},
}


def of_commands(line: str) -> Study:
    return Study.model_validate({**COMMANDS, "name": "mine", "workloads": {"w": {"command": {"run": line}}}})


def test_commands_are_told_a_rate_where_they_take_one() -> None:
    told = resolve(of_commands("wrk2 -R {rate}"), Options(load=LoadAsked("90/min")))
    ((_, words),) = told.programs(told.arms[0]).values()
    assert words["rate"] == 1.5
    assert told.load is not None
    assert told.load.in_words == "1.5 a second, as the commands are told"
    assert Plan.model_validate_json(told.model_dump_json()) == told


def test_a_word_of_the_users_own_is_no_rate() -> None:
    levels = {name: {"set": {"rate": rate}} for name, rate in (("a", "200"), ("b", "150"))}
    own = COMMANDS | {"factors": {"kind": {"levels": levels}}, "workloads": {"w": {"command": {"run": "echo {rate}"}}}}
    assert resolve(Study.model_validate({**own, "name": "mine"}), Options()).load is None


@pytest.mark.parametrize(
    ("line", "asked", "told"),
    [
        ("wrk2 -R {rate}", LoadAsked(), "the commands of mine are told a rate; say it: --load"),
        ("wrk", LoadAsked("300/s"), r"none of them can be told --load; .* write \{rate\} in its line"),
        ("wrk2 -R {rate}", LoadAsked("300/s", pool="8"), "none of them can be told --pool"),
    ],
)
def test_commands_and_a_rate_go_together(line: str, asked: LoadAsked, told: str) -> None:
    with pytest.raises(CostofError, match=told):
        resolve(of_commands(line), Options(load=asked))


@pytest.mark.parametrize("study", study_names())
def test_every_study_whose_clients_connect_can_be_asked_at_a_load(study: str) -> None:
    if study not in ASKED:
        with pytest.raises(CostofError, match="open no new connections"):
            plan(study)
        return
    for profile in load_study(study).profiles:
        asked = plan(study, profile=profile)
        assert Plan.model_validate_json(asked.model_dump_json()) == asked
        assert list(asked.study.workloads) == list(asked.slices) == [WORKLOAD]
        assert {arm.levels[asked.study.main_factor] for arm in asked.protected}
        headline = {name for name, metric in asked.study.metrics.items() if metric.headline}
        assert headline == {CONNECTION, QUERY}


def test_cpu_time_is_of_the_role_that_serves() -> None:
    roles = {study: [name for name in plan(study).study.metrics if ".cpu." in name] for study in ASKED[:2]}
    assert roles["http-tls-termination"] == [f"{WORKLOAD}.cpu.client", f"{WORKLOAD}.cpu.balancer"]
    assert roles["mongodb-tls"] == [f"{WORKLOAD}.cpu.client", f"{WORKLOAD}.cpu.server"]


def test_what_the_load_says_is_no_factor_any_more() -> None:
    """Requests a connection are said by --queries-per-connection; whoever waits long holds many connections."""
    asked = plan("http-tls-termination", profile="default")
    assert not any("keep_alive" in arm.levels for arm in asked.arms)
    assert asked.study.workloads[WORKLOAD].workers == asked.study.connections > 1000


def test_one_query_is_the_first_and_none_is_none() -> None:
    one, none = plan("redis-tls", queries=None), plan("redis-tls", queries="0")
    assert {FIRST_QUERY, QUERY} & one.study.metrics.keys() == {FIRST_QUERY}
    assert not {FIRST_QUERY, QUERY} & none.study.metrics.keys()
    assert not none.study.workloads[WORKLOAD].first_operation


@pytest.mark.parametrize(("lasts_seconds", "seconds"), [(0.1, 2.0), (4.0, 8.0), (60.0, 30.0)])
def test_connections_come_for_a_multiple_of_how_long_one_lasts(lasts_seconds: float, seconds: float) -> None:
    asked = plan("redis-tls", "5000/s")
    phases = {phase: phase_of(lasts_seconds * 1e3 / len(PHASES), 100) for phase in PHASES}
    answer = answer_of(Slice(100, 2.0, phases, {}, {}), WORKLOAD, "tls")
    assert chosen_sizes(asked, [Taken(Turn(WORKLOAD, "tls"), answer, 0.0)])[WORKLOAD].seconds == pytest.approx(seconds)


def test_a_slice_holds_enough_connections_and_is_never_shortened() -> None:
    seconds = [plan("redis-tls", rate).slices[WORKLOAD].seconds for rate in ("5000/s", "50/s", "1/s")]
    assert seconds == [2.0, 4.0, 10.0]
    asked = plan("redis-tls")
    assert not asked.may_shorten_slices
    assert chosen_sizes(asked, []) == asked.slices


def test_a_budget_that_nobody_gave_holds_the_rounds_of_an_answer() -> None:
    slow = plan("postgres-tls", "40/s")
    seconds = sum(size.seconds for size in slow.slices.values())
    assert slow.budget_seconds is not None
    assert slow.budget_seconds >= FEWEST_ROUNDS * len(slow.arms) * seconds
    given = Options(profile="quick", load=LoadAsked("40/s", "20"), budget="10s")
    assert resolve(load_study("postgres-tls"), given).budget_seconds == 10
