"""`costof versus`: how it understands the options of hyperfine, and its warnings about the measured times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from costof.cli.versus import versus
from costof.errors import CostofError
from costof.report.versus import Tried, warnings
from costof.results.ledger import SliceRecord
from costof.results.metrics import add_samples
from costof.results.run import Run
from costof.services.command.lab import Commands
from costof.study.library import read_study
from costof.study.plan import Options, resolve
from costof.study.versus import Benchmark, Comparison, benchmarks, parse_list, parse_scan, study_content
from tests.fake_run import Slice, answer_of, exact_phase


def made(*commands: str, **changes: Any) -> list[Benchmark]:
    return benchmarks(Comparison(commands, **changes))


def programs(*commands: str, **changes: Any) -> list[str]:
    comparison = Comparison(commands, **changes)
    study = read_study("versus", study_content(comparison, benchmarks(comparison)))
    return Commands(resolve(study, Options(profile="quick"))).commands()


def test_costof_versus_measures_all_combinations_of_parameters_in_the_order_of_hyperfine() -> None:
    each = made("{x} {y}", "b {x}", parameters={"x": ["1", "2"], "y": ["3", "4"]})
    assert [one.command for one in each] == ["1 3", "b 1", "2 3", "b 2", "1 4", "b 1", "2 4", "b 2"]
    assert [one.label for one in each][:2] == ["“1 3”", "“b 1 (y = 3)”"]


def test_placeholders_in_the_value_of_a_parameter_are_not_replaced() -> None:
    each = made("echo {x} {y}", "b", parameters={"x": ["{y}"], "y": ["{seconds}"]}, prepare=["echo {x}"])
    assert each[0].command == "echo {y} {seconds}"
    lines = programs("echo {x} {y}", "b", parameters={"x": ["{y}"], "y": ["{seconds}"]}, prepare=["echo {x}"])
    assert "a: run echo '{y}' '{seconds}'" in lines
    assert "a: prepare sh -c 'echo {y}'" in lines


def test_parameter_lists_and_parameter_scans_are_parsed_as_by_hyperfine() -> None:
    texts = ["", "foo", "foo,,bar", ",", r"hello\, world,x", r"\\\,", r"\n"]
    assert [parse_list("x", text) for text in texts] == [
        [""],
        ["foo"],
        ["foo", "", "bar"],
        ["", ""],
        ["hello, world", "x"],
        [r"\,"],
        [r"\n"],
    ]
    assert parse_scan("x", "1", "3", None) == ["1", "2", "3"]
    assert parse_scan("x", "0.3", "0.7", "0.2") == ["0.3", "0.5", "0.7"]
    assert parse_scan("x", "-5", "0", "5") == ["-5", "0"]
    for bad in (("a", "3", None), ("3", "1", None), ("1", "2", "0"), ("0.1", "0.2", None), ("1", "1e9", None)):
        with pytest.raises(CostofError):
            parse_scan("x", *bad)


def test_reference_command_is_the_control_and_its_placeholders_are_not_replaced() -> None:
    each = made("{x}", parameters={"x": ["1", "2"]}, reference="{x}", reference_name="old", prepare=["r", "p{x}"])
    assert [(one.command, one.prepare) for one in each] == [("{x}", "r"), ("1", "p1"), ("2", "p2")]
    assert each[0].level == "old"


def test_long_commands_that_differ_at_their_end_have_different_labels() -> None:
    line = "psql --host db.example.org --port 5432 --username shop --dbname shop --command"
    assert [one.label for one in made(f"{line} one", f"{line} two")] == ["“… one”", "“… two”"]


def test_names_of_commands_may_be_omitted_and_may_contain_parameters() -> None:
    assert [one.level for one in made("x", "y", names=["b"])] == ["b", "a"]
    assert [one.name for one in made("x {n}", names=["n={n}"], parameters={"n": ["1", "2"]})] == ["n=1", "n=2"]
    assert [one.name for one in made("x {n}", names=["one"], parameters={"n": ["1", "2"]})] == [
        "one (n = 1)",
        "one (n = 2)",
    ]


@pytest.mark.parametrize(
    ("shell", "commands", "lines"),
    [
        (None, ["a x", "b"], ["a: run a x", "b: run b"]),
        (None, ["a | x", "b"], ["a: run sh -c 'a | x'", "b: run sh -c b"]),
        (None, ["exit 0", "b"], ["a: run sh -c 'exit 0'", "b: run sh -c b"]),
        ("none", ["a x", "b"], ["a: run a x", "b: run b"]),
        ("default", ["a x", "b"], ["a: run sh -c 'a x'", "b: run sh -c b"]),
        ("bash --norc", ["a x", "b"], ["a: run bash --norc -c 'a x'", "b: run bash --norc -c b"]),
    ],
)
def test_all_commands_run_in_the_same_shell_or_all_without_one(
    shell: str | None, commands: Sequence[str], lines: list[str]
) -> None:
    assert programs(*commands, shell=shell) == lines


def test_setup_is_repeated_before_each_measurement_if_two_commands_differ_only_in_their_setup() -> None:
    parameters = {"x": ["1", "2"]}
    once = programs("run {x}", setup="make {x}", cleanup="clean", parameters=parameters)
    assert once[:3] == ["a: setup sh -c 'make 1'", "a: run run 1", "a: cleanup sh -c clean"]
    each = programs("run", setup="make {x}", cleanup="clean", parameters=parameters)
    assert each[:3] == ["a: before sh -c 'make 1'", "a: run run", "a: after sh -c clean"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--reference", "a"], "needs commands"),
        (["-r", "1", "a", "b"], "at least 2 runs"),
        (["-r", "9", "-m", "9", "a", "b"], "--runs and --min-runs contradict each other"),
        (["-m", "9", "-M", "8", "a", "b"], "above --max-runs 8"),
        (["-L", "x", "1,2", "-P", "y", "1", "2", "a"], "--parameter-list and --parameter-scan contradict"),
        (["-L", "x", "1,2", "-L", "x", "3", "a {x}"], "'x' is given twice"),
        (["-L", "x-y", "1,2", "a"], "'x-y' is not a name"),
        (["-D", "2", "a", "b"], "also needs --parameter-scan"),
        (["-P", "n", "1", "200", "a {n}"], "200 commands"),
        (["-p", "x", "-p", "y", "a", "b", "c"], "--prepare was given 2 times for 3 commands"),
        (["-n", "x", "-n", "y", "-n", "z", "a", "b"], "3 different names for 2 commands"),
        (["-N", "-S", "sh", "a", "b"], "-N and --shell contradict"),
        (["-N", "a | b", "c"], "contains '|'"),
        (["--shell", "tar c . | cat", "a", "b"], "cannot be used as the shell"),
        (["--shell", "false", "a", "b"], "(it must run `-c COMMAND`): it ended with status 1"),
        (["--shell", "no-such-shell", "a", "b"], "there is no such program"),
        (["-i=0,x", "a", "b"], "'0,x' is not a list of exit statuses"),
        (["--input", "nowhere", "a", "b"], "cannot read nowhere"),
        (["--read", "wrk", "--output", "null", "a", "b"], "--output and --read contradict"),
        (["--export-json", "nowhere/x", "a", "b"], "its folder does not exist"),
        ([], "needs commands"),
        (["--read", "what", "b", "c"], "'what'"),
        (["-N", "./hash.sh < small", "./hash.sh < large"], "contains '<'"),
        (["-L", "password", "a,b", "-p", "x", "-p", "y", "-p", "z", "mysql -pS3cret {password}"], "given 3 times"),
    ],
)
def test_invalid_option_is_refused_before_anything_runs(arguments: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(CostofError) as caught:
        CliRunner().invoke(versus, [*arguments, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "S3cret" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_help_of_costof_versus_shows_options_in_groups() -> None:
    printed = CliRunner().invoke(versus, ["--help"]).output
    for title in ("Names and parameters:", "Runs:", "Commands around the measured ones:", "Exports:"):
        assert title in printed
    assert printed.count("--warmup ") == printed.count("--export-json ") == 1


MS = 1_000_000


def run_of(*times: Sequence[float], rounds: int = 10) -> Run:
    """Return a run of two commands. `times` has a list for each command: its times in ms, repeated for all rounds."""
    plan = resolve(
        read_study("versus", study_content(Comparison(["a", "b"]), made("a", "b"))), Options("quick", seed=1)
    )
    run = Run(plan)
    for number in range(rounds):
        for arm, each in zip(("a", "b"), times, strict=True):
            nanoseconds = round(each[number % len(each)] * MS)
            measured = Slice(1, nanoseconds / 1e9, {"command": exact_phase([nanoseconds])}, {}, {})
            answer = answer_of(measured, "run", arm)
            record = SliceRecord(
                round=number,
                warm_up=False,
                view="command",
                workload="run",
                answer=answer,
                server_connections=None,
                server_tls=None,
                server_cpu_seconds={},
                observed_seconds=1,
            )
            run.slices.append(record)
            add_samples(plan, run.samples, record)
    return run


NOTHING = Tried(in_shell=False, shell_needed=False, warmup=False, prepare=False, single_runs=True)
STEADY = [20.0, 20.1, 20.2, 20.1, 20.0, 19.9, 20.1, 20.2, 20.0, 20.1]


def warned(run: Run, **tried: bool) -> list[str]:
    names = {"a": "a", "b": "b"}
    return [*warnings(run, names, Tried(**{**vars(NOTHING), **tried}))]


def test_costof_versus_does_not_warn_about_steady_run_times() -> None:
    assert warned(run_of(STEADY, STEADY), in_shell=True) == []
    assert warned(run_of([1.0, 1.1], STEADY)) == [], "no shell takes part"


def test_short_command_in_a_shell_is_warned_about() -> None:
    (only,) = warned(run_of([1.0, 1.1], STEADY), in_shell=True)
    assert only.startswith("`a` takes only 1.05 ms")
    assert only.endswith("use -N")
    (needed,) = warned(run_of([1.0, 1.1], STEADY), in_shell=True, shell_needed=True)
    assert "-N" not in needed


def test_slow_first_run_is_warned_about_unless_warm_up_runs_came_first() -> None:
    cold = [90.0, *STEADY[1:]]
    (only,) = warned(run_of(STEADY, cold))
    assert only.startswith("the first run of `b` took 90.0 ms, and the others about 20.1 ms")
    assert "add --warmup 1" in only
    assert "does not clear them" in warned(run_of(STEADY, cold), prepare=True)[0]
    assert "first run" not in "".join(warned(run_of(STEADY, cold), warmup=True))


def test_outliers_that_raise_the_mean_are_warned_about() -> None:
    late = [*STEADY[:-1], 90.0]
    (only,) = warned(run_of(STEADY, late))
    assert only.startswith("1 of 10 runs of `b` took far longer than the others and raise its mean by 35 %")
    assert "--prepare" in only
    assert "--prepare" not in warned(run_of(STEADY, late), prepare=True)[0]
