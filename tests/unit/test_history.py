"""Costs over many runs: where they changed, and where they did not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costof.model import HIDDEN
from costof.report import analyse
from costof.results.history import FEWEST_RUNS, History, histories
from costof.results.index import Index
from costof.results.models import Core
from costof.statistics.intervals import estimate
from costof.study.load import LoadAsked
from costof.study.plan import Plan
from tests.fake_run import Truth, fake_run
from tests.support.command import costof
from tests.support.small_plans import plan_of
from tests.truths.at_load import AtLoad

#: A headline metric of mongodb-tls.
METRIC = "app.reused_query"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Core:
    return analyse(fake_run(tmp_path_factory.mktemp("runs") / "one", plan_of("mongodb-tls"), Truth(), rounds=6))


def series(run: Core, ratios: list[float], spread: float = 0.01) -> History:
    """The history of one effect whose runs have these ratios, given newest first."""
    effect = next(each for each in run.effects if each.metric == METRIC)
    indexes = []
    for number, ratio in enumerate(ratios):
        own = effect.model_copy(update={"ratio": estimate([ratio * (1 + each * spread) for each in (-2, -1, 0, 1, 2)])})
        changes = {"effects": [own], "run": f"run-{number:02}", "started": f"2026-01-{number + 1:02}"}
        indexes.append(Index(run.model_copy(update=changes)))
    (found,) = histories(indexes[::-1])
    return found


def test_a_cost_that_rises_for_good_has_changed_there(run: Core) -> None:
    noise = np.random.default_rng(1).normal(1.0, 0.01, 20)
    found = series(run, [*(1.10 * noise[:12]), *(1.25 * noise[12:])])
    assert found.steps is not None
    (step,) = found.steps
    assert step.first == "run-12"
    assert (step.before, step.after) == (pytest.approx(1.10, rel=0.02), pytest.approx(1.25, rel=0.02))
    assert [point.run for point in found.points] == sorted(point.run for point in found.points)


def test_one_run_that_stands_out_is_no_change(run: Core) -> None:
    noise = np.random.default_rng(2).normal(1.0, 0.01, 20)
    noise[9] = 1.05
    assert series(run, [*(1.1 * noise)]).steps == []


def test_runs_that_differ_by_less_than_they_can_tell_have_not_changed(run: Core) -> None:
    assert series(run, [1.10] * 6 + [1.11] * 6, spread=0.05).steps == []
    assert series(run, [1.10] * 8, spread=0.0).steps == []


def test_a_series_without_a_change_rarely_has_one(run: Core) -> None:
    """At most 4 % of them, by the penalty; of 60 that are 2.4, and more than 8 by chance once in a thousand."""
    chance = np.random.default_rng(3)
    found = [series(run, [*(1.1 * chance.normal(1.0, 0.01, 15))]).steps for _ in range(60)]
    assert sum(bool(steps) for steps in found) <= 8


def test_few_runs_tell_nothing(run: Core) -> None:
    assert series(run, [1.0] * (FEWEST_RUNS - 2) + [2.0]).steps is None


def test_the_command_prints_draws_and_gives_json(tmp_path: Path) -> None:
    for number in range(3):
        plan = plan_of("mongodb-tls", seed=number)
        fake_run(tmp_path / "runs" / f"run-{number}", plan, Truth({("wire_query", "tls"): 1.3}), rounds=6, seed=number)
    (tmp_path / "runs" / "no-run").mkdir()
    ended = costof("history", "runs", "--out", "history.html", cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert "reused query" in ended.out
    assert f"from {FEWEST_RUNS} runs on" in ended.out
    assert (tmp_path / "history.html").read_text().count("<svg") == 2 * 4, "each for a page and for a phone"
    told = json.loads(costof("history", "runs", "--json", cwd=tmp_path).out)
    (series,) = told["series"]
    assert (series["title"], series["changes"]) == ("", [])
    assert series["runs"] == ["run-0", "run-1", "run-2"]
    assert {len(each["points"]) for each in series["histories"]} == {3}


class Server(Truth):
    def __init__(self, version: str, effects: Mapping[tuple[str, str], float] | None = None) -> None:
        super().__init__(effects)
        self.version = version

    def versions(self) -> dict[str, str]:
        return {"mongod": self.version}


def series_of(folder: Path, runs: Mapping[str, tuple[Plan, Truth]]) -> list[dict[str, Any]]:
    for name, (plan, truth) in runs.items():
        fake_run(folder / "runs" / name, plan, truth, rounds=2)
    found: list[dict[str, Any]] = json.loads(costof("history", "runs", "--json", cwd=folder).out)["series"]
    return found


def test_runs_on_two_releases_are_two_series_and_a_patch_is_said(tmp_path: Path) -> None:
    plan = plan_of("mongodb-tls")
    versions = {"run-0": "7.0.14", "run-1": "8.0.4", "run-2": "7.0.15", "run-3": "8.0.4"}
    older, newer = series_of(tmp_path, {name: (plan, Server(version)) for name, version in versions.items()})
    assert (older["title"], older["runs"]) == ("mongod 7.0", ["run-0", "run-2"])
    assert older["changes"] == ["mongod was 7.0.14 at first and 7.0.15 from run-2 on."]
    assert (newer["title"], newer["runs"], newer["changes"]) == ("mongod 8.0", ["run-1", "run-3"], [])
    printed = costof("history", "runs", "--out", "history.html", cwd=tmp_path)
    assert "4 runs in 2 series" in printed.out
    assert "mongod 7.0 (2 runs)" in printed.out
    page = (tmp_path / "history.html").read_text()
    assert page.index("mongod 7.0 (2 runs)") < page.index("mongod 8.0 (2 runs)")


def test_runs_at_two_loads_are_two_series(tmp_path: Path) -> None:
    plans = {
        rate: plan_of("postgres-tls", "quick", "transport=plain,tls", load=LoadAsked(rate, "20"))
        for rate in ("100/s", "300/s")
    }
    found = series_of(tmp_path, {f"run-{rate[:3]}": (plan, AtLoad()) for rate, plan in plans.items()})
    assert [each["title"] for each in found] == [
        "100 new connections a second, 20 queries each",
        "300 new connections a second, 20 queries each",
    ]


@pytest.mark.parametrize(
    ("settings", "target", "title"),
    [
        (["key=ecdsa-p256"], None, "key ecdsa-p256"),
        (["transport=plain,tls", "group=x25519"], None, "group x25519"),
        ([], "mongodb://app@db.example/", "mongodb://app@db.example/"),
    ],
)
def test_runs_with_other_levels_or_of_other_servers_are_a_series_of_their_own(
    settings: list[str], target: str | None, title: str, tmp_path: Path
) -> None:
    usual, other = plan_of("mongodb-tls"), plan_of("mongodb-tls", "quick", *settings)
    other = other.model_copy(update={"target": target})
    _, apart = series_of(tmp_path, {"run-0": (usual, Truth()), "run-1": (other, Truth())})
    assert apart["runs"] == ["run-1"]
    assert title in apart["title"]


def test_a_password_in_the_url_makes_no_other_server(tmp_path: Path) -> None:
    urls = {"run-0": f"mongodb://app:{HIDDEN}@db.example/", "run-1": "mongodb://app@db.example/"}
    plans = {name: plan_of("mongodb-tls").model_copy(update={"target": url}) for name, url in urls.items()}
    (one,) = series_of(tmp_path, {name: (plan, Truth()) for name, plan in plans.items()})
    assert one["runs"] == ["run-0", "run-1"]


def test_another_number_of_records_is_said_within_the_series(tmp_path: Path) -> None:
    plans = {f"run-{number}": plan_of("mongodb-tls", "quick", f"records={number}00") for number in (5, 7)}
    (one,) = series_of(tmp_path, {name: (plan, Truth()) for name, plan in plans.items()})
    assert one["changes"] == ["Records loaded: 500 at first and 700 from run-7 on."]


def test_runs_of_several_studies_have_to_be_told_apart(tmp_path: Path) -> None:
    for study in ("mongodb-tls", "redis-tls"):
        fake_run(tmp_path / "runs" / study, plan_of(study), Truth(), rounds=2)
    (tmp_path / "empty").mkdir()
    wrong = {("runs",): "say which with --study", ("runs", "--study", "x"): "holds no runs of x"}
    wrong |= {("empty",): "holds no runs", ("nowhere",): "No such file"}
    for arguments, said in wrong.items():
        ended = costof("history", *arguments, cwd=tmp_path)
        assert (ended.status, len(ended.told)) == (2, 1), arguments
        assert said in ended.err
    assert costof("history", "runs", "--study", "redis-tls", cwd=tmp_path).status == 0
