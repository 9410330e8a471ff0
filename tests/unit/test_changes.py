"""What an arm changes, and what is said of it."""

from __future__ import annotations

import pytest

from costof.results.changes import every_change, judged
from costof.results.samples import Samples, Turn
from costof.statistics.estimate import Verdict
from tests.support.small_plans import plan_of

METRIC = "wire.reused_query"


@pytest.mark.parametrize(("value", "verdict"), [(0.0, Verdict.NO_DIFFERENCE), (1.0, Verdict.COSTS)])
def test_nothing_against_nothing_is_no_difference(value: float, verdict: Verdict) -> None:
    """Such as failed transactions, of which neither arm has any."""
    plan, samples = plan_of("mongodb-tls"), Samples()
    (arm,) = plan.protected
    (control,) = plan.controls
    for each in (control, plan.twin_of(control), arm):
        samples.succeeded(Turn(plan.study.metrics[METRIC].workload, each.name))
        for number in range(6):
            samples.add(METRIC, each.name, number, value if each is arm else 0.0)
    changes = every_change(plan, samples)
    (found,) = (each for each in judged(plan, changes) if each.metric == METRIC)
    assert found.verdict is verdict
    assert (found.change.relative() is None) == bool(value), "nothing is no share of nothing"
