"""Runs whose servers are started anew: what is independent, how often intervals hold the truth, and what is told."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.results.changes import every_change
from costof.results.ledger import EndRecord, EnvironmentRecord, Ledger
from costof.results.run import read_run
from costof.results.samples import Samples, Turn
from costof.statistics.estimate import Estimate
from costof.statistics.units import Units, own_share
from costof.studies import study_names
from costof.study.plan import Plan
from tests.fake_run import STARTED, Truth, fake_run, fake_start
from tests.noise import Noise
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

STUDY, METRIC = "mongodb-tls", "wire.reused_query"
TIMES = 1.1
#: Standard deviations of logarithms: of what an arm draws in a start, and of a round.
LUCK, OF_ROUND = 0.005, 0.01
RUNS = 1000


def starts_of(starts: int, rounds: int) -> dict[int, int]:
    return {number: number // rounds for number in range(starts * rounds)}


def coverage(plan: Plan, starts: int, rounds: int, *, over_starts: bool = True) -> float:
    """The share of runs whose interval of the ratio holds it."""
    chance = np.random.default_rng(100 * starts + rounds)
    units = Units(starts_of(starts, rounds) if over_starts else {})
    (arm,), held = plan.protected, 0
    for _ in range(RUNS):
        samples = Samples(units)
        samples.succeeded(Turn(plan.study.metrics[METRIC].workload, arm.baseline or ""))
        luck = np.repeat(chance.normal(0, LUCK, starts), rounds)
        logs = math.log(TIMES) + luck + chance.normal(0, OF_ROUND, starts * rounds)
        for number, each in enumerate(np.exp(logs)):
            samples.add(METRIC, arm.baseline or "", number, 1.0)
            samples.add(METRIC, arm.name, number, float(each))
        (change,) = every_change(plan, samples)[METRIC]
        found = change.relative()
        assert found is not None
        held += found.low <= TIMES <= found.high
    return held / RUNS


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(STUDY)


@pytest.mark.parametrize(("starts", "rounds"), [(5, 6), (5, 30), (10, 12)])
def test_an_interval_over_starts_holds_the_truth_in_95_of_100_runs(plan: Plan, starts: int, rounds: int) -> None:
    assert coverage(plan, starts, rounds) == pytest.approx(0.95, abs=0.02)


def test_one_over_their_rounds_would_not(plan: Plan) -> None:
    assert coverage(plan, 5, 30, over_starts=False) < 0.7


def test_a_start_has_the_mean_of_the_rounds_that_both_arms_have(plan: Plan) -> None:
    samples = Samples(Units(starts_of(2, 2)))
    for number, (control, arm) in enumerate([(1.0, 2.0), (3.0, 5.0), (1.0, None), (2.0, 4.0)]):
        samples.add(METRIC, "plain", number, control)
        if arm is not None:
            samples.add(METRIC, "tls", number, arm)
    assert samples.of(METRIC, "plain") == [2.0, 1.5]
    assert samples.pairs(METRIC, "plain", "tls") == ([2.0, 2.0], [3.5, 4.0])
    assert samples.together((METRIC, "plain"), (METRIC, "tls")) == [[2.0, 2.0], [3.5, 4.0]]


def shares(luck: float, starts: int = 8, rounds: int = 6) -> list[tuple[float, float, float]]:
    chance, found = np.random.default_rng(7), []
    for _ in range(300):
        logs = chance.normal(0, luck, (1, starts, 1)) + chance.normal(0, OF_ROUND, (1, starts, rounds))
        share = own_share(logs.tolist())
        assert share is not None
        found.append((share.value, share.low, share.high))
    return found


@pytest.mark.parametrize("luck", [0.004, 0.02])
def test_the_share_of_starts_is_known_with_its_interval(luck: float) -> None:
    truth = luck**2 / (luck**2 + OF_ROUND**2 / 6)
    assert np.median([value for value, *_ in shares(luck)]) == pytest.approx(truth, abs=0.06)
    assert np.mean([low <= truth <= high for _, low, high in shares(luck)]) == pytest.approx(0.95, abs=0.03)


def test_without_luck_of_starts_none_is_shown() -> None:
    assert np.mean([low > 0 for _, low, _ in shares(0.0)]) <= 0.05
    assert own_share([[[0.1], [0.2], [0.3]]]) is None, "one round a start does not tell"


def result_of(folder: Path, restarts: int, luck: float, rounds: int = 4) -> Result:
    truth = Truth({("wire_query", "tls"): TIMES})
    plan = plan_of(STUDY, restarts=str(restarts))
    return analyse(fake_run(folder / "run", plan, truth, rounds=rounds, noise=Noise(0.01, luck=luck)))


def test_starts_are_told_and_counted(tmp_path: Path) -> None:
    result = result_of(tmp_path, 6, luck=0.03)
    assert (result.starts, result.rounds, result.partial) == ([4] * 6, 24, None)
    assert {value.mean.rounds for value in result.values} == {6}
    (effect,) = (each for each in result.effects if each.metric == METRIC)
    assert effect.rounds == len(effect.differences) == 6
    assert effect.ratio is not None
    assert effect.ratio.low <= TIMES <= effect.ratio.high
    assert {tail.ratio.rounds for tail in result.sections.tails.found} == {6}
    found = {each.metric: each.share for each in result.between_starts}
    assert found[METRIC].low > 0


def estimates(found: Any) -> Iterator[dict[str, Any]]:
    """Every one in a result's JSON."""
    if isinstance(found, dict):
        if found.keys() == Estimate.model_fields.keys():
            yield found
        found = [*found.values()]
    for each in found if isinstance(found, list) else []:
        yield from estimates(each)


@pytest.mark.parametrize("study", study_names())
def test_no_section_of_any_study_takes_rounds_for_independent(study: str, tmp_path: Path) -> None:
    plan = plan_of(study, restarts="5")
    result = analyse(fake_run(tmp_path / "run", plan, TRUTHS.get(study, Truth()), rounds=3, noise=Noise(0.01)))
    assert {each["rounds"] for each in estimates(json.loads(result.model_dump_json()))} == {5}
    assert "5 starts of 3 rounds" in render_markdown(result)


def test_fewer_starts_than_verdicts_need_give_intervals(tmp_path: Path) -> None:
    result = result_of(tmp_path, 3, luck=0.0, rounds=20)
    assert {effect.verdict.value for effect in result.effects} == {"unresolved"}
    assert any(warning.startswith("only 3 starts") for warning in result.warnings)


def test_a_start_that_is_missing_makes_a_run_partial(tmp_path: Path) -> None:
    plan = plan_of(STUDY, restarts="3")
    ledger = Ledger.create(plan, tmp_path / "run")
    source = np.random.default_rng(1)
    for start in range(2):
        fake_start(ledger, plan, Truth(), start, rounds=3, source=source)
        ledger.append(EndRecord(partial=None, steal_share=0.0))
    assert analyse(ledger).partial == "it was ended from outside"
    fake_start(ledger, plan, Truth(), 2, rounds=3, source=source)
    assert read_run(ledger).whole_starts == 2
    ledger.append(EndRecord(partial="interrupted", steal_share=0.0))
    assert analyse(ledger).partial == "interrupted"
    assert read_run(ledger).whole_starts == 2, "it counts with its rounds, and a resumed run has another"
    fake_start(ledger, plan, Truth(), 3, rounds=3, source=source)
    ledger.append(EndRecord(partial=None, steal_share=0.0))
    result = analyse(ledger)
    assert (result.starts, result.partial) == ([3] * 4, None)


def test_a_resumed_run_without_restarts_has_rounds_for_units(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(STUDY), Truth(), rounds=6)
    once = analyse(ledger)
    ledger.append(EnvironmentRecord(started=STARTED, facts={}))
    ledger.append(EndRecord(partial=None, steal_share=0.01))
    resumed = analyse(ledger)
    assert (resumed.starts, resumed.effects, resumed.values) == ([], once.effects, once.values)
    assert {effect.rounds for effect in resumed.effects} == {6}
