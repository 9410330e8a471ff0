"""Limits: how they are said, and what becomes of them in runs whose truth is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from junitparser import Error, Failure, JUnitXml

from costof.cli.gate import gate
from costof.errors import CostofError
from costof.report import analyse
from costof.results.ledger import Ledger
from costof.study.library import load_study
from costof.study.options import limits_of
from costof.study.plan import Options, resolve
from tests.fake_run import fake_run
from tests.support.small_plans import plan_of
from tests.truths.http_tls_termination import HttpTruth
from tests.truths.mongodb_tls import MongodbTruth

STUDY = "mongodb-tls"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    return fake_run(tmp_path_factory.mktemp("gate") / "run", plan_of(STUDY, "quick"), MongodbTruth(), rounds=12)


def asked(ledger: Ledger, *arguments: str) -> Result:
    return CliRunner().invoke(gate, [str(ledger.folder), *arguments], standalone_mode=False)


def test_what_is_within_its_limit_is_kept(measured: Ledger) -> None:
    done = asked(measured, "--limit", "reused query", "+10%", "--limit", "app.connect_and_first_query", "+9ms")
    assert done.return_value is None
    assert done.exit_code == 0
    assert [line.partition(":")[0] for line in done.output.splitlines()] == ["within"] * 3
    assert "within: 'reused query' on the wire +10%, TLS 1.3, rsa-2048: +" in done.output


def test_one_that_is_exceeded_outweighs_the_others(measured: Ledger) -> None:
    middle = next(each for each in analyse(measured).effects if each.metric == "app.reused_query")
    assert middle.ratio is not None
    done = asked(measured, "--limit", "app.reused_query", f"+{(middle.ratio.value - 1) * 100:.4f}%")
    assert (done.exit_code, done.output.count("cannot be told yet")) == (3, 1)
    both = asked(measured, "--limit", "reused query", "+0.1%", "--limit", "connect and first query", "+2%")
    assert both.exit_code == 4
    assert both.output.count("exceeded: 'connect and first query'") == 2


def test_the_end_of_an_interval_decides_and_not_its_middle(measured: Ledger) -> None:
    found = next(each for each in analyse(measured).effects if each.metric == "app.connect_and_first_query")
    middle, high = found.difference.value, found.difference.high
    nearly = asked(measured, "--limit", found.metric, f"+{high - 0.1 * (high - middle):.6f}ms")
    assert nearly.exit_code == 3
    assert "; measure for about " in nearly.output
    assert asked(measured, "--limit", found.metric, f"+{high + 0.001:.6f}ms").exit_code == 0


def test_of_a_rate_less_is_worse(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of("http-tls-termination", "quick", "keep_alive=1"), HttpTruth(), rounds=9)
    assert asked(ledger, "--limit", "requests a second", "-95%").exit_code == 0
    assert asked(ledger, "--limit", "requests a second", "-10%").exit_code == 4
    assert asked(ledger, "--limit", "requests a second", "-1/s").exit_code == 4


def test_of_too_few_rounds_nothing_is_told(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(STUDY), MongodbTruth(), rounds=2)
    assert asked(ledger, "--limit", "reused query", "+99%").exit_code == 3


def test_a_pipeline_reads_the_files(measured: Ledger, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "limits.xml", tmp_path / "limits.md"
    limits = ("--limit", "reused query", "+10%", "--limit", "connect and first query", "+2%")
    assert asked(measured, *limits, "--junit", str(junit), "--markdown", str(markdown)).exit_code == 4
    (suite,) = JUnitXml.fromfile(str(junit))
    assert (suite.tests, suite.failures, suite.errors) == (4, 2, 0)
    failed = [case for case in suite if case.result]
    assert [type(case.result[0]) for case in failed] == [Failure, Failure]
    assert failed[0].classname == "TLS 1.3, rsa-2048"
    assert markdown.read_text().count("| exceeded |") == 2


def test_what_cannot_be_told_is_an_error_of_the_pipeline(tmp_path: Path) -> None:
    ledger = fake_run(tmp_path / "run", plan_of(STUDY), MongodbTruth(), rounds=2)
    asked(ledger, "--limit", "app.reused_query", "+10%", "--junit", str(tmp_path / "limits.xml"))
    (suite,) = JUnitXml.fromfile(str(tmp_path / "limits.xml"))
    assert [type(result) for case in suite for result in case.result] == [Error]


def test_a_run_keeps_the_limits_that_it_was_asked_with(tmp_path: Path) -> None:
    study = load_study(STUDY).model_copy(update={"limits": {"reused query": "+10%"}})
    assert [(each.metric, each.worst) for each in resolve(study, Options("quick")).limits] == [
        ("app.reused_query", 0.1),
        ("wire.reused_query", 0.1),
    ]
    plan = resolve(study, Options("quick", limits=[("app.connect_and_first_query", "+100us")]))
    assert [(each.metric, each.worst, each.relative) for each in plan.limits] == [
        ("app.connect_and_first_query", 0.1, False)
    ]
    ledger = fake_run(tmp_path / "run", plan, MongodbTruth(), rounds=9)
    assert asked(ledger).exit_code == 4


def test_a_run_without_limits_says_what_to_do(measured: Ledger) -> None:
    with pytest.raises(CostofError, match="--limit METRIC LIMIT"):
        CliRunner().invoke(gate, [str(measured.folder)], standalone_mode=False, catch_exceptions=False)


def test_a_file_that_cannot_be_written_is_told(measured: Ledger, tmp_path: Path) -> None:
    arguments = [str(measured.folder), "--limit", "TCP", "+1s", "--junit", str(tmp_path / "no" / "limits.xml")]
    with pytest.raises(CostofError, match="name another file"):
        CliRunner().invoke(gate, arguments, standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize(
    ("metric", "limit", "told"),
    [
        ("reused querry", "+10%", r"did you mean 'reused query'\?"),
        ("reused query", "10%", r"write it as \+10% or \+2ms"),
        ("reused query", "-10%", r"write it as \+10% or \+2ms"),
        ("reused query", "+10/s", r"write it as \+10% or \+2ms"),
        ("reused query", "+ten%", r"write it as \+10% or \+2ms"),
    ],
)
def test_what_is_no_limit_is_told(metric: str, limit: str, told: str) -> None:
    with pytest.raises(CostofError, match=told):
        limits_of(load_study(STUDY), [(metric, limit)])


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ([("app.connect_and_first_query", "+9ms")], "The limit is kept."),
        ([("reused query", "+20%")], "All 2 limits are kept."),
        ([("app.connect_and_first_query", "+9ms"), ("connect and first query", "+1ms")], "Of 3 limits 2 are exceeded."),
    ],
)
def test_a_report_says_first_whether_the_limits_are_kept(
    limits: list[tuple[str, str]], said: str, tmp_path: Path
) -> None:
    run = fake_run(tmp_path / "run", plan_of(STUDY, limits=limits), MongodbTruth(), rounds=12)
    assert analyse(run).answer[0].text == said
