"""From a ledger whose truth is known to a result that says it: effects, the cost model, and runs that went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costof import format as fmt
from costof.errors import CostofError, Problem
from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.results.ledger import EnvironmentRecord, Ledger, LostRecord, SizesRecord
from costof.statistics.estimate import Verdict
from costof.study.library import load_study
from costof.study.plan import Options, resolve
from tests.fake_run import fake_run
from tests.noise import Noise
from tests.support.small_plans import plan_of
from tests.truths.mysql_transport import LATE, LATE_MS, PHASES, TransportTruth

STUDY = "mysql-transport"
DISTANCES = {"lan": 0.0, "us-us": 44.648, "us-eu": 170.126}
OWN = {kind: sum(own for own, _ in parts.values()) for kind, parts in PHASES.items()}
TLS_MS = OWN["tls"] - OWN["plain"]


def ledger_of(folder: Path, distance: str = "lan", **asked: Any) -> Ledger:
    plan = plan_of(STUDY, "default", f"distance={distance}")
    return fake_run(folder / "run", plan, TransportTruth(), **{"rounds": 12, **asked})


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return analyse(ledger_of(tmp_path_factory.mktemp("everywhere"), ",".join(DISTANCES)))


def test_effects_lie_within_their_distance(everywhere: Result) -> None:
    effects = {(effect.metric, effect.arm): effect for effect in everywhere.effects}
    assert {arm for _, arm in effects} == {f"{arm}@{where}" for arm in ("tls", "ssh-aes256-ctr") for where in DISTANCES}
    near, far = effects["wire.connect", "tls@lan"], effects["wire.connect", "tls@us-eu"]
    assert near.difference.low <= TLS_MS <= near.difference.high
    assert far.difference.low <= TLS_MS + 170.126 * LATE + LATE_MS <= far.difference.high
    loss = effects["wire.connections_per_second", "tls@us-eu"]
    assert loss.verdict is Verdict.COSTS
    assert loss.ratio is not None
    assert loss.ratio.value == pytest.approx(3 / 4, abs=0.01)
    assert effects["wire.connections_per_second", "ssh-aes256-ctr@us-eu"].verdict is Verdict.SAVES


def test_a_run_of_exact_rounds_says_that_they_ended_it(tmp_path: Path) -> None:
    plan = resolve(load_study(STUDY), Options(settings=["distance=lan"], rounds="6", seed=1))
    result = analyse(fake_run(tmp_path / "run", plan, TransportTruth(), rounds=6, noise=Noise(0.12)))
    assert (result.rounds, result.rounds_asked, result.precision_asked) == (6, 6, None)
    text = render_markdown(result)
    assert "exactly 6 rounds" in text.replace(fmt.NBSP, " ")
    assert "its budget was spent" not in text
    assert " more (--rounds)." in text
    assert "--budget" not in text


def test_slices_that_became_shorter_are_told(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path, rounds=3)
    planned = ledger.plan().slices
    ledger.append(SizesRecord(slices={**planned, "query_1": planned["query_1"].times(0.25)}))
    result = analyse(ledger)
    assert result.slice_shares == {**dict.fromkeys(planned, 1.0), "query_1": 0.25}
    text = render_markdown(result).replace(fmt.NBSP, " ")
    assert "Of its planned length each had: query_1 25 %." in text.replace("\\", "")


def test_the_twins_are_noise_and_not_arms(everywhere: Result) -> None:
    assert {floor.context for floor in everywhere.noise_floor} == set(DISTANCES)
    assert not any("twin" in effect.arm for effect in everywhere.effects)
    assert not any("twin differs" in warning for warning in everywhere.warnings)


def test_the_cost_model_recovers_own_time_and_round_trips(everywhere: Result) -> None:
    model = everywhere.sections.cost_model
    assert model is not None
    assert everywhere.distances == DISTANCES
    costs = {(cost.protection, cost.operation): cost for cost in model.operations}
    assert costs["plain", "connection"].round_trips == 3
    assert costs["tls", "connection"].round_trips == 4
    assert costs["ssh-aes256-ctr", "connection"].round_trips == 2
    assert costs["ssh-aes256-ctr", "operation"].round_trips == 1
    own = costs["tls", "connection"].own_ms
    assert own.low <= OWN["tls"] <= own.high
    extras = {(extra.protection, extra.operation): extra for extra in model.extras}
    assert extras["tls", "connection"].round_trips == 1
    assert extras["tls", "connection"].own_ms.low <= TLS_MS <= extras["tls", "connection"].own_ms.high
    assert extras["tls", "operation"].cpu_ms.value == pytest.approx(0.002 + 0.004, rel=0.1)
    assert extras["ssh-aes256-ctr", "connection"].round_trips == -1


def test_predictions_meet_what_was_measured(everywhere: Result) -> None:
    assert everywhere.sections.cost_model is not None
    far = [prediction for prediction in everywhere.sections.cost_model.predictions if not prediction.local]
    assert {prediction.arm for prediction in far} >= {"plain@us-us", "tls@us-eu", "ssh-aes256-ctr@us-eu"}
    assert len(far) == 3 * 3 * 2
    for prediction in far:
        assert prediction.error is not None
        assert abs(prediction.error) < 0.001, "the asked-for round-trip times are 0.5 % off"


def test_a_model_can_come_from_a_far_link_alone(tmp_path: Path) -> None:
    """What the link is late by is measured on it, and is none of the operation's own time."""
    model = analyse(ledger_of(tmp_path, "us-us", noise=Noise(0.0001))).sections.cost_model
    assert model is not None
    own = next(c.own_ms for c in model.operations if c.protection == "tls" and c.operation == "connection")
    assert own.low <= OWN["tls"] <= own.high
    assert own.value == pytest.approx(OWN["tls"], abs=0.1)


def test_an_arm_that_was_refused_is_an_error_and_the_others_are_told(tmp_path: Path) -> None:
    result = analyse(ledger_of(tmp_path, refused={"tls": "it speaks no TLS"}))
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["tls"] == "it speaks no TLS"
    assert errors["plain"] is None
    assert {effect.arm for effect in result.effects} == {"ssh-aes256-ctr"}


def test_without_the_control_there_are_figures_and_no_effects(tmp_path: Path) -> None:
    result = analyse(ledger_of(tmp_path, refused=dict.fromkeys(("plain", "plain-twin"), "it asks for TLS")))
    assert not result.effects
    assert any(value.arm == "tls" for value in result.values)
    assert any("control cannot run" in warning for warning in result.warnings)
    answer = " ".join(sentence.text for sentence in result.answer)
    assert "cannot be told: plain could not be measured, so there is nothing to compare with." in answer
    assert "TLS, modern suite, rsa-2048 by itself: a new connection takes " in answer


def test_an_arm_lost_in_the_middle_is_its_own_error(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    ledger.append(LostRecord(arm="ssh-aes256-ctr", detail="its tunnel ended"))
    result = analyse(ledger)
    assert next(arm.error for arm in result.arms if arm.name == "ssh-aes256-ctr") == "its tunnel ended"
    assert any("its tunnel ended" in warning for warning in result.warnings)
    assert result.partial is None


def test_a_run_that_never_started_or_was_killed_says_so(tmp_path: Path) -> None:
    ledger = Ledger.create(plan_of(STUDY), tmp_path / "run")
    with pytest.raises(CostofError) as caught:
        analyse(ledger)
    assert caught.value.problem is Problem.NOTHING_MEASURED
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={}))
    assert analyse(ledger).partial == "it was ended from outside"
