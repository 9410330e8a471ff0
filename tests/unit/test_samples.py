"""What a metric makes of one slice."""

from __future__ import annotations

import pytest

from costof.results.samples import ServersSide, of_slice
from costof.study.schema import Metric
from tests.fake_run import Slice, answer_of

COUNTS = {"tpcc.committed.payment": 40, "tpcc.committed.delivery": 4, "tpcc.committed_late": 1, "tpcc.deadlocks": 0}


@pytest.mark.parametrize(
    ("phase", "per_second"),
    [
        ("tpcc.committed.payment", 20.0),
        ("tpcc.committed", 22.0),
        ("tpcc.deadlocks", 0.0),
        ("tpcc.rolled_back", None),
        ("http", None),
    ],
)
def test_a_count_is_a_second_s_and_that_of_all_below_its_name(phase: str, per_second: float | None) -> None:
    metric = Metric(label="", description="", workload="w", phase=phase, unit="per_second", margin=0.1)
    answer = answer_of(Slice(50, 2.0, {}, {}, {}, counts=COUNTS), "w", "arm")
    assert of_slice(metric, answer, ServersSide({}, {})) == per_second
