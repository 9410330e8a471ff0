"""All commands: their imports, their entry in the process list, and their progress line."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from costof.cli.process_title import process_title
from costof.cli.run import Bar
from costof.study.library import load_study
from costof.study.plan import Options, resolve

STUDY = load_study("mongodb-tls")
HEAVY = {"asyncpg", "cryptography", "jinja2", "numpy", "psycopg", "pydantic", "pymongo", "pymysql", "redis", "rich"}
HEAVY |= {"scipy"}
#: `costof ab` plans with pydantic models and counts times with numpy arrays.
AB_IMPORTS = {"numpy", "pydantic"}
# Prints all imported modules at the end, whatever the command's exit status is.
PROGRAM = """
import contextlib
import sys

from costof.__main__ import main

with contextlib.suppress(SystemExit):
    main()
print("\\n" + " ".join(sys.modules))
"""


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [(["--help"], set()), (["list"], set()), (["ab", "-n", "1", "http://127.0.0.1:1/"], AB_IMPORTS)],
    ids=["help", "list", "ab"],
)
def test_fast_commands_import_no_heavy_libraries(arguments: list[str], allowed: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    modules = set(done.stdout.splitlines()[-1].split())
    assert "costof.cli.main" in modules
    assert modules & HEAVY == allowed
    packages = ("costof.report.sections", "costof.results.", "costof.services")
    assert {name for name in modules if name.startswith(packages)} <= {"costof.results.ab_figures"}


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("run mongodb-tls --target mongodb://u:p@h/", "costof run mongodb-tls"),
        ("run --target=mysql://u:p@h/ mysql-transport", "costof run"),
        ("ab -H Authorization:x http://h/", "costof ab"),
        ("ab http://h/?token=x", "costof ab"),
        ("ycsb load mysql -p db.passwd=x", "costof ycsb load mysql"),
        ("clean --target mysql://u:p@h/", "costof clean"),
        ("run mongodb-tls", None),
        ("gateway --rules rules.toml --server h:1", None),
        ("--target mysql://u:p@h/ run mongodb-tls", "costof"),
        ("", None),
    ],
)
def test_process_list_shows_no_arguments_with_secrets(arguments: str, shown: str | None) -> None:
    assert process_title(arguments.split()) == shown


@pytest.mark.parametrize(
    ("options", "elapsed_seconds", "left"),
    [
        (Options(profile="quick", budget="50s"), 10.0, 40),
        (Options(profile="quick", budget="10h"), 10.0, (STUDY.profiles["quick"].rounds[1] - 2) * 5),
        (Options(profile="quick", rounds="5"), 20.0, 30),
    ],
)
def test_time_left_ends_at_the_limit_that_is_reached_first(
    options: Options, elapsed_seconds: float, left: float
) -> None:
    bar = Bar(resolve(STUDY, options), Console(file=io.StringIO()))
    assert bar.seconds_left(2, elapsed_seconds, None) == pytest.approx(left)


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        (Options(budget="50s", precision="2%"), ["round 2 · at most 40 s left", "target ±2.0%"]),
        (Options(rounds="5"), ["round 2 of 5 · about 15 s left"]),
    ],
)
def test_progress_line_shows_rounds_time_left_and_precision(options: Options, texts: list[str]) -> None:
    out = io.StringIO()
    with Bar(resolve(STUDY, options), Console(file=out, force_terminal=True, width=140)) as bar:
        bar.stage("measuring")
        bar.round(2, 10.0, 0.034)
    assert [words for words in ("known to ±3.4%", *texts) if words not in out.getvalue()] == []
    assert ("target" in out.getvalue()) == (len(texts) == 2)
