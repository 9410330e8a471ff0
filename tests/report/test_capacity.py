"""The report of a sweep: each arm's capacity within the limit, or why it has none."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.report import analyse
from costof.statistics.estimate import Verdict
from costof.study.sweep import CAPACITY
from tests.report.results import spaced
from tests.support.sweeps import fake_sweep


def test_report_gives_the_capacities_and_their_loss(tmp_path: Path) -> None:
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
def test_capacity_outside_of_the_range_is_missing_with_its_reason(tmp_path: Path, plain: float, advice: str) -> None:
    result = analyse(fake_sweep(tmp_path / "run", {"plain": plain, "tls": 400.0}))
    assert not [each for each in result.effects if each.metric == CAPACITY]
    assert advice in spaced(result.summary.verdict)
