"""Fake runs: any study has one, the same each time, and the analysis finds the truth that went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costof.report import analyse, render_markdown
from costof.results.ledger import SLICES
from costof.statistics.estimate import Verdict
from costof.studies import study_names
from tests.fake_run import Truth, fake_run
from tests.noise import Chances, Noise
from tests.support.small_plans import plan_of
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


def drawn(noise: Noise, rounds: int = 4000) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Logarithms of what the slices of two arms are multiplied by, a row each."""
    arms = plan_of("mongodb-tls").arms[:2]
    chances = Chances(noise, np.random.default_rng(1), arms)
    found = []
    for _ in range(rounds):
        chances.next_round()
        found.append([np.log(chances.of("wire_query", arm, 1.0).times) for arm in arms])
    return np.array(found).T


def test_noise_is_what_it_says() -> None:
    one, other = drawn(Noise(0.1, correlation=0.6))
    assert one.std() == pytest.approx(0.1, rel=0.1)
    assert np.corrcoef(one[:-1], one[1:])[0, 1] == pytest.approx(0.6, abs=0.05)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    stalled = drawn(Noise(0.0, stalls=0.1, stalled=3.0))
    assert np.mean(stalled > 1.0) == pytest.approx(0.1, abs=0.01)
    assert set(np.exp(stalled.ravel()).round(6)) == {1.0, 3.0}
    one, other = drawn(Noise(0.0, drift=0.01))
    assert list(one) == list(other), "all arms drift alike"
    assert np.diff(one).std() == pytest.approx(0.01, rel=0.1)
    one, other = drawn(Noise(0.0, luck=0.1), rounds=3)
    assert one[0] == one[1] == one[2] != other[0]
