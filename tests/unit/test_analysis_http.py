"""The HTTP study, from ledgers whose truth is known: slices as a whole, mitigations, sizing, and who waited for CPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from costof import format as fmt
from costof.report import analyse
from costof.report.result import Result
from costof.report.sections.mitigations import Mitigation
from costof.statistics.estimate import Estimate, Verdict
from costof.study.plan import Plan
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths.http_tls_termination import HANDSHAKE_MS, IN_FLIGHT, OPERATIONS, HttpTruth, Taken

STUDY = "http-tls-termination"
ROUNDS = 8


@cache
def plan() -> Plan:
    return plan_of(STUDY, "default")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return analyse(fake_run(tmp_path_factory.mktemp("http") / "run", plan(), HttpTruth(), rounds=ROUNDS))


def truth(arm: str) -> Taken:
    return HttpTruth().taken(plan().arm(arm))


def mitigations(result: Result) -> list[Mitigation]:
    found: list[Mitigation] = result.sections.mitigations.found
    return found


def near(estimate: Estimate, wanted: float) -> bool:
    """Within twice the interval: one seed, and intervals are not to be tested here."""
    half = (estimate.high - estimate.low) / 2
    return estimate.low - half <= wanted <= estimate.high + half


def test_a_metric_of_whole_slices_is_operations_over_time(result: Result) -> None:
    value = next(v for v in result.values if (v.metric, v.arm) == ("wire.requests_per_second", "balancer"))
    assert near(value.mean, truth("balancer").per_second)
    assert value.operations == ROUNDS * OPERATIONS
    # A rate falls towards the slow end, as every other rate does.
    assert value.percentiles["p50"] >= value.percentiles["p99"] >= value.percentiles["max"]
    burst = next(v for v in result.values if (v.metric, v.arm) == ("wire.burst", "balancer"))
    assert near(burst.mean, truth("balancer").burst_ms)
    assert burst.percentiles["p50"] <= burst.percentiles["max"]


def test_every_mitigation_gains_what_it_truly_gains(result: Result) -> None:
    lost = truth("none").per_second - truth("balancer").per_second
    assert {each.label for each in mitigations(result)} == {
        "TLS on both sides",
        "TLS at the backend",
        "session resumption",
        "an ECDSA key",
        "keep-alive for 10 requests a connection",
        "keep-alive for 100 requests a connection",
        "a balancer of 0.5 cores",
        "a balancer of 1 core",
    }
    found = result.sections.mitigations
    for each in found.found:
        better, reference = truth(each.arm).per_second, truth("balancer").per_second
        assert (found.reference, found.control) == ("balancer", "none")
        assert near(each.gain, better / reference), each
        assert each.recovered is not None
        assert near(each.recovered, (better - reference) / lost), each
        assert each.verdict is (Verdict.COSTS if better < reference else Verdict.SAVES)


def test_mitigations_are_ranked_by_what_they_gain(result: Result) -> None:
    gains = [each.gain.value for each in mitigations(result)]
    assert gains == sorted(gains, reverse=True)
    assert mitigations(result)[0].label == "keep-alive for 100 requests a connection"
    assert mitigations(result)[-1].label == "TLS on both sides"


def test_without_a_loss_there_is_no_share_of_it(tmp_path: Path) -> None:
    truth = HttpTruth(dict.fromkeys(HANDSHAKE_MS, 0.0))
    free = analyse(fake_run(tmp_path / "run", plan_of(STUDY), truth))
    each = next(each for each in mitigations(free))
    assert each.recovered is None
    # The balancer's own connections still cost it, so keep-alive gains all the same.
    assert each.verdict is Verdict.SAVES
    told = " ".join(each.text for each in free.answer).replace(fmt.NBSP, " ")
    assert "of the loss" not in told
    assert "keep-alive for 100 requests a connection gains" in told.lower()


def test_one_core_takes_as_many_clients_as_it_truly_does(result: Result) -> None:
    sizing = {each.arm: each for each in result.sections.sizing}
    assert set(sizing) == {"balancer", "reencrypt", "backend", "balancer-resumption-on", "balancer-ecdsa-p256"}
    for name, each in sizing.items():
        assert near(each.cpu_ms, truth(name).client_ms)
        assert near(each.clients_per_core_second, 1e3 / truth(name).client_ms)
        assert each.added_cpu_ms is not None
        assert near(each.added_cpu_ms, truth(name).client_ms - truth("none").client_ms)
    ten = next(e for e in sizing["balancer"].examples if (e.clients, e.seconds) == (10_000, 10.0))
    assert near(ten.cores, 10_000 * truth("balancer").client_ms / 1e3 / 10)


def test_bursts_are_predicted_on_cores_that_the_parameters_are_not_from(result: Result) -> None:
    checks = {check.arm: check for each in result.sections.sizing for check in each.checks}
    assert {"balancer", "balancer@balancer_cpu-0.5", "balancer@balancer_cpu-1"} <= set(checks)
    assert not any("keep_alive" in name for name in checks)
    for name, check in checks.items():
        assert (check.clients, check.cores) == (IN_FLIGHT, truth(name).cores)
        assert near(check.measured_seconds, truth(name).burst_ms / 1e3)
        assert check.predicted_seconds.value == pytest.approx(truth(name).burst_ms / 1e3, rel=0.02)


def test_a_role_that_waited_for_its_share_is_told(result: Result) -> None:
    cpu = next(each for each in result.cpu if (each.workload, each.arm) == ("request", "balancer"))
    assert cpu.throttled["balancer"] == pytest.approx(0.8 - truth("balancer").cores, abs=0.02)
    elapsed = OPERATIONS / truth("balancer").per_second
    assert cpu.steal == pytest.approx(0.02 / (elapsed * 2), rel=0.05)


def test_published_figures_stand_beside_the_first_setting_alone(result: Result) -> None:
    shown = {arm.name for arm in result.arms if result.published_for("wire.requests_per_second", arm)}
    assert shown == {"balancer"}


def test_contexts_are_said_in_words_of_their_own(result: Result) -> None:
    places = {arm.at for arm in result.arms}
    assert " with keep-alive for 100 requests a connection" in places
    assert " with a balancer of 1 core" in places
    text = " ".join(each.text for each in result.answer)
    assert "at keep_alive" not in text
    assert "at balancer_cpu" not in text


def test_the_answer_says_cost_mitigations_and_cores(result: Result) -> None:
    told = [each.text.replace(fmt.NBSP, " ") for each in result.answer if each.kind == "answer"]
    assert told[0].startswith(
        "A service with 100 new connections a second, 10 operations each, 1 ms away: with TLS at the "
    )
    assert told[1].startswith("On the wire, TLS at the balancer loses ")
    assert told[2].startswith("Keep-alive for 100 requests a connection recovers more than the whole loss (")
    assert "; session resumption " in told[2]
    assert told[3].startswith("TLS on both sides takes more (")
    assert told[4].startswith("One core of the balancer serves ")
    assert "10,000 new clients within 10 s need " in told[4]
    assert "a measured burst of 200 took " in told[4]
    assert len(told) == 5


def test_what_is_not_resolved_is_no_finding(tmp_path: Path) -> None:
    plan = plan_of(STUDY, "quick", "key=rsa-2048,ecdsa-p256").model_copy(update={"precision": None})
    told = {each.text for each in analyse(fake_run(tmp_path / "run", plan, HttpTruth(), rounds=2)).answer}
    assert "This run cannot tell what keep-alive for 100 requests a connection and an ECDSA key recover." in told
    assert not any("No mitigation" in text for text in told)


def test_that_nothing_recovers_anything_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.truths.http_tls_termination.CHEAPER", {})
    plan = plan_of(STUDY, "quick", "key=rsa-2048,ecdsa-p256", "keep_alive=1")
    told = {each.text for each in analyse(fake_run(tmp_path / "run", plan, HttpTruth(), rounds=30)).answer}
    assert "No mitigation recovers anything: an ECDSA key recovers nothing measurable." in told


def test_unverified_certificates_are_a_caution(tmp_path: Path) -> None:
    told = analyse(fake_run(tmp_path / "run", plan_of(STUDY, "quick", "verify=none"), HttpTruth(), rounds=2)).answer
    cautions = [each.text for each in told if each.kind == "caution"]
    assert len(cautions) == 1
    assert cautions[0].startswith("no certificate was verified with TLS at the balancer")


def test_ab_counts_a_reused_connection_as_a_connect_of_nothing(result: Result) -> None:
    figures = {each.arm: each for each in result.sections.ab}
    assert not any("twin" in name for name in figures)
    kept, closed = figures["balancer@keep_alive-100"], figures["balancer"]
    assert closed.complete == kept.complete == ROUNDS * OPERATIONS
    assert closed.keep_alive == 0
    assert kept.keep_alive > 0
    assert kept.times["connect"].min == kept.times["connect"].median == 0
    assert closed.times["connect"].min > 0
    for each in figures.values():
        parts = each.times["connect"].mean + each.times["processing"].mean
        assert each.times["total"].mean == pytest.approx(parts, rel=1e-4)
        assert each.requests_per_second == pytest.approx(each.complete / each.seconds)
        assert each.kbytes_per_second == pytest.approx(each.requests_per_second * 140 / 1024)
