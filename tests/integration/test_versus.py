"""`costof versus` with hyperfine's options, on real commands that leave traces of their runs in files."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.command import costof
from tests.support.programs import eventually

from .conftest import COSTOF

pytestmark = pytest.mark.servers
#: A shell line that appends a word, the command's name and hyperfine's number of the run to a log.
LOG = "echo {word} {{n}} $HYPERFINE_ITERATION >>log"
RUNS, WARM_UPS = 4, 3


def test_preparation_and_cleanup_steps_run_in_the_same_order_as_in_hyperfine(tmp_path: Path) -> None:
    steps = [("-s", "setup"), ("-p", "prepare"), ("-C", "conclude"), ("-c", "cleanup")]
    around = [word for option, step in steps for word in (option, LOG.format(word=step))]
    # Let only warm-up runs fail, so that the exit statuses show whether one of them was measured.
    command = LOG.format(word="run") + "; [ $(grep -c 'run {n}' log) -gt {warm} ]"
    # costof also measures an identical copy of the first command, which therefore runs twice as often.
    commands = [command.replace("{n}", "1").replace("{warm}", str(2 * WARM_UPS))]
    commands += [command.replace("{n}", "2").replace("{warm}", str(WARM_UPS))]
    lines = [line.replace("{n}", "x") for line in around]
    options = ["-r", str(RUNS), "-w", str(WARM_UPS), "-i", "--export-json", "out.json", "--export-csv", "out.csv"]
    ended = costof("versus", *options, "--export-markdown", "out.md", "-n", "one", *lines, *commands, cwd=tmp_path)
    assert ended.status == 0, ended.err

    words = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert [word for word, *_ in words[:2]] == ["setup", "setup"]
    assert [word for word, *_ in words[-2:]] == ["cleanup", "cleanup"]
    between = [word for word, *_ in words[2:-2]]
    assert between == ["prepare", "run", "conclude"] * (3 * (RUNS + WARM_UPS))
    order = [name for word, name, *_ in words if word == "run"]
    assert Counter(order) == {"1": 2 * (RUNS + WARM_UPS), "2": RUNS + WARM_UPS}
    assert len([*groupby(order)]) > RUNS, "the commands alternate"
    # The last warm-up run is the one in costof's warm-up round. It is numbered like a measured run.
    iterations = [number for word, name, number in filter(lambda each: len(each) == 3, words) if name == "2"]
    assert iterations == [f"warmup-{at}" for at in range(WARM_UPS - 1)] + [str(at) for at in range(RUNS + 1)]

    results = json.loads((tmp_path / "out.json").read_text())["results"]
    assert [each["command"] for each in results] == ["one", commands[1]]
    for each in results:
        assert each["exit_codes"] == [0] * RUNS
        assert len(each["times"]) == RUNS
        assert each["min"] <= each["median"] <= each["max"]
        assert each["mean"] == pytest.approx(sum(each["times"]) / RUNS)
        assert each.keys() >= {"stddev", "user", "system"}
    assert (tmp_path / "out.csv").read_text().startswith("command,mean,stddev,median,user,system,min,max\none,")
    assert (tmp_path / "out.md").read_text().startswith("| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |")
    last = ended.out.splitlines()[-1]
    assert re.fullmatch(r"`.*` takes [0-9.]+ ms (longer|less) than `one` \[.*\]( \(.*\))?: .+", last), last


def test_commands_read_and_write_the_files_that_their_options_name(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("what they read\n")
    options = ["-r", "2", "-L", "name", "a,b", "--input", "in", "--setup", "echo {name} >state"]
    ended = costof("versus", *options, "--output", "out-a", "--output", "out-b", "cat - state", cwd=tmp_path)
    assert ended.status in (0, 3), ended.err
    # Commands that differ only in their setup need a new setup before each slice (measured window).
    assert "differ only in --setup" in ended.err
    assert [(tmp_path / f"out-{name}").read_text() for name in "ab"] == ["what they read\na\n", "what they read\nb\n"]
    size = ["-r", "2", "--output", "pipe", "--seed", "1", "-S", "bash"]
    ended = costof("versus", *size, "head -c 70000000 /dev/zero", "[[ 1 == 1 ]]", cwd=tmp_path)
    assert ended.status in (0, 3), ended.err
    assert "operations failed" not in ended.out
    ended = costof("versus", "-r", "2", "--show-output", "echo shown", "echo 'shown, too' >&2", cwd=tmp_path)
    assert ended.err.count("shown, too\n") == 2
    assert ended.err.count("shown\n") == 4


def test_failed_runs_are_measured_only_if_exit_statuses_are_ignored(tmp_path: Path) -> None:
    commands = ["exit 3", "exit 4"]
    ended = costof("versus", "-r", "3", "-i=3,4", "--export-json", "-", "--json", *commands, cwd=tmp_path)
    assert ended.status == 0, ended.err
    printed, _, exported = ended.out.partition("\n}\n")
    assert json.loads(printed + "\n}")["errors"] == []
    assert [each["exit_codes"] for each in json.loads(exported)["results"]] == [[3] * 3, [4] * 3]
    ended = costof("versus", "-r", "3", "-i=3", *commands, cwd=tmp_path)
    assert "100 % of operations failed with “exit 4”" in " ".join(ended.out.split())


def test_failed_setup_or_conclude_command_ends_the_run_with_a_one_line_error_and_a_cleanup(tmp_path: Path) -> None:
    for option in ("--setup", "--conclude"):
        ended = costof(
            "versus", "-r", "3", option, "echo no >&2; exit 7", "-c", "echo >>cleaned", "true", "true 2", cwd=tmp_path
        )
        assert ended.status == 1
        line = ended.error_lines[-1]
        assert f"the {option[2:]} command failed: 'sh': it ended with status 7: no; append '|| true'" in line
    assert (tmp_path / "cleaned").read_text().count("\n") == 3, "a failed setup ends the run before the second one"


def test_report_of_a_single_command_has_a_time_and_no_comparison(tmp_path: Path) -> None:
    ended = costof("versus", "-r", "3", "--export-json", "out.json", "true", cwd=tmp_path)
    assert ended.status == 0, ended.err
    assert re.fullmatch(r"`true` takes [0-9.]+ ms \[.*\]", ended.out.splitlines()[-1])
    (only,) = json.loads((tmp_path / "out.json").read_text())["results"]
    assert len(only["times"]) == 3


def test_cleanup_runs_even_if_costof_is_killed(tmp_path: Path, temporary: Path) -> None:
    arguments = ["-r", "3", "-c", "echo >>cleaned", "touch running; sleep 3600", "true"]
    process = subprocess.Popen(
        [*COSTOF, "versus", *arguments],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    eventually("a command", (tmp_path / "running").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    eventually(
        "both cleanups", lambda: (tmp_path / "cleaned").exists() and len((tmp_path / "cleaned").read_text()) == 2
    )


def test_passwords_in_commands_and_parameters_are_not_exported(tmp_path: Path) -> None:
    options = ["-r", "2", "-L", "password", "S3cret,S4cret", "--export-json", "out.json", "--export-markdown", "out.md"]
    line = "echo --password={password}"
    ended = costof("versus", *options, "--prepare", line, "--export-csv", "out.csv", line, cwd=tmp_path)
    assert ended.status in (0, 3), ended.err
    lines = [each for each in ended.out.splitlines() if each.startswith("`")]
    assert lines
    written = [(tmp_path / name).read_text() for name in ("out.json", "out.md", "out.csv")]
    assert not any(secret in text for secret in ("S3cret", "S4cret") for text in [*written, *lines, ended.err])
