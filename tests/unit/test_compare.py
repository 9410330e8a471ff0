"""Two runs of one study, whose truths are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.analysis.compare import Change, compare_runs
from costof.cli.compare import compare
from costof.errors import CostofError, Problem
from costof.report import analyse
from costof.report.result import Result
from costof.statistics.estimate import Verdict
from tests.fake_run import Truth, fake_run
from tests.noise import Noise
from tests.support.small_plans import plan_of

STUDY, HEADLINE = "mongodb-tls", "wire.connect_and_first_query"


def run_of(folder: Path, cost: float, seed: int, study: str = STUDY, speed: float = 1.0) -> Result:
    arms = {"plain": speed, "plain-twin": speed, "tls": cost * speed}
    truth = Truth({("wire_connect", arm): times for arm, times in arms.items()})
    return analyse(fake_run(folder / f"{study}-{seed}", plan_of(study), truth, rounds=12, noise=Noise(0.02), seed=seed))


def change_of(changes: list[Change]) -> Change:
    return next(change for change in changes if change.metric == HEADLINE)


def test_the_same_cost_on_a_slower_machine_is_no_change(tmp_path: Path) -> None:
    """Compared in milliseconds, a third of all costs had changed."""
    called = 0
    for seed in range(0, 16, 2):
        first, second = run_of(tmp_path, 1.5, seed), run_of(tmp_path, 1.5, seed + 1, speed=1.05)
        changes = compare_runs(first, second)
        called += any(change.verdict in (Verdict.COSTS, Verdict.SAVES) for change in changes)
    assert called <= 1


def test_a_cost_that_grew_is_said_to_have(tmp_path: Path) -> None:
    grown = change_of(compare_runs(run_of(tmp_path, 1.2, 1), run_of(tmp_path, 1.5, 2)))
    assert grown.verdict is Verdict.COSTS
    assert grown.change.low <= 1.25 <= grown.change.high
    shrunk = change_of(compare_runs(run_of(tmp_path, 1.5, 3), run_of(tmp_path, 1.2, 4)))
    assert shrunk.verdict is Verdict.SAVES


def test_limits_of_a_change_end_it_as_they_end_the_gate(tmp_path: Path) -> None:
    for seed, cost in enumerate((1.5, 1.8, 1.5)):
        run_of(tmp_path, cost, seed)
    first, dearer, same = (str(tmp_path / f"{STUDY}-{seed}") for seed in range(3))

    def ended(second: str, limit: str) -> int:
        arguments = [first, second, "--limit", HEADLINE, limit]
        return CliRunner().invoke(compare, arguments, standalone_mode=False).exit_code

    assert (ended(dearer, "+40%"), ended(dearer, "+5%"), ended(same, "+5%"), ended(same, "+0%")) == (0, 4, 0, 3)
    with pytest.raises(CostofError, match=r"\+10%") as refused:
        CliRunner().invoke(
            compare, [first, same, "--limit", HEADLINE, "+1ms"], standalone_mode=False, catch_exceptions=False
        )
    assert refused.value.problem is Problem.BAD_LIMIT


def test_two_runs_are_shown_whole_on_a_narrow_console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for seed, cost in enumerate((1.5, 1.8)):
        run_of(tmp_path, cost, seed)
    first, second = (str(tmp_path / f"{STUDY}-{seed}") for seed in range(2))
    shown = CliRunner().invoke(compare, [first, second], catch_exceptions=False).output
    assert "connect and first query, on the wire" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    found = json.loads(CliRunner().invoke(compare, [first, second, "--json"], catch_exceptions=False).output)
    (change,) = (each for each in found["changes"] if each["metric"] == HEADLINE)
    assert change["verdict"] == Verdict.COSTS.value
    assert found["differences"] == []


def test_that_a_lab_and_a_server_of_ones_own_differ_is_told(tmp_path: Path) -> None:
    plan = plan_of(STUDY)
    of_theirs = plan.model_copy(update={"target": "mongodb://db.example/"})
    for name, each in (("lab", plan), ("theirs", of_theirs)):
        fake_run(tmp_path / name, each, Truth(), rounds=6)
    runs = [str(tmp_path / "lab"), str(tmp_path / "theirs")]
    told = CliRunner().invoke(compare, runs, catch_exceptions=False).output
    said = "The first run asked a lab of costof's own, the second mongodb://db.example/"
    assert said in " ".join(told.split())


def test_runs_of_two_studies_have_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(CostofError) as refused:
        compare_runs(run_of(tmp_path, 1.0, 1), run_of(tmp_path, 1.0, 2, study="mysql-transport"))
    assert refused.value.problem is Problem.NOT_A_RUN
