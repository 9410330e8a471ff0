"""Reports of runs at one load or several, and of sweeps (searches for the capacity within a latency limit)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from costof.report import analyse, render_html, render_markdown
from costof.report.key_figures import CORES
from costof.report.result import Result
from costof.report.sections.load import SECTION
from costof.report.verdict_sentence import verdict_sentence
from costof.results.index import Index
from costof.results.limits import State, outcomes
from costof.statistics.estimate import Verdict
from costof.study.load import CONNECTION, FIRST_QUERY, QUERY, RequestedLoad
from costof.study.options import Limit
from costof.study.sweep import CAPACITY
from tests.fake_run import STARTED, fake_result
from tests.report.results import NOISE, Golden, at_load, printed, sentence_texts, spaced
from tests.support.small_plans import plan_of
from tests.support.sweeps import fake_sweep
from tests.truths.at_load import Growing, Saturated


@pytest.mark.parametrize(
    ("load", "start"),
    [
        (RequestedLoad("400/s", pool="50"), "at 400 queries a second over 50 open connections, 2"),
        (
            RequestedLoad(pool="50", think_time="20ms"),
            "at 50 open connections whose users think for 20 ms before each query",
        ),
    ],
)
def test_report_on_a_load_with_pooled_connections_states_their_number_and_think_time(
    load: RequestedLoad, start: str
) -> None:
    (answer,) = [sentence.text for sentence in at_load(load=load).answer if start in sentence.text]
    assert "changes a query by less than 5" in answer
    assert " cores busy (control: " in answer
    assert "a new connection" not in answer
    # With a think time, the rate is measured for each arm. Otherwise the load determines it.
    assert ("queries a second |" in render_markdown(at_load(load=load))) == (load.think_time is not None)


def test_first_query_is_a_key_figure_if_each_connection_sends_only_one_query() -> None:
    names = [figure.name for figure in at_load(load=RequestedLoad("300/s", "1")).summary.figures]
    assert names == [CONNECTION, FIRST_QUERY, CORES]


def test_verdict_on_an_overloaded_arm_states_how_much_load_it_served() -> None:
    text = spaced(at_load(0.5).summary.verdict)
    assert "cannot carry 300 new connections a second" in text
    assert "Of the 300 connections a second that arrived, 150 were served and the others waited." in text
    assert "try a load of 120 a second" in text


def test_arm_with_fewer_arriving_clients_than_planned_is_not_called_overloaded() -> None:
    assert not any("cannot carry" in sentence.text for sentence in at_load(come=0.9).answer)


def test_overloaded_arm_has_no_costs_and_limits_on_its_costs_are_undecided() -> None:
    result = at_load(0.5)
    assert not [each for each in result.effects if each.metric in (CONNECTION, FIRST_QUERY, QUERY)]
    assert {(each.metric, each.arm) for each in result.missing} >= {(CONNECTION, "tls"), (QUERY, "tls")}
    limits = [Limit(metric=CONNECTION, worst=500.0, relative=False, better="lower", text="+500ms")]
    (outcome,) = outcomes(Index(result), limits)
    assert (outcome.state, outcome.reason) == (
        State.OPEN,
        "TLS (modern suite, rsa-2048) cannot carry this load, so its times mean nothing",
    )


def test_load_that_needs_the_whole_machine_is_reported_as_too_high() -> None:
    result = at_load(load=RequestedLoad("490/s", "20"))
    assert spaced(result.summary.verdict) == (
        "TLS (modern suite, rsa-2048) cannot carry 490 new connections a second, 20 queries each, 2 ms away. For this "
        "load the server needs 0.91 cores, the client 0.54 and the lab's simulated links 0.49, together 97 % of this "
        "machine's 2 cores. The queue grows as long as the load lasts, so the measured times have no meaning: try a "
        "load of 250 a second, or measure from another machine."
    )
    assert [each.name for each in result.summary.figures] == [CORES]
    assert {each.label for each in result.sections.checks if not each.passed} == {"load not carried"}


def test_verdict_of_a_run_on_a_busy_machine_begins_with_a_warning() -> None:
    result = at_load(load=RequestedLoad("430/s", "20"))
    warning, advice, costs = spaced(result.summary.verdict).split(". ", 2)
    assert f"{warning}. {advice}" == (
        "With TLS (modern suite, rsa-2048), this machine was 86 % busy, so the times are mostly waits for a CPU and "
        "hold for no other machine. Try a load of 250 a second, or measure from another machine"
    )
    assert costs.startswith("TLS (modern suite, rsa-2048) adds ")
    assert "need 1.71 of this machine's 2 cores at this load" in spaced(result.summary.room)
    assert at_load(0.5).summary.room == "", "an arm that cannot carry the load has no room"
    answer = spaced(printed(result)).split()
    assert answer.index("busy,") < answer.index("adds")


def test_warning_about_the_arm_that_made_the_machine_busiest_comes_first() -> None:
    result = at_load()
    data = result.sections.load
    busy = [each.model_copy(update={"machine_busy": 0.93 if each.arm == "tls" else 0.82}) for each in data.carried]
    answer = SECTION.answer(Index(result), data.model_copy(update={"carried": busy}))
    warnings = [spaced(text) for text in sentence_texts(answer, "leading_warning")]
    assert ["93 %" in text for text in warnings] == [True, False]


def test_verdict_on_the_additional_cores_of_a_server_equals_the_verdict_on_its_cpu_time() -> None:
    result = at_load()
    effects = [each.model_copy(update={"verdict": Verdict.UNRESOLVED}) for each in result.effects]
    changed = result.model_copy(update={"effects": effects})
    (cores,) = (each for each in SECTION.key_figures(Index(changed), result.sections.load) if each.name == CORES)
    assert cores.verdict is Verdict.UNRESOLVED
    assert "may change the cores of the server by up to 0.38 (unresolved)" in verdict_sentence([cores])


@cache
def over_loads(most: float, truth: type[Saturated | Growing] = Saturated) -> Result:
    """Return the result of a run at 30, 100 and 300 operations a second. TLS carries at most `most`."""
    load = RequestedLoad("30/s,100/s,300/s", pool="50")
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=load)
    return fake_result(plan, truth(most), f"{STARTED[:10]}-postgres-tls-loads", noise=NOISE)


def test_report_of_several_loads_names_the_highest_load_that_every_variant_can_serve(golden: Golden) -> None:
    golden("latency_over_load.txt", printed(over_loads(200.0), 80, full=False))


def test_load_at_which_the_queue_grows_counts_as_too_high() -> None:
    verdict = spaced(over_loads(200.0, Growing).summary.verdict)
    assert verdict.endswith("TLS 1.3 (rsa-2048) cannot carry 300 queries a second (its queue grew).")


def test_verdict_names_the_highest_load_of_the_run_if_every_variant_can_serve_it() -> None:
    result = over_loads(5000.0)
    assert spaced(result.summary.verdict).endswith("at 300 queries a second, the highest load of this run.")
    assert [figure.label for figure in result.summary.figures] == ["a query, 30/s", "a query, 100/s", "a query, 300/s"]
    page = render_html(result)
    assert all(f"{percentile} of a query, ms" in page for percentile in ("p50", "p95", "p99"))


def test_verdict_recommends_lower_loads_if_even_the_lowest_is_too_high() -> None:
    start = "At least one variant cannot carry 30 queries a second, the lowest load: list lower"
    assert over_loads(20.0).summary.verdict.startswith(start)


def test_report_of_a_range_of_loads_has_the_capacity_with_and_without_protection(tmp_path: Path) -> None:
    result = analyse(fake_sweep(tmp_path / "run", {"plain": 500.0, "tls": 400.0}))
    (effect,) = [each for each in result.effects if each.metric == CAPACITY]
    assert (effect.control_value, effect.value) == (pytest.approx(500, rel=0.02), pytest.approx(400, rel=0.02))
    assert effect.ratio is not None
    assert effect.ratio.low < 0.8 < effect.ratio.high
    assert effect.verdict is Verdict.COSTS
    verdict = spaced(result.summary.verdict)
    assert "connections a second keep the p99 of a query within 10 ms, instead of 499.8" in verdict
    assert verdict.endswith(" % fewer.")


@pytest.mark.parametrize(
    ("plain", "advice"),
    [
        (5000.0, "Plain keeps the p99 of a query within 10 ms even at 1,000 connections a second: raise the upper end"),
        (20.0, "Plain does not keep the p99 of a query within 10 ms even at 100 connections a second: lower the lower"),
    ],
)
def test_capacity_outside_of_the_range_of_loads_is_replaced_by_advice(
    tmp_path: Path, plain: float, advice: str
) -> None:
    result = analyse(fake_sweep(tmp_path / "run", {"plain": plain, "tls": 400.0}))
    assert not [each for each in result.effects if each.metric == CAPACITY]
    assert advice in spaced(result.summary.verdict)
