"""Commands that answer at once import nothing that takes longer than they do."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {
    "asyncpg",
    "cryptography",
    "jinja2",
    "numpy",
    "psycopg",
    "pydantic",
    "pymongo",
    "pymysql",
    "redis",
    "rich",
    "scipy",
}
#: What measures and is asked once is planned by models, and its times are counted by arrays.
OF_AB = {"numpy", "pydantic"}
# However the command ends, it is told last what has been imported until then.
PROGRAM = """
import contextlib
import sys
from costof.__main__ import main
with contextlib.suppress(SystemExit):
    main()
print("\\n" + " ".join(sys.modules))
"""


def imported(*arguments: str) -> set[str]:
    """All modules that a command has imported when it ends."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [(["--help"], set()), (["list"], set()), (["ab", "-n", "1", "http://127.0.0.1:1/"], OF_AB)],
    ids=["help", "list", "ab"],
)
def test_a_command_imports_its_own_room_only(arguments: list[str], allowed: set[str]) -> None:
    found = imported(*arguments)
    assert "costof.cli.main" in found
    assert found & HEAVY == allowed
    rooms = ("costof.report.sections", "costof.results.", "costof.services")
    assert {name for name in found if name.startswith(rooms)} <= {"costof.results.ab_figures"}
