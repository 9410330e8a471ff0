"""The firewall lab: each set of rules recognizes the attacks that its level promises, and no other requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from costof.errors import CostofError, ErrorText
from costof.services.firewall.lab import FirewallLab
from costof.study.arms import PlannedArm
from costof.study.plan import Plan
from tests.fake_run import Slice, answer_of
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

STUDY = "http-firewall"
HARMLESS, HTML = "harmless request", "HTML in the query"
BODY, QUERY = "attack at the end of the body", "attack in the query"
ANSWER = answer_of(Slice(1, 0.001, {}, {}, {}), "request", "an arm")
PASSED, BLOCKED = "200, not logged", "403, logged"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(
        STUDY, "quick", "firewall=engine-off,on", "paranoia=2", "tuning=as-shipped,json-limit", "request=json-64kb"
    )


@pytest.fixture(scope="module")
def lab(plan: Plan) -> Iterator[FirewallLab]:
    with FirewallLab(plan) as lab:
        yield lab


def arm_of(plan: Plan, firewall: str, tuning: str | None = None) -> PlannedArm:
    return next(arm for arm in plan.arms if (arm.levels["firewall"], arm.levels.get("tuning")) == (firewall, tuning))


def test_evidence_shows_which_attacks_the_firewall_of_each_arm_blocks(lab: FirewallLab, plan: Plan) -> None:
    expected = {
        ("off", None): (PASSED, PASSED, PASSED, PASSED),
        ("engine-off", None): (PASSED, PASSED, PASSED, PASSED),
        ("on", "as-shipped"): (PASSED, BLOCKED, BLOCKED, BLOCKED),
        ("on", "json-limit"): (PASSED, BLOCKED, PASSED, BLOCKED),
    }
    for (firewall, tuning), outcomes in expected.items():
        arm = arm_of(plan, firewall, tuning)
        facts = dict(zip((HARMLESS, HTML, BODY, QUERY), outcomes, strict=True))
        assert lab.collect_evidence(arm, "start") == facts
        assert lab.failure_reason(arm) is None
        assert lab.collect_evidence(arm, "end") == {f"{name} at the end": text for name, text in facts.items()}


def test_measurement_during_which_a_firewall_rule_matched_is_discarded(lab: FirewallLab, plan: Plan) -> None:
    arm = arm_of(plan, "on", "as-shipped")
    before = lab.observe(arm)
    assert lab.judge(arm, before, lab.observe(arm), ANSWER).mismatch is None
    lab.collect_evidence(arm, "start")
    mismatch = lab.judge(arm, before, lab.observe(arm), ANSWER).mismatch
    assert "about harmless requests" in (mismatch or "")


def test_arm_fails_if_its_firewall_does_not_block_every_attack_that_it_should(lab: FirewallLab, plan: Plan) -> None:
    limited = arm_of(plan, "on", "json-limit")
    # These rules inspect only a part of a long body. Now the arm requires an inspection of the whole body.
    settings = {name: value for name, value in limited.settings.lab.items() if name != "inspects_json_up_to"}
    arm = limited.model_copy(update={"settings": limited.settings.model_copy(update={"lab": settings})})
    lab.collect_evidence(arm, "start")
    assert lab.failure_reason(arm) == f"'{BODY}' was {PASSED}, not {BLOCKED}"
    assert lab.failure_reason() is None
    lab._mismatches.clear()
    with pytest.raises(CostofError) as caught:
        lab.collect_evidence(arm, "end")
    assert caught.value.message is ErrorText.LAB_FAILED
