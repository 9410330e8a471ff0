"""Tests of whether `costof selftest` passes, on simulated runs whose verdicts or intervals are right or wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from costof.cli.selftest import HELD, MEASURED, STUDY, conclusion, rendered
from costof.results.run import read_run
from costof.results.selftest import Outcome, Selftest, judge_selftest, outcome_of
from costof.statistics.estimate import Estimate, Verdict
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Slice, Truth, fake_run, phase_of
from tests.noise import Chance, Noise

REQUEST_MS, HELD_MS, ADDED_MS = 0.1, 0.3, 0.03
QUIET, LOUD = Noise(slice=0.01, drift=0.02), Noise(slice=0.9)
COSTLY = ("all", "some", "spells")


class KnownDelays(Truth):
    """Simulated requests through a relay that delays them. The relay reports the delay, so the true cost is known.

    `uncounted` has additional delays in ms by arm, which the relay does not report. In one slice of the last arm the
    relay delays requests by a further `stall_ms`, and reports this delay.
    """

    def __init__(self, uncounted: Mapping[str, float], stall_ms: float) -> None:
        super().__init__()
        self.uncounted = uncounted
        self.stall_ms, self.slices = stall_ms, 0

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        held = HELD_MS + (ADDED_MS if arm.name in COSTLY else 0.0)
        self.slices += arm.name == COSTLY[-1]
        held += self.stall_ms if (arm.name, self.slices) == (COSTLY[-1], 20) else 0.0
        request = REQUEST_MS * chance.times + held + self.uncounted.get(arm.name, 0.0)
        return Slice(
            operations=100,
            seconds=request / 10,
            phases={"request": phase_of(request, 100)},
            cpu_seconds={"client": 0.001},
            evidence={"connections": 0, "server": "127.0.0.1:1"},
            figures={"held": held},
        )


def judge(
    folder: Path, noise: Noise = QUIET, rounds: int = 40, stall_ms: float = 0.0, **uncounted: float
) -> Selftest | None:
    plan = resolve(load_study(str(STUDY)), Options(seed=1))
    ledger = fake_run(folder / "run", plan, KnownDelays(uncounted, stall_ms), rounds=rounds, noise=noise)
    return judge_selftest(read_run(ledger), MEASURED, HELD)


def test_selftest_passes_if_all_verdicts_are_right(tmp_path: Path) -> None:
    answer = judge(tmp_path)
    assert answer is not None
    assert answer.passed
    assert [each.arm for each in answer.known_costs if each.identical] == ["same"]
    assert {each.verdict for each in answer.known_costs if not each.identical} == {Verdict.COSTS}
    assert {each.outcome for each in answer.known_costs} == {Outcome.RIGHT}
    ten, sixty, more = (each.smallest for each in answer.smallest_effects)
    assert ten > sixty > more > 0
    assert conclusion(answer).startswith("Good for effects above ")
    assert sum(line.startswith("✓") for line in rendered(answer, margin=0.05)) == 4


@pytest.mark.parametrize(
    ("arm", "mistake"),
    [("same", "identical arms were reported to differ"), ("some", "its interval does not contain the known cost")],
)
def test_selftest_fails_if_a_measured_cost_differs_from_the_known_delay(tmp_path: Path, arm: str, mistake: str) -> None:
    answer = judge(tmp_path, **{arm: 0.03})
    assert answer is not None
    assert not answer.passed
    assert [(each.arm, each.mistake) for each in answer.wrong] == [(arm, mistake)]
    assert conclusion(answer).startswith(f"Wrong on this machine: '{answer.wrong[0].label}': {mistake};")


def test_selftest_passes_if_the_undetected_costs_are_smaller_than_the_noise(tmp_path: Path) -> None:
    answer = judge(tmp_path, LOUD)
    assert answer is not None
    assert answer.passed
    assert [each.arm for each in answer.hidden] == [*COSTLY]
    assert conclusion(answer).startswith("Too noisy: ")


def test_selftest_passes_if_a_stall_of_its_relay_hides_a_known_cost(tmp_path: Path) -> None:
    """Regression: one slice, in which the relay waited for a core, made the known cost look large."""
    answer = judge(tmp_path, stall_ms=20.0)
    assert answer is not None
    assert answer.passed, answer.wrong
    spells = answer.known_costs[-1]
    assert (spells.known > 10 * ADDED_MS, spells.outcome) == (True, Outcome.TOO_SMALL)


def test_selftest_with_too_few_rounds_neither_passes_nor_fails(tmp_path: Path) -> None:
    assert judge(tmp_path, rounds=4) is None


@pytest.mark.parametrize(
    ("ratio", "large", "verdict", "expected"),
    [
        (0.2, True, Verdict.UNRESOLVED, Outcome.WRONG),
        (0.2, False, Verdict.UNRESOLVED, Outcome.TOO_SMALL),
        (0.2, False, Verdict.NO_COST, Outcome.WRONG),
        (0.04, True, Verdict.NO_DIFFERENCE, Outcome.TOO_SMALL),
        (0.2, True, Verdict.SAVES, Outcome.WRONG),
        (0.01, False, Verdict.COSTS, Outcome.RIGHT),
    ],
)
def test_selftest_accepts_an_unresolved_verdict_only_for_a_small_known_cost(
    ratio: float, large: bool, verdict: Verdict, expected: Outcome
) -> None:
    interval = Estimate(value=ratio, low=0.0, high=1.0, rounds=20)
    assert outcome_of(False, ratio, ratio, interval, verdict, large, margin=0.05)[0] is expected
