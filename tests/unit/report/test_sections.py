"""Sections of the report with computed figures: saturated workers, checks, predictions, log volume, and memory."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from costof.errors import CostofError
from costof.lab.round_trips import PROBES
from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.report.sections.checks import SECTION as CHECKS
from costof.report.sections.cost_model.model import time_at
from costof.report.sections.predicted import PredictedEffect
from costof.report.sections.saturation import Loop
from costof.report.sections.tails.curve import Curve, CurvePoint
from costof.report.sections.tails.curve import sentence as curve_sentence
from costof.results.core import build_core
from costof.results.disturbances import Disturbances
from costof.results.index import Index
from costof.results.ledger import MemoryRecord
from costof.results.run import read_run
from costof.statistics.intervals import mean_over_rounds
from costof.study.arms import PlannedArm
from costof.study.load import CONNECTION, QUERY, RequestedLoad
from costof.study.plan import Plan, TargetOptions
from tests.fake_run import Slice, Truth, fake_result, fake_run
from tests.noise import Chance, Noise
from tests.report.results import (
    FRESH,
    HTTP,
    POSTGRES_AUDIT,
    TRANSPORT,
    effect_of,
    mongodb,
    printed,
    sentence_texts,
    spaced,
)
from tests.support.memory_steps import CONNECTIONS, memory_steps
from tests.support.small_plans import plan_of
from tests.truths.at_load import CONNECT, LATER, AtLoad, FarAway
from tests.truths.audit_logging import AuditTruth
from tests.truths.http_tls_termination import IN_FLIGHT, HttpTruth
from tests.truths.mysql_transport import TransportTruth

RATE, TIME = "requests a second", "a request"
LOOPS = plan_of(HTTP, "quick", "keep_alive=1")
ARMS = ("none", "balancer")


class Waiting(HttpTruth):
    """Simulated times in which no program uses up its CPU limit, because requests wait for the origin."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        return replace(super().slice(plan, workload, arm, chance), throttled_seconds={})


class Idle(Waiting):
    """Simulated times of workers that pause after each request for as long as the request took."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        record = super().slice(plan, workload, arm, chance)
        return replace(record, seconds=2 * record.seconds)


def loops(result: Result) -> dict[str, Loop]:
    saturated = result.sections.saturation or []
    assert "burst" not in {each.workload for each in saturated}, "a burst is not a loop"
    return {each.arm: each for each in saturated if each.workload == "request"}


def findings(result: Result) -> str:
    return " ".join(each.text for each in result.answer if each.kind in ("answer", "detail"))


def test_report_states_only_the_rate_of_requests_if_all_workers_are_always_busy() -> None:
    truth = HttpTruth()
    result = fake_result(LOOPS, truth)
    for name in ARMS:
        loop = loops(result)[name]
        assert loop.in_flight == pytest.approx(IN_FLIGHT, rel=0.001)
        assert loop.per_second.low <= truth.true_cost(LOOPS.arm(name)).per_second <= loop.per_second.high
        assert loop.limit == "the CPU quota of the balancer"
    text = findings(result)
    assert f"The CPU quota of the balancer limits '{RATE}'." in text
    assert f"lowers '{RATE}' by" in text
    assert f"to '{TIME}'" not in text
    assert text.count("Little's law") == 1


def test_no_capacity_is_stated_if_workers_wait_for_the_origin_server() -> None:
    result = fake_result(LOOPS, Waiting())
    assert {loops(result)[name].limit for name in ARMS} == {None}
    assert not [words for words in ("capacity", f"to '{TIME}'") if words in findings(result)]


def test_report_states_both_rate_and_time_of_requests_if_workers_pause() -> None:
    result = fake_result(LOOPS, Idle())
    assert loops(result) == {}
    assert f"lowers '{RATE}' by" in findings(result)
    assert f"to '{TIME}'" in findings(result)


def plan(*settings: str, target: str | None = "mysql://app@db/", load: RequestedLoad = FRESH) -> Plan:
    return plan_of(TRANSPORT, "quick", "transport=plain,tls", *settings, target=target, load=load)


@cache
def result_of(setting: str, truth: Truth, load: RequestedLoad = FRESH) -> Result:
    return fake_result(plan(setting, load=load), truth, noise=Noise(0.01))


FAR_AWAY = FarAway()


def predicted(result: Result, metric: str) -> PredictedEffect:
    (effect,) = (e for e in result.sections.predicted.effects if (e.metric, e.round_trip_ms) == (metric, 2.0))
    return effect


@pytest.mark.parametrize(
    ("server_cpu", "loopback", "programs"),
    [
        ("cat seconds", True, "other programs"),
        (None, True, "other programs (including your own servers)"),
        ("cat seconds", False, "other programs (including your own servers, if they run on it)"),
    ],
)
def test_busy_machine_warning_mentions_the_users_servers_if_their_cpu_time_is_unknown(
    tmp_path: Path, server_cpu: str | None, loopback: bool, programs: str
) -> None:
    own = plan().model_copy(update={"target_options": TargetOptions(server_cpu=server_cpu)})
    run = read_run(fake_run(tmp_path / "run", own, AtLoad()))
    run.disturbances = Disturbances(frozenset(), {0: 0.13})
    if loopback:
        here = {"server": "127.0.0.1:3306"}
        run.ready = [
            each.model_copy(
                update={
                    "ready": each.ready.model_copy(
                        update={"arms": [arm.model_copy(update=here) for arm in each.ready.arms]}
                    )
                }
            )
            for each in run.ready
        ]
    (check,) = (each for each in CHECKS.compute(run, build_core(run, "run"), None) or [] if "machine" in each.label)
    assert spaced(check.words).startswith(f"✗ machine busy: {programs} used 13 % of the machine's CPU time")


def test_costs_at_a_distance_from_a_users_server_are_predicted_and_not_simulated() -> None:
    for distance in ("2", "2ms", "2.0"):
        assert plan(f"distance={distance}").predicted_ms == [2.0]
    assert {arm.levels["distance"] for arm in plan("distance=2").arms} == {"as served"}
    assert plan("distance=lan,us-us").predicted_ms == [0.0, 44.648]
    assert plan("distance=2", target=None).predicted_ms == []
    assert plan_of(HTTP, "quick", "distance=2ms, 0.5", target="https://h/").predicted_ms == [2.0, 0.5]
    with pytest.raises(CostofError, match=r"'far'.*--distance|--distance.*'far'"):
        plan_of(HTTP, "quick", "distance=far", target="https://h/")


def test_latency_predicted_for_a_distance_equals_the_latency_measured_there() -> None:
    measured = fake_result(plan("distance=2", target=None), AtLoad(), noise=Noise(0.01))
    for metric, (control, arm) in ((CONNECTION, CONNECT), (QUERY, LATER)):
        effect, there = predicted(result_of("distance=2", AtLoad()), metric), effect_of(measured, metric, "tls")
        assert (effect.control_round_trips, effect.round_trips) == (control[1], arm[1])
        truth = arm[0] + 2 * arm[1] - control[0] - 2 * control[1]
        assert effect.difference.value == pytest.approx(truth, rel=0.02, abs=0.001)
        assert effect.difference.value == pytest.approx(there.difference.value, rel=0.02, abs=0.001)
        assert effect.ratio is not None
        assert there.ratio is not None
        assert effect.ratio.value == pytest.approx(there.ratio.value, rel=0.01)


def test_prediction_does_not_add_the_round_trip_time_that_was_already_measured() -> None:
    result = result_of("distance=2", FAR_AWAY)
    assert result.sections.predicted.here_ms == pytest.approx(0.5, rel=0.02)
    # TLS takes one more round trip: 2 ms at the predicted distance, of which 0.5 ms were measured already.
    assert predicted(result, CONNECTION).difference.value == pytest.approx(1.4 + 1.5, rel=0.02)


def test_reports_name_the_measurements_that_a_prediction_is_based_on() -> None:
    result = result_of("distance=2", FAR_AWAY)
    (text,) = (text for text in sentence_texts(result.answer, "answer") if ", 2 ms away (predicted " in text)
    assert text.startswith("TLS (modern suite, as served) ")
    assert " adds 2.894 ms (95 % interval 2.883 to 2.906, +90.4 %) to a new connection and " in text
    words = "2 ms away (predicted from times measured 0.5 ms away and round trips counted on the wire)."
    for rendered in (printed(result), render_markdown(result)):
        assert words in " ".join(spaced(rendered).split())
    assert "predicted for a round trip of 2 ms" in spaced(render_markdown(result))


def test_short_answer_has_the_times_at_the_distance_that_the_user_gave() -> None:
    """Regression: the short answer had the times at the measured distance, and did not say so."""
    summary = result_of("distance=2", FAR_AWAY).summary
    assert "+90.4 %) to a new connection 2 ms away" in spaced(summary.verdict)
    times = [figure for figure in summary.figures if figure.unit == "ms"]
    assert times
    assert all(figure.predicted for figure in times)
    assert all(" 2 ms away, computed from a run " in spaced(figure.whole_label) for figure in times)


def test_report_says_that_a_predicted_load_needs_more_open_connections_than_were_measured() -> None:
    answer = sentence_texts(result_of("distance=us-eu", AtLoad()).answer, "answer")
    (text,) = (text for text in answer if ", 170 ms away (predicted " in text)
    # 300 connections a second are each open for 3 + 20 round trips of 170 ms.
    assert "clients hold about 1,1" in text
    assert "connections at once. This run measured at most 96." in text


def test_report_of_a_run_without_a_load_predicts_only_operations_that_do_not_queue() -> None:
    effects = result_of("distance=us-us", TransportTruth(), RequestedLoad()).sections.predicted.effects
    names = {each.metric for each in effects}
    assert names >= {"wire.connect", "wire.query_1"}
    assert not {name for name in names if "32" in name or "per_second" in name}


OWN_MS, NEAR_MS, FAR_MS = 0.3, 0.05, 45.0
#: Standard deviation of the mean of a round, and of a probe of the link.
ROUND_DEVIATION, PROBE_DEVIATION = 0.02, 0.06


def coverage(rounds: int, round_trips: float, *, probed: bool = True) -> float:
    """Return the share of simulated runs whose predicted interval contains the true time of an operation far away.

    If `probed` is false, the interval ignores the uncertainty of the link.
    """
    chance, runs, held = np.random.default_rng(rounds), 1500, 0
    for _ in range(runs):
        time = mean_over_rounds(list(chance.normal(OWN_MS + round_trips * NEAR_MS, ROUND_DEVIATION, rounds)))
        near, far = (mean_over_rounds(list(chance.normal(ms, PROBE_DEVIATION, PROBES))) for ms in (NEAR_MS, FAR_MS))
        prediction = time_at(time, round_trips, near, far)
        half = (prediction if probed else time).half()
        held += abs(prediction.value - OWN_MS - round_trips * FAR_MS) <= half
    return held / runs


@pytest.mark.parametrize(
    ("rounds", "round_trips"),
    [(5, 1), pytest.param(12, 4, marks=pytest.mark.slow), pytest.param(40, 4, marks=pytest.mark.slow)],
)
def test_predicted_interval_contains_the_truth_in_95_percent_of_runs(rounds: int, round_trips: int) -> None:
    assert coverage(rounds, round_trips) == pytest.approx(0.95, abs=0.02)


def test_prediction_interval_that_ignores_the_uncertainty_of_the_link_is_too_narrow() -> None:
    assert coverage(12, 4, probed=False) < 0.5


def test_prediction_for_the_measured_distance_is_the_measurement() -> None:
    time, link = mean_over_rounds([0.3, 0.31, 0.32]), mean_over_rounds([0.04, 0.06])
    assert time_at(time, 4, link, link) == time


def test_log_volume_per_day_assumes_the_rate_of_the_load_or_1000_operations_a_second() -> None:
    usual = fake_result(plan_of(POSTGRES_AUDIT), AuditTruth(), "run")
    texts = [text for text in sentence_texts(usual.answer, "answer") if "to the log" in text]
    what = "An audit of all statements adds 172 B to the log for each operation (point selects on 1 connection)"
    assert texts == [f"{what}: 14.9 GB a day at 1,000 operations a second."]
    # 100 GB / (172 B * 1,000/s) = 6.7 days.
    assert "| point selects on 1 connection | an audit of all statements | 172 B | 67 d | 7 d | 16 h |" in (
        render_markdown(usual)
    )
    plan = plan_of(POSTGRES_AUDIT, "quick", "audit=off,all", load=RequestedLoad("250/s", pool="8"))
    volume = fake_result(plan, Truth(), "run").sections.log_volume
    assert volume is not None
    assert volume.per_second == [250.0]


def test_report_summary_has_the_added_memory_of_a_connection_and_of_all_clients(tmp_path: Path) -> None:
    plan = plan_of("redis-tls", "quick", "transport=plain,tls").model_copy(update={"memory": CONNECTIONS})
    ledger = fake_run(tmp_path / "run", plan, Truth())
    refused = MemoryRecord(arm="tls", missing="the server closed the connection")
    for record in [*memory_steps("plain", 4_000), *memory_steps("tls", 20_000, count=8), refused]:
        ledger.append(record)
    result = analyse(ledger)
    (sentence,) = (text for text in sentence_texts(result.answer, "answer") if "memory" in text)
    tls = "TLS 1.3 (rsa-2048)"
    of_a_connection = f"{tls} adds 16.0 kB [16.0, 16.0] to the servers' memory for each connection"
    assert sentence == f"{of_a_connection}: 160 MB for 10,000 clients."
    assert result.sections.cost_model.memory_bytes["tls"].value == 16_000
    assert "only 700 of 1,000 connections were measured. Reason: the server closed the connection." in render_markdown(
        result
    )


@pytest.mark.parametrize(
    ("resolved", "expected"),
    [
        (9, "adds about 1.0 ms to 'connect' in the application, whether an operation is fast or slow"),
        (6, "in the application from p10 to p90. At 3 of the 9 percentiles in this range, the effect is unresolved."),
        (4, "may add about 1.0 ms to 'connect' in the application, but the effect is resolved at only 4"),
    ],
)
def test_sentence_on_percentiles_says_at_how_many_of_them_the_effect_is_resolved(resolved: int, expected: str) -> None:
    points = [
        CurvePoint(
            percentile=10.0 * number,
            control_value=5.0,
            value=6.0,
            difference=1.0,
            low=0.5 if number <= resolved else -0.5,
            high=1.5 if number <= resolved else 2.5,
        )
        for number in range(1, 10)
    ]
    assert expected in spaced(curve_sentence(Index(mongodb()), Curve(metric="app.connect", arm="tls", points=points)))
