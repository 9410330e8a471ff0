"""Fake runs: any study has one, the same each time, and the analysis finds the truth that went in."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.ledger.ledger import SLICES
from costof.report import analyse, render_markdown
from costof.statistics.estimate import Verdict
from costof.study.library import study_names
from tests.fake_run import Truth, fake_run, plan_of
from tests.noise import Noise
from tests.truths import TRUTHS


@pytest.mark.parametrize("study", study_names())
def test_a_cost_that_went_in_comes_out_of_any_study(study: str, tmp_path: Path) -> None:
    plan = plan_of(study)
    truth = Truth({(workload, plan.protected[0].protection): 1.5 for workload in plan.study.workloads})
    result = analyse(fake_run(tmp_path / "run", plan, truth, noise=Noise(0.02, drift=0.05)))
    found = {(effect.metric, effect.arm): effect for effect in result.effects}
    assert {metric for metric, _ in found} == plan.study.metrics.keys()
    for (name, arm), effect in found.items():
        metric = plan.study.metrics[name]
        if metric.unit == "ms" and not plan.study.round_trip_ms(plan.arm(arm).levels):
            mine = plan.arm(arm).protection == plan.protected[0].protection
            assert effect.ratio is not None
            assert effect.ratio.value == pytest.approx(1.5 if mine else 1.0, abs=0.1), (name, arm)
            assert (effect.verdict is Verdict.COSTS) == mine
    assert result.study in render_markdown(result)


@pytest.mark.parametrize("study", TRUTHS)
def test_one_seed_gives_one_ledger(study: str, tmp_path: Path) -> None:
    written = [
        fake_run(tmp_path / str(index), plan_of(study), TRUTHS[study], rounds=2, seed=seed).folder / SLICES
        for index, seed in enumerate((1, 1, 2))
    ]
    first, again, other = (path.read_bytes() for path in written)
    assert first == again != other
