"""Two runs of one study, whose truths are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.compare import compare
from costof.errors import CostofError, Problem
from costof.report import analyse
from costof.report.result import Result
from costof.results.compare import Change, compare_runs
from costof.results.ledger import EnvironmentRecord, Ledger
from costof.results.series import conditions_of, differences, release_of, versions_of
from costof.statistics.estimate import Verdict
from costof.study.load import LoadAsked
from tests.fake_run import Truth, fake_run
from tests.noise import Noise
from tests.support.small_plans import plan_of
from tests.truths.at_load import AtLoad

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


def test_runs_of_two_studies_are_refused_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(CostofError, match="mysql-transport") as refused:
        compare_runs(run_of(tmp_path, 1.0, 1), run_of(tmp_path, 1.0, 2, study="mysql-transport"))
    assert refused.value.problem is Problem.OTHER_STUDY
    assert STUDY in str(refused.value)
    assert "is not the folder of a run" not in str(refused.value)


def loaded(folder: Path, rate: str) -> str:
    load = LoadAsked(rate, "20")
    plan = plan_of("postgres-tls", "quick", "transport=plain,tls", load=load)
    fake_run(folder / rate.replace("/", "-"), plan, AtLoad(), rounds=6)
    return str(folder / rate.replace("/", "-"))


def test_a_change_of_cost_is_not_called_between_two_loads(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, "300/s"), loaded(tmp_path, "100/s")
    done = CliRunner().invoke(compare, [first, second], catch_exceptions=False)
    said = " ".join(done.output.split())
    assert done.exit_code == 0
    assert (
        "The first run asked for 300 new connections a second, 20 queries each; the second for 100 new connections a "
        "second, 20 queries each."
    ) in said
    assert "No cost is called changed, since the runs had different loads." in said
    assert not [words for words in ("costs more", "costs less", "no change") if words in said]
    found = json.loads(CliRunner().invoke(compare, [first, second, "--json"], catch_exceptions=False).output)
    assert found["changes"]
    assert {(each["change"], each["verdict"]) for each in found["changes"]} == {(None, None)}


def test_a_limit_cannot_be_told_between_two_loads(tmp_path: Path) -> None:
    arguments = [loaded(tmp_path, "300/s"), loaded(tmp_path, "100/s"), "--limit", "new connection", "+50%"]
    done = CliRunner().invoke(compare, arguments, standalone_mode=False)
    assert done.exit_code == 3
    assert "cannot be told yet: 'new connection'" in done.output
    assert done.output.rstrip().endswith("the runs had different loads")


def test_an_arm_with_another_level_is_not_called_changed(tmp_path: Path) -> None:
    """By name it is the same arm: a level that does not vary in a run is not in its name."""
    for key in ("rsa-2048", "ecdsa-p256"):
        fake_run(tmp_path / key, plan_of(STUDY, "quick", "transport=plain,tls", f"key={key}"), Truth(), rounds=6)
    runs = [str(tmp_path / key) for key in ("rsa-2048", "ecdsa-p256")]
    found = json.loads(CliRunner().invoke(compare, [*runs, "--json"], catch_exceptions=False).output)
    assert found["differences"] == ["tls: key is rsa-2048 in the first run and ecdsa-p256 in the second."]
    assert {each["verdict"] for each in found["changes"]} == {None}
    done = CliRunner().invoke(compare, [*runs, "--limit", HEADLINE, "+50%"], standalone_mode=False)
    assert (done.exit_code, "its levels differ between the runs" in done.output) == (3, True)


class Server(Truth):
    def __init__(self, version: str) -> None:
        super().__init__()
        self.version = version

    def versions(self) -> dict[str, str]:
        return {"mongod": self.version}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("8.0.4", "mongod is 7.0.14 in the first run and 8.0.4 in the second."),
        ("7.0.15", "mongod is 7.0.14 in the first run and 7.0.15 in the second, a patch of one release."),
    ],
)
def test_another_version_of_the_server_is_said(tmp_path: Path, second: str, said: str) -> None:
    for name, version in (("first", "7.0.14"), ("second", second)):
        fake_run(tmp_path / name, plan_of(STUDY), Server(version), rounds=6)
    runs = [str(tmp_path / name) for name in ("first", "second")]
    found = json.loads(CliRunner().invoke(compare, [*runs, "--json"], catch_exceptions=False).output)
    assert found["differences"] == [said]
    assert None not in {each["verdict"] for each in found["changes"]}


def test_arms_and_records_of_one_run_alone_are_said(tmp_path: Path) -> None:
    settings = {
        "first": ["transport=plain,tls", "records=500"],
        "second": ["transport=plain,tls,stunnel-both", "records=700"],
    }
    for name, chosen in settings.items():
        fake_run(tmp_path / name, plan_of("redis-tls", "quick", *chosen), Truth(), rounds=2)
    one, other = (conditions_of(Ledger.open(tmp_path / name)) for name in settings)
    assert [*differences(one, other)] == [
        "Only the second run has stunnel-both.",
        "The first run loaded 500 records, the second 700.",
    ]


def test_versions_of_ledgers_of_before_are_found_among_their_facts() -> None:
    facts = {"kernel": "6.1", "load before": "0.1", "postgres": "17.5", "topology": "one server", "scale": "32"}
    assert versions_of(EnvironmentRecord(started="", facts=facts)) == {"postgres": "17.5"}
    assert versions_of(EnvironmentRecord(started="", facts={"cores": 2})) == {}


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("17.5 (Debian 17.5-1.pgdg12+1)", "17"),
        ("11.4.5-MariaDB-log (mariadb.org binary distribution)", "11.4"),
        ("8.0.36", "8.0"),
        ("7.2.4", "7.2"),
        ("unknown", "unknown"),
    ],
)
def test_the_release_of_a_version_leaves_out_its_patch(version: str, release: str) -> None:
    assert release_of(version) == release
