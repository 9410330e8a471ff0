"""Every combination of the firewall study's levels in a lab: the evidence agrees with the levels."""

from __future__ import annotations

import pytest

from costof.services.firewall.lab import FirewallLab
from tests.support.small_plans import plan_of

pytestmark = pytest.mark.servers

STUDY = "http-firewall"


@pytest.mark.parametrize("request_level", ["no-body", "json-1kb", "json-64kb", "form-1kb", "form-64kb"])
def test_lab_verifies_every_combination_of_firewall_settings(request_level: str) -> None:
    tunings = "as-shipped,without-languages,by-content-type,json-limit,field-exclusion"
    plan = plan_of(
        STUDY,
        "quick",
        "firewall=engine-off,detection,on",
        "paranoia=1,2",
        f"tuning={tunings}",
        f"request={request_level}",
    )
    with FirewallLab(plan) as lab:
        for arm in plan.arms:
            assert lab.collect_evidence(arm, "start")
            assert lab.failure_reason(arm) is None, arm.name
