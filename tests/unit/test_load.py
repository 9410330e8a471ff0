"""A load: how it is said, and what a study becomes that is asked at one."""

from __future__ import annotations

import pytest

from costof.errors import CostofError
from costof.ledger.samples import Turn
from costof.run.sizes import Taken, chosen_sizes
from costof.study.library import load_study, study_names
from costof.study.load import CONNECTION, FIRST_QUERY, PHASES, QUERY, WORKLOAD, in_words, parse_load
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Slice, answer_of, phase_of

#: Whose clients open connections.
ASKED = ["http-tls-termination", "mongodb-tls", "mysql-transport", "postgres-pooling", "postgres-tls", "redis-tls"]


def plan(study: str, rate: str = "300/s", queries: str | None = "20", profile: str = "quick") -> Plan:
    options = Options(profile=profile, seed=1, load=rate, queries_per_connection=queries)
    return resolve(load_study(study), options)


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
    load = parse_load(said, "20")
    assert load.connections_per_second == per_second
    assert in_words(load) == words


@pytest.mark.parametrize("said", ["", "300", "300/d", "0/s", "-1/s", "2000000/s", "many/s", "1e3/s", "inf/s"])
def test_what_is_no_rate_is_refused(said: str) -> None:
    with pytest.raises(CostofError, match="is no load; write new connections as 300/s"):
        parse_load(said, None)


@pytest.mark.parametrize("said", ["-1", "1.5", "x", "100001"])
def test_what_is_no_number_of_queries_is_refused(said: str) -> None:
    with pytest.raises(CostofError, match="--queries-per-connection must be a whole number"):
        parse_load("1/s", said)


def test_queries_alone_are_no_load() -> None:
    with pytest.raises(CostofError, match="goes with --load"):
        resolve(load_study("redis-tls"), Options(queries_per_connection="3"))


@pytest.mark.parametrize("study", study_names())
def test_every_study_whose_clients_connect_can_be_asked_at_a_load(study: str) -> None:
    if study not in ASKED:
        with pytest.raises(CostofError, match="opens no connections"):
            plan(study)
        return
    for profile in load_study(study).profiles:
        asked = plan(study, profile=profile)
        assert Plan.model_validate_json(asked.model_dump_json()) == asked
        assert list(asked.study.workloads) == list(asked.slices) == [WORKLOAD]
        assert {arm.levels[asked.study.main_factor] for arm in asked.protected}
        headline = {name for name, metric in asked.study.metrics.items() if metric.headline}
        assert headline == {CONNECTION, QUERY}


def test_what_the_load_says_is_no_factor_any_more() -> None:
    """Requests a connection are said by --queries-per-connection; whoever waits long holds many connections."""
    asked = plan("http-tls-termination", profile="default")
    assert {arm.levels["keep_alive"] for arm in asked.arms} == {"1"}
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
