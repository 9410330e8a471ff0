"""`costof gate`, `compare` and `history`, on fake runs with known costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from junitparser import Error, Failure, JUnitXml

from costof.cli.compare import compare, verdict_words
from costof.cli.gate import gate
from costof.cli.history import history
from costof.errors import CostofError, ErrorText
from costof.model import HIDDEN
from costof.report import analyse
from costof.results.compare import Change, compare_runs
from costof.results.core import build_core
from costof.results.history import FEWEST_RUNS, History, histories
from costof.results.index import Index
from costof.results.ledger import EnvironmentRecord, Ledger
from costof.results.models import Core
from costof.results.run import read_run
from costof.results.series import differences, read_conditions, release_number, server_versions
from costof.statistics.estimate import Verdict
from costof.statistics.intervals import estimate
from costof.study.library import load_study
from costof.study.load import RequestedLoad
from costof.study.options import parse_limits
from costof.study.plan import Options, Plan, resolve
from tests.fake_run import Truth, fake_result, fake_run
from tests.noise import Noise
from tests.report.results import HTTP, MONGODB, effect_of
from tests.support.small_plans import plan_of
from tests.truths.at_load import AtLoad
from tests.truths.http_tls_termination import HttpTruth
from tests.truths.mongodb_tls import MongodbTruth

HEADLINE, QUERY = "wire.connect_and_first_query", "app.reused_query"
QUERY_LABEL = "query on open connection"
PLAN = plan_of(MONGODB)
Runs = Mapping[str, tuple[Plan, Truth]]


def called(command: click.Command, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(each) for each in arguments], standalone_mode=False)


def refused(command: click.Command, *arguments: object) -> CostofError:
    error = called(command, *arguments).exception
    assert isinstance(error, CostofError)
    return error


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return fake_run(tmp_path_factory.mktemp("gate") / "run", PLAN, MongodbTruth(), rounds=8)


def limited(ledger: Ledger, *limits: str) -> Result:
    """Run `costof gate`. `limits` alternate between metrics and their limits, such as `"app.query", "+10%"`."""
    pairs = zip(limits[::2], limits[1::2], strict=True)
    return called(gate, ledger.folder, *(word for pair in pairs for word in ("--limit", *pair)))


def test_costof_gate_exits_with_0_if_all_limits_are_kept(measured: Ledger) -> None:
    done = limited(measured, QUERY_LABEL, "+10%", "app.connect_and_first_query", "+9ms")
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in done.output.splitlines()] == ["within"] * 3
    assert "within: 'query on open connection' on the wire +10%, TLS 1.3 (rsa-2048): +" in done.output


def test_exit_status_reports_an_exceeded_limit_even_if_another_limit_is_undecided(measured: Ledger) -> None:
    middle = effect_of(analyse(measured), QUERY, "tls").ratio
    assert middle is not None
    done = limited(measured, QUERY, f"+{(middle.value - 1) * 100:.4f}%")
    assert (done.exit_code, done.output.count("undecided")) == (3, 1)
    both = limited(measured, QUERY_LABEL, "+0.1%", "connect and first query", "+2%")
    assert (both.exit_code, both.output.count("exceeded: 'connect and first query'")) == (4, 2)


def test_limit_is_kept_only_if_the_whole_interval_is_within_it(measured: Ledger) -> None:
    metric = "app.connect_and_first_query"
    cost = effect_of(analyse(measured), metric, "tls").difference
    nearly = limited(measured, metric, f"+{cost.high - 0.1 * (cost.high - cost.value):.6f}ms")
    assert nearly.exit_code == 3
    assert "; measure for about " in nearly.output
    assert limited(measured, metric, f"+{cost.high + 0.001:.6f}ms").exit_code == 0


def test_limit_on_a_rate_is_exceeded_by_a_lower_rate(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(HTTP, "quick", "keep_alive=1"), HttpTruth(), rounds=9)
    for limit, ends in (("-95%", 0), ("-10%", 4), ("-1/s", 4)):
        assert limited(ledger, "requests a second", limit).exit_code == ends


def test_costof_gate_writes_junit_and_markdown_files(measured: Ledger, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "limits.xml", tmp_path / "limits.md"
    limits = ("--limit", QUERY_LABEL, "+10%", "--limit", "connect and first query", "+2%")
    assert called(gate, measured.folder, *limits, "--junit", junit, "--markdown", markdown).exit_code == 4
    (suite,) = JUnitXml.fromfile(str(junit))
    assert (suite.tests, suite.failures, suite.errors) == (4, 2, 0)
    failed = [case for case in suite if case.result]
    assert [type(case.result[0]) for case in failed] == [Failure, Failure]
    assert failed[0].classname == "TLS 1.3 (rsa-2048)"
    assert markdown.read_text().count("| exceeded |") == 2
    assert "choose another file" in str(refused(gate, measured.folder, *limits, "--junit", tmp_path / "no" / "x.xml"))


def test_costof_gate_prints_each_limit_and_arm_as_json(measured: Ledger) -> None:
    limits = ("--limit", QUERY, "+10%", "--limit", "connect and first query", "+2%")
    done = called(gate, measured.folder, *limits, "--json")
    assert done.exit_code == 4
    outcomes = json.loads(done.output)
    assert [each["limit"] for each in outcomes].count("+2%") == 2
    exceeded = next(each for each in outcomes if each["state"] == "exceeded")
    assert exceeded["change"]["low"] > 0.02
    assert exceeded["measured"]


def test_undecided_limit_is_a_junit_error(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", PLAN, MongodbTruth(), rounds=2)
    done = called(gate, ledger.folder, "--limit", QUERY, "+99%", "--junit", tmp_path / "limits.xml")
    assert done.exit_code == 3
    (suite,) = JUnitXml.fromfile(str(tmp_path / "limits.xml"))
    assert [type(result) for case in suite for result in case.result] == [Error]


def test_costof_gate_uses_limits_from_the_study_and_from_the_options_of_the_run(
    tmp_path: Path, measured: Ledger
) -> None:
    study = load_study(MONGODB).model_copy(update={"limits": {QUERY_LABEL: "+10%"}})
    plan = resolve(study, Options("quick"))
    assert [(each.metric, each.worst) for each in plan.limits] == [(QUERY, 0.1), ("wire.reused_query", 0.1)]
    plan = resolve(study, Options("quick", limits=[("app.connect_and_first_query", "+100us")]))
    assert [(each.worst, each.relative) for each in plan.limits] == [(0.1, False)]
    assert limited(fake_run(tmp_path / "run", plan, MongodbTruth(), rounds=9)).exit_code == 4
    assert "--limit METRIC LIMIT" in str(refused(gate, measured.folder)), "a run without limits"


@pytest.mark.parametrize(
    ("metric", "limit", "text"),
    [
        ("querry on open connection", "+10%", r"did you mean 'query on open connection'\?"),
        *((QUERY_LABEL, limit, r"write it as \+10% or \+2ms") for limit in ("10%", "-10%", "+10/s", "+ten%")),
    ],
)
def test_costof_gate_refuses_an_invalid_limit(metric: str, limit: str, text: str) -> None:
    with pytest.raises(CostofError, match=text):
        parse_limits(load_study(MONGODB), [(metric, limit)])


def test_limit_may_name_a_metric_by_the_label_that_older_versions_used() -> None:
    older, present = (parse_limits(load_study(MONGODB), [(name, "+10%")]) for name in ("reused query", QUERY_LABEL))
    assert older == present != []


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ([(QUERY_LABEL, "+20%")], "All 2 limits are kept."),
        ([("app.connect_and_first_query", "+9ms"), ("connect and first query", "+1ms")], "2 of 3 limits are exceeded."),
    ],
)
def test_report_states_first_whether_the_limits_are_kept(limits: list[tuple[str, str]], text: str) -> None:
    assert fake_result(plan_of(MONGODB, limits=limits), MongodbTruth(), rounds=6).answer[0].text == text


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs that differ in the cost of TLS, or in the speed of their machine."""
    folder = tmp_path_factory.mktemp("costs")
    runs = {"first": (1.5, 1.0), "same": (1.5, 1.0), "dearer": (1.8, 1.0), "slower": (1.5, 2.0)}
    for seed, (name, (cost, slowness)) in enumerate(runs.items()):
        arms = {"plain": slowness, "plain-copy": slowness, "tls": cost * slowness}
        truth = Truth({("wire_connect", arm): times for arm, times in arms.items()})
        fake_run(folder / name, PLAN, truth, rounds=8, noise=Noise(0.02), seed=seed)
    return folder


@pytest.fixture(scope="module")
def cores(costs: Path) -> dict[str, Core]:
    return {path.name: build_core(read_run(Ledger.open(path)), path.name) for path in costs.iterdir()}


def change_of(changes: list[Change]) -> Change:
    return next(change for change in changes if change.metric == HEADLINE)


def test_equal_relative_cost_on_a_slower_machine_is_not_a_change(cores: dict[str, Core]) -> None:
    first, slower = cores["first"], cores["slower"]
    added = [effect_of(core, HEADLINE, "tls").difference for core in (first, slower)]
    assert added[0].high < added[1].low, "in milliseconds the cost has grown"
    assert change_of(compare_runs(first, slower)).verdict not in (Verdict.COSTS, Verdict.SAVES)


def test_cost_that_is_larger_in_the_second_run_is_detected(cores: dict[str, Core]) -> None:
    grown = change_of(compare_runs(cores["first"], cores["dearer"]))
    assert grown.verdict is Verdict.COSTS
    assert grown.change.low <= 1.2 <= grown.change.high
    assert change_of(compare_runs(cores["dearer"], cores["first"])).verdict is Verdict.SAVES


def test_cost_whose_interval_includes_0_is_not_compared_between_runs(cores: dict[str, Core]) -> None:
    """Changes are computed from logarithms, and 0 has no logarithm."""
    first, second = cores["first"], cores["dearer"]
    wide = [
        effect.model_copy(update={"ratio": effect.ratio.model_copy(update={"low": -0.1})}) for effect in first.effects
    ]
    change = change_of(compare_runs(first.model_copy(update={"effects": wide}), second))
    assert (change.change, change.verdict, verdict_words(change)) == (None, None, "too uncertain")


def test_costof_compare_with_limits_has_the_exit_statuses_of_costof_gate(costs: Path) -> None:
    for second, limit, ends in (("dearer", "+40%", 0), ("dearer", "+5%", 4), ("same", "+0%", 3)):
        assert called(compare, costs / "first", costs / second, "--limit", HEADLINE, limit).exit_code == ends
    error = refused(compare, costs / "first", costs / "same", "--limit", HEADLINE, "+1ms")
    assert error.message is ErrorText.BAD_LIMIT
    assert "+10%" in str(error)


def test_comparison_is_not_truncated_on_a_narrow_console(costs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    runs = [costs / "first", costs / "dearer"]
    shown = called(compare, *runs).output
    assert "connect and first query, on the wire" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    comparison = json.loads(called(compare, *runs, "--json").output)
    (change,) = (each for each in comparison["changes"] if each["metric"] == HEADLINE)
    assert (change["verdict"], comparison["differences"]) == (Verdict.COSTS.value, [])


def test_runs_of_two_studies_are_not_compared(cores: dict[str, Core]) -> None:
    with pytest.raises(CostofError, match="mysql-transport") as caught:
        compare_runs(cores["first"], cores["same"].model_copy(update={"study": "mysql-transport"}))
    assert caught.value.message is ErrorText.OTHER_STUDY
    assert MONGODB in str(caught.value)


def made(folder: Path, runs: Runs, rounds: int = 2) -> list[Path]:
    for name, (plan, truth) in runs.items():
        fake_run(folder / "runs" / name, plan, truth, rounds=rounds)
    return [folder / "runs" / name for name in runs]


def test_comparison_of_a_lab_run_with_a_target_run_names_both_servers(tmp_path: Path) -> None:
    theirs = PLAN.model_copy(update={"target": "mongodb://db.example/"})
    runs = made(tmp_path, {"lab": (PLAN, Truth()), "theirs": (theirs, Truth())})
    (difference,) = differences(*(read_conditions(Ledger.open(run)) for run in runs))
    assert difference.startswith("The first run measured the lab, the second mongodb://db.example/")


def at_loads() -> Runs:
    return {
        rate.replace("/", "-"): (
            plan_of("postgres-tls", "quick", "transport=plain,tls", load=RequestedLoad(rate, "20")),
            AtLoad(),
        )
        for rate in ("300/s", "100/s")
    }


def test_comparison_of_runs_with_different_loads_has_no_verdicts(tmp_path: Path) -> None:
    runs = made(tmp_path, at_loads(), 6)
    done = called(compare, *runs, "--limit", "new connection", "+50%")
    assert done.exit_code == 3
    assert "undecided: 'new connection'" in done.output
    assert done.output.rstrip().endswith("the runs had different loads")
    output = " ".join(done.output.split())
    first, second = (f"{rate} new connections a second, 20 queries each" for rate in (300, 100))
    assert f"Load: {first} (first run); {second} (second run)." in output
    assert "Changes have no verdict, because the runs had different loads." in output
    assert not [words for words in ("costs more", "costs less", "no change") if words in output]
    comparison = json.loads(called(compare, *runs, "--json").output)
    assert {(each["change"], each["verdict"]) for each in comparison["changes"]} == {(None, None)}


def test_arm_with_different_settings_in_two_compared_runs_has_no_verdict(tmp_path: Path) -> None:
    """Arms of both runs have the same name, because it contains only levels of factors that vary."""
    keys = ("rsa-2048", "ecdsa-p256")
    plans = {key: plan_of(MONGODB, "quick", "transport=plain,tls", f"key={key}") for key in keys}
    runs = made(tmp_path, {key: (plan, Truth()) for key, plan in plans.items()})
    comparison = json.loads(called(compare, *runs, "--json").output)
    assert comparison["differences"] == ["tls: key is rsa-2048 in the first run and ecdsa-p256 in the second."]
    assert {each["verdict"] for each in comparison["changes"]} == {None}
    done = called(compare, *runs, "--limit", HEADLINE, "+50%")
    assert (done.exit_code, "its levels differ between the runs" in done.output) == (3, True)


class Server(Truth):
    """Simulated runs on this version of a server. `name` is that of the lab's program, or "server" for a target."""

    def __init__(self, version: str, name: str = "mongod") -> None:
        super().__init__()
        self.version, self.name = version, name

    def versions(self) -> dict[str, str]:
        return {self.name: self.version}


def test_changes_have_verdicts_even_if_the_versions_of_the_servers_differ(tmp_path: Path) -> None:
    first, second, patch = made(tmp_path, {each: (PLAN, Server(each)) for each in ("7.0.14", "8.0.4", "7.0.15")}, 6)
    comparison = json.loads(called(compare, first, second, "--json").output)
    assert comparison["differences"] == ["mongod is 7.0.14 in the first run and 8.0.4 in the second."]
    assert None not in {each["verdict"] for each in comparison["changes"]}
    assert [*differences(*(read_conditions(Ledger.open(run)) for run in (first, patch)))] == [
        "mongod is 7.0.14 in the first run and 7.0.15 in the second, a patch of one release."
    ]


def test_comparison_of_runs_reports_different_arms_and_different_numbers_of_records(tmp_path: Path) -> None:
    one = plan_of("redis-tls", "quick", "transport=plain,tls", "records=500")
    other = plan_of("redis-tls", "quick", "transport=plain,tls,stunnel-both", "records=700")
    runs = made(tmp_path, {"one": (one, Truth()), "other": (other, Truth())})
    assert [*differences(*(read_conditions(Ledger.open(run)) for run in runs))] == [
        "Only the second run has stunnel-both.",
        "The first run loaded 500 records, the second 700.",
    ]


def test_server_versions_are_read_from_the_facts_that_older_runs_recorded() -> None:
    facts = {"kernel": "6.1", "load before": "0.1", "postgres": "17.5", "topology": "one server", "scale": "32"}
    assert server_versions(EnvironmentRecord(started="", facts=facts)) == {"postgres": "17.5"}
    assert server_versions(EnvironmentRecord(started="", facts={"cores": 2})) == {}


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("17.5 (Debian 17.5-1.pgdg12+1)", "17"),
        ("11.4.5-MariaDB-log (mariadb.org binary distribution)", "11.4"),
        ("8.0.36", "8.0"),
        ("unknown", "unknown"),
    ],
)
def test_release_number_omits_the_patch_number_of_a_version(version: str, release: str) -> None:
    assert release_number(version) == release


@pytest.fixture(scope="module")
def run() -> Core:
    return fake_result(PLAN, Truth(), rounds=6)


def series(run: Core, ratios: list[float], spread: float = 0.01) -> History:
    """Return the history of one effect over several runs. `ratios` has the ratio in each run, the oldest first."""
    effect, indexes = effect_of(run, QUERY, "tls"), []
    for number, ratio in enumerate(ratios):
        run_effect = effect.model_copy(
            update={"ratio": estimate([ratio * (1 + each * spread) for each in (-2, -1, 0, 1, 2)])}
        )
        changes = {"effects": [run_effect], "run": f"run-{number:02}", "started": f"2026-01-{number + 1:02}"}
        indexes.append(Index(run.model_copy(update=changes)))
    (only_history,) = histories(indexes[::-1])
    return only_history


def test_costof_history_marks_a_lasting_rise_as_a_change(run: Core) -> None:
    noise = np.random.default_rng(1).normal(1.0, 0.01, 20)
    found = series(run, [*(1.10 * noise[:12]), *(1.25 * noise[12:])])
    assert found.steps is not None
    (step,) = found.steps
    assert step.first == "run-12"
    assert (step.before, step.after) == (pytest.approx(1.10, rel=0.02), pytest.approx(1.25, rel=0.02))
    assert [point.run for point in found.points] == sorted(point.run for point in found.points)


def test_costof_history_marks_no_lasting_change_for_an_outlier_or_noise(run: Core) -> None:
    noise = np.random.default_rng(2).normal(1.0, 0.01, 20)
    noise[9] = 1.05
    assert series(run, [*(1.1 * noise)]).steps == []
    assert series(run, [1.10] * 6 + [1.11] * 6, spread=0.05).steps == []
    assert series(run, [1.10] * 8, spread=0.0).steps == []
    assert series(run, [1.0] * (FEWEST_RUNS - 2) + [2.0]).steps is None, "too few runs"


def test_costof_history_rarely_marks_a_lasting_change_in_constant_costs(run: Core) -> None:
    """The penalty for a step is such that 4 % of series without a change have a step by chance.

    Of 60 series, 2.4 are expected to have a step. The probability of more than 8 such series is 0.001.
    """
    chance = np.random.default_rng(3)
    found = [series(run, [*(1.1 * chance.normal(1.0, 0.01, 15))]).steps for _ in range(60)]
    assert sum(bool(steps) for steps in found) <= 8


def series_of(folder: Path, runs: Runs, *options: object) -> list[dict[str, Any]]:
    made(folder, runs)
    all_series: list[dict[str, Any]] = json.loads(called(history, folder / "runs", "--json", *options).output)["series"]
    return all_series


def test_costof_history_can_be_a_table_or_a_page_or_json(tmp_path: Path) -> None:
    truth = Truth({("wire_query", "tls"): 1.3})
    made(tmp_path, {f"run-{number}": (plan_of(MONGODB, seed=number), truth) for number in range(3)})
    (tmp_path / "runs" / "no-run").mkdir()
    printed = called(history, tmp_path / "runs", "--out", tmp_path / "history.html").output
    assert QUERY_LABEL in printed
    assert f"at least {FEWEST_RUNS} runs" in printed
    assert (tmp_path / "history.html").read_text().count("<svg") == 2 * 4, "each in a wide and a narrow version"
    (one,) = json.loads(called(history, tmp_path / "runs", "--json").output)["series"]
    assert (one["title"], one["changes"], one["runs"]) == ("", [], ["run-0", "run-1", "run-2"])
    assert {len(each["points"]) for each in one["histories"]} == {3}


def test_costof_history_starts_a_new_series_at_a_server_release_but_not_at_a_patch(tmp_path: Path) -> None:
    versions = ("7.0.14", "8.0.4", "7.0.15", "8.0.4")
    runs = {f"run-{number}": (PLAN, Server(version, "server")) for number, version in enumerate(versions)}
    older, newer = series_of(tmp_path, runs, "--out", tmp_path / "history.html")
    assert (older["title"], older["runs"]) == ("The server 7.0", ["run-0", "run-2"])
    assert older["changes"] == ["The server was 7.0.14 at first and 7.0.15 from run-2 on."]
    assert (newer["title"], newer["runs"], newer["changes"]) == ("The server 8.0", ["run-1", "run-3"], [])
    page = (tmp_path / "history.html").read_text()
    assert "4 runs in 2 series" in page
    assert page.index("The server 7.0 (2 runs)") < page.index("The server 8.0 (2 runs)")


def test_costof_history_has_a_separate_series_for_each_load(tmp_path: Path) -> None:
    titles = [each["title"] for each in series_of(tmp_path, at_loads())]
    assert titles == [f"{rate} new connections a second, 20 queries each" for rate in (100, 300)]


@pytest.mark.parametrize(
    ("settings", "target", "title"),
    [
        (["key=ecdsa-p256"], None, "key ecdsa-p256"),
        ([], "mongodb://app@db.example/", "mongodb://app@db.example/"),
    ],
)
def test_costof_history_has_a_separate_series_for_each_choice_of_variants_and_each_target(
    settings: list[str], target: str | None, title: str, tmp_path: Path
) -> None:
    other = plan_of(MONGODB, "quick", *settings).model_copy(update={"target": target})
    _, second = series_of(tmp_path, {"run-0": (PLAN, Truth()), "run-1": (other, Truth())})
    assert second["runs"] == ["run-1"]
    assert title in second["title"]


def test_costof_history_keeps_one_series_if_only_password_or_number_of_records_differ(tmp_path: Path) -> None:
    plans = [
        plan_of(MONGODB, "quick", f"records={records}").model_copy(update={"target": url})
        for records, url in ((500, f"mongodb://app:{HIDDEN}@db.example/"), (700, "mongodb://app@db.example/"))
    ]
    (one,) = series_of(tmp_path, {f"run-{number}": (plan, Truth()) for number, plan in enumerate(plans)})
    assert one["runs"] == ["run-0", "run-1"]
    assert one["changes"] == ["Records loaded: 500 at first and 700 from run-1 on."]


def test_costof_history_of_runs_of_several_studies_requires_option_study(tmp_path: Path) -> None:
    made(tmp_path, {study: (plan_of(study), Truth()) for study in (MONGODB, "redis-tls")})
    (tmp_path / "empty").mkdir()
    for folder, options, text in (
        ("runs", (), "choose one study with --study"),
        ("runs", ("--study", "x"), "contains no runs of x"),
        ("empty", (), "contains no runs"),
        ("nowhere", (), "No such file"),
    ):
        error = refused(history, tmp_path / folder, *options)
        assert error.exit_status == 2
        assert text in str(error)
    assert called(history, tmp_path / "runs", "--study", "redis-tls").exit_code == 0
