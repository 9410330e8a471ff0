"""Tests of all commands: which modules they import, and what they show in the process list."""

from __future__ import annotations

import subprocess
import sys

import pytest

from costof.cli.process_title import process_title

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
def test_fast_subcommands_of_costof_import_no_heavy_libraries(arguments: list[str], allowed: set[str]) -> None:
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
