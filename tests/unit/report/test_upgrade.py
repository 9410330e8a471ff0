"""The section on upgrades: it compares two versions of a server on every arm, and finds a simulated change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costof.format import without_intervals
from costof.report.result import Result
from costof.report.sections.upgrade import Upgrade, version_pairs
from costof.statistics.estimate import Verdict
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, fake_result
from tests.noise import Chance
from tests.report.results import printed, sentence_texts
from tests.support.small_plans import plan_of
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


def test_report_summary_of_an_upgrade_names_both_versions_and_the_arm(result: Result) -> None:
    texts = [text for text in sentence_texts(result.answer, "answer") if "instead of" in text]
    assert [text.split(" changes ")[0] for text in texts] == [
        "PostgreSQL 18 instead of PostgreSQL 15 (plain)",
        "PostgreSQL 18 instead of PostgreSQL 15 (TLS 1.3 (rsa-2048))",
    ]
    assert all(" changes 'query on open connection' on the wire by " in text for text in texts)
    assert all(" %, and makes no difference above " in without_intervals(text) for text in texts)
    assert "PostgreSQL 18 instead of PostgreSQL 15 (plain)" in {each.arm_label for each in result.summary.figures}
    assert "plain: PostgreSQL 18 instead of PostgreSQL 15" in printed(result, 100)


def test_run_with_a_single_server_version_compares_no_versions() -> None:
    assert version_pairs(plan_of("postgres-tls", "quick").arms, "server_version") == []
