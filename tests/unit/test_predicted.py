"""`--distance` on a target: what is predicted is what a lab at that distance measures, where the truth is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costof.errors import CostofError
from costof.report import analyse, render_markdown
from costof.report.result import Result
from costof.report.sections.predicted import PredictedEffect
from costof.study.arms import PlannedArm
from costof.study.library import load_study
from costof.study.load import CONNECTION, QUERY, LoadAsked
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Slice, Truth, fake_run, phase_of
from tests.noise import Chance, Noise
from tests.report.results import printed, spaced, told
from tests.truths.at_load import CONNECT, LATER, AtLoad
from tests.truths.mysql_transport import TransportTruth

FRESH = LoadAsked("300/s", "20")
CHOSEN = ["transport=plain,tls"]


def plan(*settings: str, target: str | None = "mysql://app@db/", load: LoadAsked = FRESH) -> Plan:
    options = Options(profile="quick", settings=[*CHOSEN, *settings], target=target, load=load, seed=1)
    return resolve(load_study("mysql-transport"), options)


def result(folder: Path, asked: Plan, truth: Truth) -> Result:
    return analyse(fake_run(folder / "run", asked, truth, rounds=8, noise=Noise(0.01)))


class FarAway(AtLoad):
    """Whose handshakes take half a millisecond, which connections hold too."""

    def slice(self, plan: Plan, workload: str, arm: PlannedArm, chance: Chance) -> Slice:
        found = super().slice(plan, workload, arm, chance)
        return replace(found, phases={**found.phases, "tcp": phase_of(0.5, 100, 1, 10, 10, spread=0.0)})


def effect(of: Result, metric: str, distance: float = 2.0) -> PredictedEffect:
    predicted = of.sections.predicted
    assert predicted is not None
    (found,) = (each for each in predicted.effects if (each.metric, each.round_trip_ms) == (metric, distance))
    return found


@pytest.mark.parametrize("said", ["2", "2ms", "2.0"])
def test_a_target_is_measured_as_it_is_and_the_distance_is_predicted(said: str) -> None:
    asked = plan(f"distance={said}")
    assert asked.predicted_ms == [2.0]
    assert {arm.levels["distance"] for arm in asked.arms} == {"as served"}
    assert plan("distance=lan,us-us").predicted_ms == [0.0, 44.648]
    assert plan("distance=2", target=None).predicted_ms == []


def test_what_is_predicted_at_a_load_is_what_a_lab_there_measures(tmp_path: Path) -> None:
    predicted = result(tmp_path / "target", plan("distance=2"), AtLoad())
    measured = result(tmp_path / "lab", plan("distance=2", target=None), AtLoad())
    for metric, (control, arm) in ((CONNECTION, CONNECT), (QUERY, LATER)):
        found = effect(predicted, metric)
        (there,) = (each for each in measured.effects if (each.metric, each.arm) == (metric, "tls"))
        assert (found.control_round_trips, found.round_trips) == (control[1], arm[1])
        truth = arm[0] + 2 * arm[1] - control[0] - 2 * control[1]
        assert found.difference.value == pytest.approx(truth, rel=0.02, abs=0.001)
        assert found.difference.value == pytest.approx(there.difference.value, rel=0.02, abs=0.001)
        assert found.ratio is not None
        assert there.ratio is not None
        assert found.ratio.value == pytest.approx(there.ratio.value, rel=0.01)


def test_the_way_of_the_run_itself_is_not_counted_twice(tmp_path: Path) -> None:
    predicted = result(tmp_path, plan("distance=2"), FarAway())
    assert predicted.sections.predicted is not None
    assert predicted.sections.predicted.here_ms == pytest.approx(0.5, rel=0.02)
    # A round trip more, of 2 ms, of which half a millisecond was there already.
    assert effect(predicted, CONNECTION).difference.value == pytest.approx(1.4 + 1.5, rel=0.02)


def test_terminal_and_page_say_that_it_is_predicted_and_from_what(tmp_path: Path) -> None:
    predicted = result(tmp_path, plan("distance=2"), FarAway())
    (said,) = (text for text in told(predicted.answer, "answer") if text.startswith("Predicted for 2 ms away, "))
    assert "from times measured 0.5 ms away and round trips counted on the wire: TLS, modern suite, as served " in said
    assert " adds 2.894 ms (95 % interval 2.883 to 2.906, +90.4 %) to a new connection and " in said
    for rendered in (spaced(printed(predicted)), spaced(render_markdown(predicted))):
        assert "Predicted for 2 ms away, from times measured 0.5 ms away and round trips counted" in " ".join(
            rendered.split()
        )
    assert "predicted for 2 ms away" in spaced(render_markdown(predicted))


def test_connections_that_would_be_more_than_were_measured_are_said(tmp_path: Path) -> None:
    far = result(tmp_path, plan("distance=us-eu"), AtLoad())
    (said,) = (text for text in told(far.answer, "answer") if text.startswith("Predicted for 170.126 ms away, "))
    # 300 a second, of 3 + 20 round trips each.
    assert "Clients would hold about 1,1" in said
    assert "connections at once there, and of more than 96 this run says nothing." in said


def test_without_a_load_only_operations_that_do_not_queue_are_predicted(tmp_path: Path) -> None:
    predicted = result(tmp_path, plan("distance=us-us", load=LoadAsked()), TransportTruth())
    assert predicted.sections.predicted is not None
    names = {each.metric for each in predicted.sections.predicted.effects}
    assert names >= {"wire.connect", "wire.query_1"}
    assert not {name for name in names if "32" in name or "per_second" in name}


def test_a_run_that_is_asked_for_no_distance_predicts_nothing(tmp_path: Path) -> None:
    assert result(tmp_path, plan(), AtLoad()).sections.predicted is None


def test_a_distance_of_a_study_without_one_is_a_number_of_milliseconds() -> None:
    http = load_study("http-tls-termination")
    plan = resolve(http, Options(target="https://h/", settings=["distance=2ms, 0.5"]))
    assert plan.predicted_ms == [2.0, 0.5]
    with pytest.raises(CostofError) as refused:
        resolve(http, Options(target="https://h/", settings=["distance=far"]))
    assert "'far'" in str(refused.value)
    assert "--distance" in str(refused.value)
