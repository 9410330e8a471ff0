"""From a ledger whose truth is known to a result that says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from costof.document import format as fmt
from costof.errors import CostofError, Problem
from costof.ledger.ledger import EnvironmentRecord, Ledger, LostRecord
from costof.report import analyse, render_markdown
from costof.statistics.estimate import Verdict
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.plan import Options, Plan, resolve

from .ledgers import Spent, made_up

OWN = {"tcp": 0.05, "greeting": 0.10, "auth": 0.20}
TLS_OWN = 0.8
QUERY_OWN = {"plain": 0.08, "tls": 0.09, "ssh-aes256-ctr": 0.12}


def plan_for(*settings: str) -> Plan:
    return resolve(load_study("mysql-transport"), Options(settings=settings, seed=1))


def mysql_truth(workload: str, arm: PlannedArm) -> dict[str, Spent]:
    """Own time and whole round trips: a tunnel answers TCP at its near end."""
    link = {"lan": 0.0, "us-us": 44.648, "us-eu": 170.126}[arm.levels["distance"]]
    transport = arm.levels["transport"]
    if workload != "connect":
        return {"operation": Spent(QUERY_OWN[transport] + link)}
    phases = {name: Spent(own + link) for name, own in OWN.items()}
    if transport.startswith("ssh"):
        phases["tcp"] = Spent(OWN["tcp"])
    if transport == "tls":
        phases["tls"] = Spent(TLS_OWN + link)
    total = sum(spent.milliseconds for spent in phases.values())
    return {**phases, "connect": Spent(total, round_trips=len(phases))}


def test_effects_lie_within_their_distance(tmp_path: Path) -> None:
    result = analyse(made_up(tmp_path / "run", plan_for("distance=lan,us-eu"), mysql_truth))
    effects = {(effect.metric, effect.arm): effect for effect in result.effects}
    assert {arm for _, arm in effects} == {"tls@lan", "tls@us-eu", "ssh-aes256-ctr@lan", "ssh-aes256-ctr@us-eu"}
    near, far = effects["wire.connect", "tls@lan"], effects["wire.connect", "tls@us-eu"]
    assert near.difference.low <= TLS_OWN <= near.difference.high
    assert far.difference.low <= TLS_OWN + 170.126 <= far.difference.high
    loss = effects["wire.connections_per_second", "tls@us-eu"]
    assert loss.verdict is Verdict.COSTS
    assert loss.ratio is not None
    assert loss.ratio.value == pytest.approx(3 / 4, abs=0.01)
    assert effects["wire.connections_per_second", "ssh-aes256-ctr@us-eu"].verdict is Verdict.SAVES


def test_a_run_of_exact_rounds_says_that_they_ended_it(tmp_path: Path) -> None:
    plan = resolve(load_study("mysql-transport"), Options(settings=["distance=lan"], rounds="6", seed=1))
    result = analyse(made_up(tmp_path / "run", plan, mysql_truth, rounds=6, noise=0.2))
    assert (result.rounds, result.rounds_asked, result.precision_asked) == (6, 6, None)
    text = render_markdown(result)
    assert "exactly 6 rounds" in text.replace(fmt.NBSP, " ")
    assert "its budget was spent" not in text
    assert "more of measuring (--rounds)" in text
    assert "--budget" not in text


def test_the_twins_are_noise_and_not_arms(tmp_path: Path) -> None:
    result = analyse(made_up(tmp_path / "run", plan_for("distance=lan,us-us"), mysql_truth))
    assert {floor.context for floor in result.noise_floor} == {"lan", "us-us"}
    assert not any("twin" in effect.arm for effect in result.effects)
    assert not any("twin differs" in warning for warning in result.warnings)


def test_the_cost_model_recovers_own_time_and_round_trips(tmp_path: Path) -> None:
    result = analyse(made_up(tmp_path / "run", plan_for("distance=lan,us-us,us-eu"), mysql_truth))
    model = result.sections.cost_model
    assert model is not None
    assert result.distances == {"lan": 0.0, "us-us": 44.648, "us-eu": 170.126}
    costs = {(cost.protection, cost.operation): cost for cost in model.operations}
    assert costs["plain", "connection"].round_trips == 3
    assert costs["tls", "connection"].round_trips == 4
    assert costs["ssh-aes256-ctr", "connection"].round_trips == 2
    assert costs["ssh-aes256-ctr", "operation"].round_trips == 1
    own = costs["tls", "connection"].own_ms
    assert own.low <= sum(OWN.values()) + TLS_OWN <= own.high
    extras = {(extra.protection, extra.operation): extra for extra in model.extras}
    assert extras["tls", "connection"].round_trips == 1
    assert extras["tls", "connection"].own_ms.low <= TLS_OWN <= extras["tls", "connection"].own_ms.high
    assert extras["tls", "operation"].cpu_ms.value == pytest.approx(0.002 / 20 * 1e3, rel=0.01)
    assert extras["ssh-aes256-ctr", "connection"].round_trips == -1


def test_predictions_meet_what_was_measured(tmp_path: Path) -> None:
    model = analyse(made_up(tmp_path / "run", plan_for("distance=lan,us-us,us-eu"), mysql_truth)).sections.cost_model
    assert model is not None
    far = [prediction for prediction in model.predictions if not prediction.local]
    assert {prediction.arm for prediction in far} >= {"plain@us-us", "tls@us-eu", "ssh-aes256-ctr@us-eu"}
    assert len(far) == 3 * 3 * 2
    for prediction in far:
        assert prediction.error is not None
        assert abs(prediction.error) < 0.02


def test_a_model_can_come_from_a_far_link_alone(tmp_path: Path) -> None:
    model = analyse(
        made_up(tmp_path / "run", plan_for("distance=us-us"), mysql_truth, noise=0.0001)
    ).sections.cost_model
    assert model is not None
    own = next(c.own_ms for c in model.operations if c.protection == "tls" and c.operation == "connection")
    assert own.value == pytest.approx(sum(OWN.values()) + TLS_OWN, abs=0.05)


def test_an_arm_that_was_refused_is_an_error_and_the_others_are_told(tmp_path: Path) -> None:
    plan = plan_for("distance=lan")
    result = analyse(made_up(tmp_path / "run", plan, mysql_truth, refused={"tls": "it speaks no TLS"}))
    errors = {arm.name: arm.error for arm in result.arms}
    assert errors["tls"] == "it speaks no TLS"
    assert errors["plain"] is None
    assert {effect.arm for effect in result.effects} == {"ssh-aes256-ctr"}


def test_without_the_control_there_are_figures_and_no_effects(tmp_path: Path) -> None:
    refused = {"plain": "it asks for TLS", "plain-twin": "it asks for TLS"}
    result = analyse(made_up(tmp_path / "run", plan_for("distance=lan"), mysql_truth, refused=refused))
    assert not result.effects
    assert any(value.arm == "tls" for value in result.values)
    assert any("control cannot run" in warning for warning in result.warnings)


def test_an_arm_lost_in_the_middle_is_its_own_error(tmp_path: Path) -> None:
    ledger = made_up(tmp_path / "run", plan_for("distance=lan"), mysql_truth)
    ledger.append(LostRecord(arm="ssh-aes256-ctr", detail="its tunnel ended"))
    result = analyse(ledger)
    assert next(arm.error for arm in result.arms if arm.name == "ssh-aes256-ctr") == "its tunnel ended"
    assert any("its tunnel ended" in warning for warning in result.warnings)
    assert result.partial is None


def test_a_run_that_never_started(tmp_path: Path) -> None:
    ledger = Ledger.create(plan_for("distance=lan"), tmp_path / "run")
    with pytest.raises(CostofError) as caught:
        analyse(ledger)
    assert caught.value.problem is Problem.NOTHING_MEASURED


def test_a_run_that_was_killed_says_so(tmp_path: Path) -> None:
    ledger = Ledger.create(plan_for("distance=lan"), tmp_path / "run")
    ledger.append(EnvironmentRecord(started="2026-01-01T00:00:00+00:00", facts={}))
    assert analyse(ledger).partial == "it was ended from outside"
