"""The section on upgrades: it compares two versions of a server on every arm, and finds a simulated change."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from costof.format import NBSP, without_intervals
from costof.report import document
from costof.report.blocks import Interactive
from costof.report.how_sure import Check
from costof.report.result import Result
from costof.report.sections.upgrade import Upgrade, version_pairs
from costof.statistics.estimate import Verdict
from costof.statistics.uneven import VISIBLY
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, fake_result
from tests.noise import Chance, Noise
from tests.report.results import printed, sentence_texts
from tests.support.small_plans import plan_of
from tests.truths.mysql_transport import TransportTruth, kind
from tests.truths.postgres_tls import PostgresTruth

OLD, NEW, QUERY = "15", "18", "wire.reused_query"
SLOWER = 1.2


class Slower(PostgresTruth):
    """Simulated times in which queries on the wire take longer on the new version, with TLS and without."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        changed = arm.levels["server_version"] == NEW and workload == "wire_query"
        return super().slice(plan, workload, arm, replace(chance, times=chance.times * SLOWER) if changed else chance)


@pytest.fixture(scope="module")
def result() -> Result:
    return fake_result(plan_of("postgres-tls", "quick", f"server_version={OLD},{NEW}"), Slower(), rounds=8)


def upgrade_of(result: Result) -> Upgrade:
    upgrade = result.sections.upgrade
    assert upgrade is not None
    return upgrade


def test_simulated_change_between_versions_is_detected_only_in_the_changed_metric(
    result: Result,
) -> None:
    changes = {(each.metric, each.before): each for each in upgrade_of(result).changes}
    for arm in ("plain", "tls"):
        change = changes[QUERY, arm]
        assert change.after == f"{arm}@server_version-{NEW}"
        assert change.verdict is Verdict.COSTS
        assert change.ratio.low < SLOWER < change.ratio.high
        assert changes["wire.connect_and_first_query", arm].verdict is not Verdict.COSTS


def test_change_in_percent_agrees_with_the_two_printed_figures_in_very_noisy_runs() -> None:
    plan = plan_of("postgres-tls", "quick", f"server_version={OLD},{NEW}")
    noisy = upgrade_of(fake_result(plan, Slower(), rounds=8, noise=Noise(slice=0.5)))
    quotients = [each.value / each.before_value for each in noisy.changes]
    assert [each.ratio.value for each in noisy.changes] == pytest.approx(quotients, rel=VISIBLY)


class SlowerTls(TransportTruth):
    """Simulated times in which only connections with TLS take longer on the new version."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        changed = arm.levels["server_version"] == "11.4" and kind(arm) == "tls" and workload == "connect"
        return super().slice(plan, workload, arm, replace(chance, times=chance.times * 1.6) if changed else chance)


def test_change_of_a_low_rate_is_not_compared_with_the_noise_of_a_high_rate() -> None:
    """Without TLS, thousands of connections a second vary by more than the hundred connections with TLS."""
    versions = ("server_version=10.11,11.4", "transport=plain,tls", "distance=lan")
    result = fake_result(plan_of("mysql-transport", "quick", *versions), SlowerTls(), rounds=8, noise=Noise(slice=0.05))
    metric = "wire.connections_per_second"
    (change,) = (each for each in upgrade_of(result).changes if each.metric == metric and each.before == "tls")
    assert max(floor.absolute for floor in result.noise_floor if floor.metric == metric) > -change.difference.value
    assert change.verdict is Verdict.COSTS


def test_sentences_about_an_upgrade_come_first_and_name_both_versions_and_the_arm(result: Result) -> None:
    texts = sentence_texts(result.answer, "answer")[:2]
    assert [text.split(" changes ")[0] for text in texts] == [
        "An upgrade from PostgreSQL 15 to 18 (plain)",
        "An upgrade from PostgreSQL 15 to 18 with TLS 1.3 (rsa-2048)",
    ]
    assert all(" changes 'query on open connection' on the wire by " in text for text in texts)
    assert all(" makes no difference above " in without_intervals(text) for text in texts)
    assert "An upgrade from PostgreSQL 15 to 18 (plain)" in printed(result, 100)


def test_summary_of_a_run_of_two_versions_is_about_the_upgrade_alone(result: Result) -> None:
    """Only the whole report has the cost of TLS, its reason and its mitigations."""
    summary = result.summary
    assert {figure.arm_label for figure in summary.figures} == {
        "an upgrade from PostgreSQL 15 to 18 (plain)",
        "an upgrade from PostgreSQL 15 to 18 with TLS 1.3 (rsa-2048)",
    }
    assert [text.split(" adds ")[0] for text in summary.lines] == [
        "An upgrade from PostgreSQL 15 to 18 (plain)",
        "An upgrade from PostgreSQL 15 to 18 with TLS 1.3 (rsa-2048)",
    ]
    assert (summary.why, summary.mitigation, summary.break_even) == ("", "", "")
    assert any(text.startswith("TLS 1.3 (rsa-2048) adds ") for text in sentence_texts(result.answer, "answer"))


class SlowerLogIn(PostgresTruth):
    """Simulated times in which the log-in takes longer on the new version, but no whole connection does."""

    def _connection(self, workload: str, arm: PlannedArm) -> dict[str, tuple[float, int]]:
        phases = super()._connection(workload, arm)
        if "auth" in phases and arm.levels["server_version"] == NEW:
            time_ms, round_trips = phases["auth"]
            phases["auth"] = (time_ms * SLOWER, round_trips)
        return phases


def test_verdict_on_an_upgrade_names_the_slower_phase_if_no_whole_operation_is_slower() -> None:
    plan = plan_of("postgres-tls", "quick", f"server_version={OLD},{NEW}", "transport=plain")
    result = fake_result(plan, SlowerLogIn(), rounds=8)
    (line,) = result.summary.lines
    assert re.match(
        r"An upgrade from PostgreSQL 15 to 18 \(plain\) adds [\d.]+ ms \([^)]+\) to the phase 'SCRAM'",
        line.replace(NBSP, " "),
    )
    assert "the phase 'SCRAM'" in sentence_texts(result.answer, "answer")[0]


def test_verdict_on_an_upgrade_begins_with_the_arm_that_changed() -> None:
    versions = ("server_version=10.11,11.4", "transport=plain,tls", "distance=lan")
    summary = fake_result(plan_of("mysql-transport", "quick", *versions), SlowerTls(), rounds=8).summary
    assert " with TLS (modern suite, rsa-2048) lowers " in summary.lines[0]
    assert "the phase 'TLS'" in summary.lines[0]
    assert " (plain) " in summary.lines[1]


class WithoutRetry(PostgresTruth):
    """Simulated times in which a TLS handshake with the new version has one round trip fewer."""

    def _connection(self, workload: str, arm: PlannedArm) -> dict[str, tuple[float, int]]:
        group = "prime256v1" if arm.levels["server_version"] == NEW else "first-choice"
        return super()._connection(workload, arm.model_copy(update={"levels": {**arm.levels, "group": group}}))


def test_summary_explains_faster_connections_after_an_upgrade_by_a_saved_round_trip() -> None:
    result = fake_result(plan_of("postgres-tls", "quick", f"server_version={OLD},{NEW}"), WithoutRetry(), rounds=6)
    assert result.summary.why.replace(NBSP, " ") == (
        "A new connection with TLS 1.3 (rsa-2048) needs 1 fewer round trip and 500 B less data on PostgreSQL 18."
    )


def test_failed_check_of_one_version_affects_the_figures_of_the_upgrade(result: Result) -> None:
    figures = result.summary.figures
    failed = Check(
        passed=False, label="load", doubt="it was the limit", metrics=[QUERY], arms=["tls@server_version-18"]
    )
    assert {(figure.name, figure.arm) for figure in failed.affected(figures)} == {(QUERY, "tls@server_version-18")}


def test_calculator_of_an_upgrade_offers_no_server_version_as_a_distance(result: Result) -> None:
    blocks = [block for part in document(result).parts for block in part.blocks]
    form = next(block for block in blocks if isinstance(block, Interactive))
    assert form.presets.values == {}


def test_change_to_anything_but_a_later_release_is_not_called_an_upgrade() -> None:
    build = "/opt/pg19/bin"
    for second, change in (
        (OLD, f"PostgreSQL {OLD} instead of PostgreSQL {NEW} (plain)"),
        (build, f"PostgreSQL {build} instead of PostgreSQL {NEW} (plain)"),
    ):
        plan = plan_of("postgres-tls", "quick", f"server_version={NEW},{second}", "transport=plain")
        figures = fake_result(plan, PostgresTruth(), rounds=6).summary.figures
        assert {figure.arm_label for figure in figures} == {change}


def test_run_with_a_single_server_version_compares_no_versions() -> None:
    assert version_pairs(plan_of("postgres-tls", "quick").arms, "server_version") == []


def test_run_without_a_protected_arm_compares_controls_only_if_it_has_two_server_versions() -> None:
    for versions, compares in ((f"{OLD},{NEW}", True), (NEW, False)):
        plan = plan_of("postgres-tls", "quick", f"server_version={versions}", "transport=plain", "distance=lan,us-us")
        assert (plan.protected, plan.compares_controls) == ([], compares)
