"""Command lines in README and the docs: each is run, or at least parsed if it needs something that is missing here."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from costof.cli.main import cli
from manual.reports import DOCS
from tests.fake_run import Truth, fake_run
from tests.manual.command_lines import Line, lines
from tests.support.small_plans import plan_of
from tests.truths import TRUTHS

#: Lines with one of these words are only parsed. Each text says what such a line needs, and which test runs such lines.
NEEDS = {
    "--target": "servers of the user's own: tests/contract/test_targets.py",
    "--resume": "a run that was interrupted: tests/integration/test_run_ends.py",
    "./mine.toml": "a study of the user's own: tests/integration/test_commands.py",
    "--json-lines": "a run, not its plan: tests/integration/test_live_table.py",
    "--pdf": "a browser: tests/report/test_printed.py",
    "--read": "a web server: tests/integration/test_commands.py",
    "--hosts": "machines to load from: tests/slow/test_many_hosts.py",
    "ab": "a web server: tests/integration/test_ab.py",
    "ycsb": "databases of the user's own: tests/integration/test_ycsb_command.py",
    "gateway": "a MySQL server: tests/integration/test_gateway_clients.py",
    "selftest": "a minute: tests/integration/test_selftest.py",
    "doctor": "every program of the labs, to end with 0: tests/unit/lab/test_fetched_programs.py",
}
#: Programs other than costof that occur in command lines, and what these lines need.
OTHERS = {
    "podman": "podman, and a wheel in dist/",
    "uv": "uv, and a wheel in dist/: make check-wheels",
    "uvx": "uv, and a wheel in dist/: make check-wheels",
    "chmod": "",
    "pip": "",
    "pytest": "",
    "python": "",
    "export": "",
    "ray": "machines to load from: tests/slow/test_many_hosts.py",
    "kubectl": "a Kubernetes: tests/unit/test_scripts.py",
}
NAMES = {"<name>": "mongodb-tls"}
#: Folders in which a page's reader would have a build of a server.
BUILD = re.compile("/opt/[^, ]+")
COSTOF_LINES = [line for line in lines() if line.program == "costof"]
#: Each line that can be run. Lines run in the order of the pages, because a line may read an earlier line's files.
#: Equal lines run once.
RUN = {line.words: line for line in COSTOF_LINES if not NEEDS.keys() & set(line.words)}.values()
PARSED = {line.words: line for line in COSTOF_LINES if NEEDS.keys() & set(line.words)}.values()
#: The studies whose runs are in the folder in which the lines are run. A run of the first study replaces `runs/…` in a
#: command line. Lines that print a history need the runs of the second study.
RUNS = ("mongodb-tls", "redis-tls")


def arguments_of(line: Line) -> list[str]:
    """Return a line's arguments for a test.

    A run in the folder replaces `runs/…`. The command `run` gets --dry-run, and `versus` measures only briefly.
    """
    words = [NAMES.get(word, word).replace("runs/…", f"runs/{RUNS[0]}") for word in line.words[1:]]
    words = [BUILD.sub(rf"{Path.cwd()}\g<0>", word) for word in words]
    match words:
        case ["run", *_] if "--dry-run" not in words:
            return [*words, "--dry-run"]
        case ["versus", *_]:
            # The last value of an option applies, so these options override options of the line.
            return [*words, "--rounds", "2", "--seconds", "0.01"]
    return words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working folder of a user who has run a few studies."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "runs").mkdir()
    for study in RUNS:
        fake_run(folder / "runs" / study, plan_of(study, "quick"), TRUTHS.get(study, Truth()), rounds=6)
    for build in {build for line in COSTOF_LINES for build in BUILD.findall(" ".join(line.words))}:
        for program in ("postgres", "mariadbd"):
            path = folder / build.removeprefix("/") / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(mode=0o755)
    return folder


def test_every_command_line_in_the_docs_starts_a_known_program() -> None:
    assert [str(line) for line in lines() if line.program not in {"costof", "make", *OTHERS}] == []


@pytest.mark.slow
@pytest.mark.parametrize("module", ["benches.run", "truth"])
def test_python_modules_of_long_running_make_targets_start_and_print_their_help(module: str) -> None:
    assert f"$(BIN)/python -m {module}" in Path("Makefile").read_text()
    done = subprocess.run([sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"Usage: python -m {module} "), done.stderr


def test_every_make_target_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))
    used = {line.words[1] for line in lines() if line.program == "make"}
    assert used - targets == set()


def test_documented_command_lines_that_cannot_run_here_are_at_least_parsed() -> None:
    for line in PARSED:
        name, *arguments = line.words[1:]
        whole = cli.make_context("costof", [name])
        command = cli.get_command(whole, name)
        assert command is not None
        command.make_context(name, arguments, parent=whole)


@pytest.mark.parametrize("line", RUN, ids=str)
def test_documented_command_line_without_special_requirements_succeeds(
    line: Line, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ended = CliRunner().invoke(cli, arguments_of(line))
    assert ended.exit_code in {0, 3}, ended.exception


def test_study_file_for_ones_own_load_generator_in_the_docs_can_be_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "own-questions.md").read_text()
    (file,) = re.findall(r"^```toml\n(title = .*?)^```$", page, re.MULTILINE | re.DOTALL)
    Path("mine.toml").write_text(file)
    runs = [line for line in COSTOF_LINES if "own-questions" in line.page and "./mine.toml" in line.words]
    for line in runs:
        ended = CliRunner().invoke(cli, arguments_of(line))
        assert ended.exit_code == 0, (str(line), ended.exception)
    assert runs


def test_commands_and_programs_with_special_requirements_all_appear_in_the_docs() -> None:
    used = {word for line in COSTOF_LINES for word in line.words}
    assert set(NEEDS) - used == set()
    assert set(OTHERS) - {line.program for line in lines()} == set()
