"""Sections whose figures are worked out: closed loops, distances that are predicted, and how sure a prediction is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from costof.errors import CostofError
from costof.lab.round_trips import PROBES
from costof.report import render_markdown
from costof.report.result import Result
from costof.report.sections.cost_model.model import taken_at
from costof.report.sections.predicted import PredictedEffect
from costof.report.sections.saturation import Loop
from costof.statistics.intervals import mean_over_rounds
from costof.study.arms import PlannedArm
from costof.study.load import CONNECTION, QUERY, RequestedLoad
from costof.study.plan import Plan
from tests.fake_run import Slice, Truth, fake_result, phase_of
from tests.noise import Chance, Noise
from tests.report.results import FRESH, HTTP, TRANSPORT, effect_of, printed, sentence_texts, spaced
from tests.support.small_plans import plan_of
from tests.truths.at_load import CONNECT, LATER, AtLoad
from tests.truths.http_tls_termination import IN_FLIGHT, HttpTruth
from tests.truths.mysql_transport import TransportTruth

RATE, TIME = "requests a second", "a request"
LOOPS = plan_of(HTTP, "quick", "keep_alive=1")
ARMS = ("none", "balancer")


class Waiting(HttpTruth):
    """No role's CPU share is used up: requests wait for the origin."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        return replace(super().slice(plan, workload, arm, chance), throttled_seconds={})


class Idle(Waiting):
    """Workers rest between two requests, as long as these take."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        found = super().slice(plan, workload, arm, chance)
        return replace(found, seconds=2 * found.seconds)


def loops(result: Result) -> dict[str, Loop]:
    found = result.sections.saturation or []
    assert "burst" not in {each.workload for each in found}, "a burst is no loop"
    return {each.arm: each for each in found if each.workload == "request"}


def findings(result: Result) -> str:
    return " ".join(each.text for each in result.answer if each.kind in ("answer", "detail"))


def test_a_saturated_loop_has_its_capacity_and_its_limit_and_its_time_is_no_second_finding() -> None:
    truth = HttpTruth()
    result = fake_result(LOOPS, truth)
    for name in ARMS:
        loop = loops(result)[name]
        assert loop.in_flight == pytest.approx(IN_FLIGHT, rel=0.001)
        assert loop.per_second.low <= truth.true_cost(LOOPS.arm(name)).per_second <= loop.per_second.high
        assert loop.limit == "the CPU share of balancer is used up"
    said = findings(result)
    assert f"The loop of '{RATE}' is saturated: its 200 workers are never idle" in said
    assert f"of '{RATE}'" in said
    assert f"to '{TIME}'" not in said
    assert said.count("Little's law") == 1


def test_a_loop_that_waits_is_not_saturated_and_still_one_finding() -> None:
    result = fake_result(LOOPS, Waiting())
    assert {loops(result)[name].limit for name in ARMS} == {None}
    assert not [words for words in ("saturated", f"to '{TIME}'") if words in findings(result)]


def test_where_workers_rest_rate_and_time_are_two_findings() -> None:
    result = fake_result(LOOPS, Idle())
    assert loops(result) == {}
    assert f"of '{RATE}'" in findings(result)
    assert f"to '{TIME}'" in findings(result)


def plan(*settings: str, target: str | None = "mysql://app@db/", load: RequestedLoad = FRESH) -> Plan:
    return plan_of(TRANSPORT, "quick", "transport=plain,tls", *settings, target=target, load=load)


@cache
def result_of(asked: str, truth: Truth, load: RequestedLoad = FRESH) -> Result:
    return fake_result(plan(asked, load=load), truth, noise=Noise(0.01))


class FarAway(AtLoad):
    """Whose handshakes take half a millisecond, which connections hold too."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        found = super().slice(plan, workload, arm, chance)
        return replace(found, phases={**found.phases, "tcp": phase_of(0.5, 100, 1, 10, 10, spread=0.0)})


FAR_AWAY = FarAway()


def predicted(result: Result, metric: str) -> PredictedEffect:
    (found,) = (e for e in result.sections.predicted.effects if (e.metric, e.round_trip_ms) == (metric, 2.0))
    return found


@pytest.mark.parametrize("said", ["2", "2ms", "2.0"])
def test_a_target_is_measured_as_it_is_and_the_distance_is_predicted(said: str) -> None:
    asked = plan(f"distance={said}")
    assert asked.predicted_ms == [2.0]
    assert {arm.levels["distance"] for arm in asked.arms} == {"as served"}
    assert plan("distance=lan,us-us").predicted_ms == [0.0, 44.648]
    assert plan("distance=2", target=None).predicted_ms == []
    assert plan_of(HTTP, "quick", "distance=2ms, 0.5", target="https://h/").predicted_ms == [2.0, 0.5]
    with pytest.raises(CostofError, match=r"'far'.*--distance|--distance.*'far'"):
        plan_of(HTTP, "quick", "distance=far", target="https://h/")


def test_what_is_predicted_at_a_load_is_what_a_lab_there_measures() -> None:
    measured = fake_result(plan("distance=2", target=None), AtLoad(), noise=Noise(0.01))
    for metric, (control, arm) in ((CONNECTION, CONNECT), (QUERY, LATER)):
        found, there = predicted(result_of("distance=2", AtLoad()), metric), effect_of(measured, metric, "tls")
        assert (found.control_round_trips, found.round_trips) == (control[1], arm[1])
        truth = arm[0] + 2 * arm[1] - control[0] - 2 * control[1]
        assert found.difference.value == pytest.approx(truth, rel=0.02, abs=0.001)
        assert found.difference.value == pytest.approx(there.difference.value, rel=0.02, abs=0.001)
        assert found.ratio is not None
        assert there.ratio is not None
        assert found.ratio.value == pytest.approx(there.ratio.value, rel=0.01)


def test_the_way_of_the_run_itself_is_not_counted_twice() -> None:
    result = result_of("distance=2", FAR_AWAY)
    assert result.sections.predicted.here_ms == pytest.approx(0.5, rel=0.02)
    # A round trip more, of 2 ms, of which half a millisecond was there already.
    assert predicted(result, CONNECTION).difference.value == pytest.approx(1.4 + 1.5, rel=0.02)


def test_terminal_and_page_say_that_it_is_predicted_and_from_what() -> None:
    result = result_of("distance=2", FAR_AWAY)
    (said,) = (text for text in sentence_texts(result.answer, "answer") if text.startswith("Predicted for 2 ms away, "))
    assert "from times measured 0.5 ms away and round trips counted on the wire: TLS, modern suite, as served " in said
    assert " adds 2.894 ms (95 % interval 2.883 to 2.906, +90.4 %) to a new connection and " in said
    words = "Predicted for 2 ms away, from times measured 0.5 ms away and round trips counted"
    for rendered in (printed(result), render_markdown(result)):
        assert words in " ".join(spaced(rendered).split())
    assert "predicted for 2 ms away" in spaced(render_markdown(result))


def test_connections_that_would_be_more_than_were_measured_are_said() -> None:
    (said,) = (
        text
        for text in sentence_texts(result_of("distance=us-eu", AtLoad()).answer, "answer")
        if text.startswith("Predicted for 170.126 ms away, ")
    )
    # 300 a second, of 3 + 20 round trips each.
    assert "Clients would hold about 1,1" in said
    assert "connections at once there, and of more than 96 this run says nothing." in said


def test_without_a_load_only_operations_that_do_not_queue_are_predicted() -> None:
    found = result_of("distance=us-us", TransportTruth(), RequestedLoad()).sections.predicted.effects
    names = {each.metric for each in found}
    assert names >= {"wire.connect", "wire.query_1"}
    assert not {name for name in names if "32" in name or "per_second" in name}


def test_a_run_that_is_asked_for_no_distance_predicts_nothing() -> None:
    assert fake_result(plan(), AtLoad()).sections.predicted is None


OWN_MS, NEAR_MS, FAR_MS = 0.3, 0.05, 45.0
#: Standard deviations: of a round's mean, and of a probe.
OF_ROUND, OF_PROBE = 0.02, 0.06


def coverage(rounds: int, round_trips: float, *, probed: bool = True) -> float:
    """The share of simulated runs whose interval of an operation far away holds what it takes; without `probed` the
    link's uncertainty is left out."""
    chance, runs, held = np.random.default_rng(rounds), 1500, 0
    for _ in range(runs):
        taken = mean_over_rounds(list(chance.normal(OWN_MS + round_trips * NEAR_MS, OF_ROUND, rounds)))
        near, far = (mean_over_rounds(list(chance.normal(ms, OF_PROBE, PROBES))) for ms in (NEAR_MS, FAR_MS))
        found = taken_at(taken, round_trips, near, far)
        half = (found if probed else taken).half()
        held += abs(found.value - OWN_MS - round_trips * FAR_MS) <= half
    return held / runs


@pytest.mark.parametrize(("rounds", "round_trips"), [(5, 1), (12, 4), (40, 4)])
def test_the_prediction_holds_the_truth_in_95_of_100_runs(rounds: int, round_trips: int) -> None:
    assert coverage(rounds, round_trips) == pytest.approx(0.95, abs=0.02)


def test_without_the_links_uncertainty_it_would_not() -> None:
    assert coverage(12, 4, probed=False) < 0.5


def test_where_it_was_measured_the_prediction_is_the_measurement() -> None:
    taken, link = mean_over_rounds([0.3, 0.31, 0.32]), mean_over_rounds([0.04, 0.06])
    assert taken_at(taken, 4, link, link) == taken
