"""Runs that measure commands: their results, and cleanup however the run ends."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

import pytest

from costof.report.result import Result
from costof.statistics.estimate import Verdict
from tests.support.command import Outcome, costof
from tests.support.programs import eventually

from .conftest import PASSWORD, alive, costof_running, processes_of

pytestmark = pytest.mark.servers
#: A shell line that counts its runs in a file, and prints the number of this run.
COUNTER = "n=$(($(cat {file} 2>/dev/null || echo 0) + 1)); echo $n > {file}"
ROUNDS = ["--profile", "quick", "--rounds", "6", "--seed", "1"]


def ran(text: str, folder: Path, *arguments: str, **env: str) -> tuple[Outcome, Result]:
    (folder / "mine.toml").write_text(text)
    ended = costof("run", "mine.toml", *ROUNDS, "--out", "run", *arguments, cwd=folder, **env)
    return ended, Result.model_validate_json((folder / "run" / "result.json").read_bytes())


def study(control: str, arm: str, workload: str) -> str:
    return f"""
title = "What does it cost?"
service = "command"
control.it = "off"
[factors.it.levels]
off = {{ {control} }}
on = {{ {arm} }}
[workloads.load.command]
{workload}
"""


def test_reported_cost_of_a_command_agrees_with_the_time_added_to_it(tmp_path: Path) -> None:
    text = study('set.more = "0"', 'set.more = "0.02"', 'run = "sh -c \\"sleep 0.01; sleep {more}\\""\nseconds = 0.2')
    ended, result = ran(text, tmp_path, "--rounds", "10")
    assert ended.status == 0, ended.err
    (effect,) = (each for each in result.effects if each.metric == "load.time")
    assert effect.verdict in (Verdict.COSTS, Verdict.UNRESOLVED), "a busy machine may hide it"
    # Allow three times the half-width of the interval: a 95 % interval misses the true value in one of twenty runs.
    wide = 3 * (effect.difference.high - effect.difference.low) / 2
    assert abs(effect.difference.value - 20) < max(wide, 2)


#: A command that takes 60 ms longer if another command was run before it.
REMEMBERS = (
    """sh -c '[ "$(cat built 2>/dev/null)" = "$0" ] || {{ sleep 0.06; echo "$0" >built; }}; sleep 0.04' {name}"""
)


def test_effect_of_a_command_on_the_next_command_is_reported(tmp_path: Path) -> None:
    names = ["new", "old", "other"]
    commands = [REMEMBERS.format(name=name) for name in names]
    called = [word for name in names for word in ("-n", name)]
    ended = costof("versus", "--rounds", "16", "--seconds", "0.01", "--out", "run", *called, *commands, cwd=tmp_path)
    assert ended.status == 0, ended.err
    result = Result.model_validate_json((tmp_path / "run" / "result.json").read_bytes())
    verdicts = [each.verdict for each in result.effects if each.metric == "run.time"]
    assert len(verdicts) == len(names) - 1
    assert not {Verdict.COSTS, Verdict.SAVES} & set(verdicts)
    (sentence,) = (each.text for each in result.answer if "order of measurements matters" in each.text)
    assert sentence.startswith("The order of measurements matters: 'time' is ")
    assert "--warmup-each 1" in sentence
    (carry_over,) = result.carry_over
    assert carry_over.ratio.low > 1


def test_command_is_warmed_up_only_after_a_different_command(tmp_path: Path) -> None:
    counts = "sh -c 'echo $0 >>ran; echo $0' {name}"
    commands = [counts.format(name=name) for name in ("old", "new")]
    arguments = ["--rounds", "6", "--seconds", "0.001", "--warmup-each", "2", "--seed", "1", "--out", "run"]
    ended = costof("versus", *arguments, "-n", "old", "-n", "new", *commands, cwd=tmp_path)
    assert ended.status == 0, ended.err
    slices = [json.loads(line) for line in (tmp_path / "run" / "slices.jsonl").read_text().splitlines()]
    measured = [(each["answer"]["arm"], each["answer"]["operations"]) for each in slices if each["record"] == "slice"]
    expected: list[str] = []
    for arm, operations in measured:
        name = arm.removesuffix("-copy")
        warm = 0 if expected and expected[-1] == name else 2
        expected += [name] * (warm + operations)
    assert (tmp_path / "ran").read_text().split() == expected


def test_figures_that_a_command_prints_or_writes_to_files_are_reported(tmp_path: Path) -> None:
    text = study('set.rate = "200"', 'set.rate = "150"', 'run = "echo rate: {rate}/s"\nseconds = 0.05')
    text += 'figures.rate = { regex = "rate: ([0-9.]+)", unit = "per_second", better = "higher" }\n'
    text += """[workloads.filed.command]
run = "sh -c 'echo {{}} ; echo {rate} > {output}'"
seconds = 0.05
figures.rate = { regex = "([0-9.]+)", unit = "ms" }
"""
    ended, result = ran(text, tmp_path)
    effects = {each.metric: (each.control_value, each.value, each.verdict) for each in result.effects}
    assert effects["load.rate"] == (200, 150, Verdict.COSTS)
    assert effects["filed.rate"][:2] == (200, 150)
    assert "lowers 'rate of load' by 25.0 %" in ended.out.replace("\N{NO-BREAK SPACE}", " ")


def test_failed_runs_of_a_command_are_counted_and_reported(tmp_path: Path) -> None:
    script = COUNTER.format(file="{count}") + "; test $((n % 3)) != 0 || { echo it broke >&2; exit 3; }"
    text = study('set.count = "/dev/null"', 'set.count = "count"', f"run = '''{script}'''\nshell = true\nonce = true")
    ended, result = ran(text, tmp_path)
    assert ended.status in (0, 3), ended.err
    failures = {each.arm: each for each in result.failures}
    assert int((tmp_path / "count").read_text()) == 7, "one of them warms up"
    assert sum(each.count for each in result.errors if each.arm == "on") == 2
    assert (failures["on"].failed, failures["off"].failed) == (2, 0)
    assert all(each.detail == "it ended with status 3: it broke" for each in result.errors)
    assert "of operations failed with on" in " ".join(ended.out.split())


def test_measurements_without_matching_evidence_are_discarded_and_reported(tmp_path: Path) -> None:
    script = COUNTER.format(file="count") + "; if [ $n -lt 12 ]; then echo on; else echo off; fi"
    verify = f'verify = {{ run = """sh -c \'{script}\'""", matches = "on" }}'
    _, result = ran(study("", verify, 'run = "true"\nseconds = 0.05'), tmp_path)
    (arm,) = (arm for arm in result.arms if arm.name == "on")
    (evidence,) = (each for each in arm.evidence if each.view == "command")
    # The command of `verify` runs once at first, then before and after each slice. Its first 11 outputs match, so five
    # slices pass. The first slice is a warm-up and does not count. The outputs of the last two slices do not match.
    assert (evidence.slices, evidence.discarded) == (4, 2)
    assert any("'sh' printed 'off', which does not match 'on'" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("arm", "workload", "message"),
    [
        (
            'verify = { run = "echo no", matches = "yes" }',
            'run = "true"',
            "'echo' printed 'no', which does not match 'yes'",
        ),
        ("", 'run = "no-such-program"', "there is no program 'no-such-program'"),
    ],
)
def test_command_that_cannot_run_ends_the_run_before_measuring(
    tmp_path: Path, arm: str, workload: str, message: str
) -> None:
    (tmp_path / "mine.toml").write_text(study("", arm, workload))
    ended = costof("run", "mine.toml", *ROUNDS, cwd=tmp_path)
    # On a busy machine a warning comes before the error, so check only the last line.
    assert (ended.status, ended.error_lines[-1]) == (1, f"costof: no arm can run: {message}")
    assert not (tmp_path / "runs").exists()


def test_run_files_contain_no_secret_that_the_study_declares(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD + "\n")
    text = (
        study(
            "",
            "",
            """run = "sh -c 'test $HIDDEN = $NAMED_PASSWORD; echo 1 $HIDDEN; echo $HIDDEN >&2; : --password=x; {exit}'"
seconds = 0.05
figures.one = { regex = "^(1)", unit = "ms" }
[secrets]
HIDDEN = { file = "password" }
""",
        )
        .replace("off = {  }", 'off = { set.exit = "exit 0" }')
        .replace("on = {  }", 'on = { set.exit = "exit 9" }')
    )
    text = text.replace("on = {", 'on = { verify = { run = "sh -c \'echo ok; echo $HIDDEN >&2\'", matches = "ok" },')
    ended, result = ran(text, tmp_path, NAMED_PASSWORD=PASSWORD)
    assert PASSWORD not in ended.out + ended.err
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if PASSWORD in path.read_text()]
    assert any("<redacted>" in path.read_text() for path in files), "it was there to be hidden"
    (warning,) = (each for each in result.warnings if "looks like a password" in each)
    assert warning in [line.removeprefix("costof: ") for line in ended.error_lines]
    assert "the value after --password looks" in warning
    assert "[secrets]" in warning


SWITCHED = """
title = "What does it cost?"
service = "command"
control.it = "off"
[factors.it.levels]
off = { set.name = "off" }
on = { set.name = "on", before = "touch {folder}/switched", after = "rm {folder}/switched" }
[factors.it.each.set]
folder = "FOLDER"
[workloads.load.command]
run = \"\"\"COMMAND\"\"\"
once = true
"""
STUBBORN = 'trap "" TERM INT HUP;'
#: A command that writes its pid to a file. The command and its child, which has its own session, run longer than any
#: test.
LASTING = "sh -c 'TRAP echo $$ > {folder}/{name}; setsid sleep 3600 & while :; do sleep 3600; done'"


@pytest.mark.parametrize(
    ("ended_by", "trap"),
    [
        pytest.param(signal.SIGINT, STUBBORN, id="ctrl-c"),
        pytest.param(signal.SIGTERM, "", id="terminated", marks=pytest.mark.slow),
        pytest.param(signal.SIGKILL, STUBBORN, id="kill-9"),
    ],
)
def test_run_ended_by_any_signal_undoes_its_changes_and_leaves_no_process(
    ended_by: signal.Signals, trap: str, tmp_path: Path, temporary: Path
) -> None:
    file = tmp_path / "mine.toml"
    # The command of the arm 'off' ends at once, so the command of the arm 'on' is running when the run is ended.
    command = LASTING.replace("TRAP", f"if [ {{name}} = off ]; then exit 0; fi; {trap}")
    file.write_text(SWITCHED.replace("COMMAND", command).replace("FOLDER", str(temporary)))
    run = tmp_path / "run"
    with costof_running(run, temporary, str(file), *ROUNDS) as process:
        running = temporary / "on"
        eventually("the arm's command", lambda: running.exists() and running.read_text().strip())
        assert (temporary / "switched").exists()
        command_pid = int(running.read_text())
        assert alive([command_pid])
        process.send_signal(ended_by)
        process.wait()
    eventually("the end of its processes", lambda: not alive([command_pid]) and not processes_of(temporary))
    eventually("the switch thrown back", lambda: not (temporary / "switched").exists())
    eventually("the end of its folder", lambda: not list(temporary.glob("costof-*")))
    eventually("the end of what it left", lambda: not started_with(temporary))


def started_with(temporary: Path) -> list[int]:
    """Return the pids of processes that a run started, which have this TMPDIR in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"TMPDIR={temporary}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def test_command_and_its_children_are_ended_at_the_timeout(tmp_path: Path, temporary: Path) -> None:
    text = study(
        'set.nap = "0"',
        'set.nap = "3600"',
        """run = "sh -c 'trap \\"\\" TERM; sleep {nap}'"\ntimeout_seconds = 10.0\nonce = true""",
    )
    _, result = ran(text, tmp_path, "--rounds", "2", TMPDIR=str(temporary))
    assert {(each.arm, each.error_class) for each in result.errors} == {("on", "command_failed")}
    assert all("longer than its timeout" in each.detail for each in result.errors)
    (on,) = (each for each in result.failures if each.arm == "on")
    assert on.failed == on.begun > 0
    eventually("the end of its children", lambda: not started_with(temporary))


def test_run_ends_if_a_command_that_undoes_a_change_fails(tmp_path: Path) -> None:
    after = "test -e nothing || test ! -e done"
    text = study("", f"""before = "true", after = "sh -c '{after}'" """, 'run = "touch done"\nseconds = 0.05')
    (tmp_path / "mine.toml").write_text(text)
    ended = costof("run", "mine.toml", *ROUNDS, "--out", "run", cwd=tmp_path)
    assert ended.status == 1, "only a slice of the control's copy had been measured"
    assert "could not be undone" in " ".join(ended.out.split())


def test_exit_status_of_costof_versus_says_whether_its_limits_are_kept(tmp_path: Path) -> None:
    arguments = ["versus", "--rounds", "5", "--seconds", "0.05", "--json", "true", "sh -c 'sleep 0.3'"]

    def costs() -> bool:
        ended = costof(*arguments, "--limit", "time", "+10ms", cwd=tmp_path)
        assert ended.status in (0, 3, 4), ended.err
        result = Result.model_validate(json.loads(ended.out))
        assert [arm.label for arm in result.arms][::2] == ["“true”", "“sh -c 'sleep 0.3'”"]
        (effect,) = (each for each in result.effects if each.metric == "run.time")
        assert effect.value >= 300
        assert (ended.status == 4) == (effect.verdict is Verdict.COSTS)
        return ended.status == 4

    eventually("a difference that nothing hid", costs)
    assert costof(*arguments, "--limit", "time", "+10s", cwd=tmp_path).status == 0


def test_report_omits_differences_if_the_budget_is_too_small_for_verdicts(tmp_path: Path) -> None:
    ended = costof("versus", "--budget", "2s", "--seconds", "1", "sleep 0.5", "sleep 0.6", cwd=tmp_path)
    assert "the budget is enough for about 1 of the 5 rounds that verdicts need" in " ".join(ended.err.split())
    assert (ended.status, "fitted into the budget" in " ".join(ended.out.split())) == (3, True)
    assert "difference" not in ended.out, "no figure that could be taken for an answer"


#: A shell line that waits until its child runs `sleep`. A child of `setsid` has a new session by then.
STARTED = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'


def script(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return f"./{name}"


def test_processes_that_a_command_left_running_are_killed_and_reported(tmp_path: Path, temporary: Path) -> None:
    # The command fails if the child of its previous run still runs, because costof must have killed that child.
    last = "! kill -0 $(cat child) 2>/dev/null || exit 7; sleep 3600 & echo $! > child"
    (tmp_path / "child").write_text("none")
    child = script(tmp_path, "child.sh", f"{last}; {STARTED}")
    daemon = script(tmp_path, "daemon.sh", f"setsid sleep 3600 & {STARTED}")
    names = [word for name in ("waits", "leaves", "serves") for word in ("-n", name)]
    arguments = ["versus", "--rounds", "2", "--seconds", "0.01", *names, "--json", "true", child, daemon]
    ended = costof(*arguments, cwd=tmp_path, TMPDIR=str(temporary))
    assert ended.status in (0, 3), ended.err
    result = Result.model_validate(json.loads(ended.out))
    of_child, of_daemon = sorted(warning for warning in result.warnings if " left " in warning)
    assert of_child.startswith("leaves left 'sleep' running in the background (in 3 slices): costof ended it")
    assert "make the command wait for it" in of_child
    assert of_daemon.startswith("serves left 'sleep' running as a daemon (in 3 slices)")
    assert not result.errors
    eventually("the end of the daemons", lambda: not started_with(temporary))


def test_daemon_started_by_the_setup_command_of_an_arm_keeps_running(tmp_path: Path) -> None:
    start = script(tmp_path, "start.sh", f"setsid sleep 3600 & echo $! > daemon; {STARTED}")
    on = f"""set.check = "sh -c 'kill -0 $(cat daemon)'", before = "{start}", after = "sh -c 'kill $(cat daemon)'" """
    _, result = ran(study('set.check = "true"', on, 'run = "{check}"\nseconds = 0.01\n'), tmp_path)
    assert not result.errors
    assert not [warning for warning in result.warnings if " left " in warning]
