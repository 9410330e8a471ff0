"""The round trip in mariadb's own client, and what somebody sees who starts it at a terminal."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.clients.facts import HEX, SALARY, name_of
from tests.clients.programs import Absent
from tests.support.programs import HANGS_SECONDS

# Where one answer ends and the next begins.
SUBJECTS = ("columns", "visit", "summary", "updated", "residents", "person", "found", "left")
SCRIPT = """
use {database};
select 'columns'; show columns from cities;
insert into cities (name, residents) values ('{owner}', 3);
start transaction;
insert into visits (city_id, at, note, price) values
  (last_insert_id(), '2026-01-02 03:04:05', null, 1.50), (last_insert_id(), '2026-01-03', 'O\\'Hara \\\\ é', 2.25);
commit;
select 'visit'; select at, note, price from visits where city_id = (select id from cities where name = '{owner}')
  order by at;
select 'summary'; select c.name, count(*), sum(v.price), max(v.at) from cities c join visits v on v.city_id = c.id
  where c.name = '{owner}' group by c.name having count(*) > 1;
select 'updated';
update cities set residents = residents + 1 where name = '{owner}'; select row_count();
begin; update cities set residents = 99 where name = '{owner}'; rollback;
select 'residents'; select residents from cities where name = '{owner}';
insert into people (name, salary, city) values ('{name}', 1, '{owner}');
update people set salary = {salary} where city = '{owner}';
select 'person'; select name, salary, city from people where city = '{owner}';
select 'found'; select count(*) from people where name = '{name}';
delete from people where city = '{owner}';
delete v from visits v join cities c on c.id = v.city_id where c.name = '{owner}';
delete from cities where name = '{owner}';
select 'left'; select count(*) from cities where name = '{owner}';
"""


def find() -> str:
    """Raises `Absent`."""
    program = shutil.which("mariadb")
    if program is None:
        raise Absent("mariadb, of Debian's mariadb-client-core, is not installed")
    return program


def _arguments(address: str, user: str, password: str, folder: Path) -> list[str]:
    """The password lies in a file, since everybody can see command lines."""
    host, port = address.split(":")
    options = folder / f"{user}.cnf"
    options.touch(mode=0o600)
    options.write_text(f"[client]\npassword={password}\n")
    login = [f"--host={host}", f"--port={port}", f"--user={user}", "--default-character-set=utf8mb4"]
    return [find(), f"--defaults-file={options}", *login]


def round_trip(address: str, user: str, password: str, database: str, owner: str, folder: Path) -> list[str]:
    """What was seen. `folder` holds the password's file."""
    argv = [*_arguments(address, user, password, folder), "--batch", "--skip-column-names", "--raw", "--binary-as-hex"]
    script = SCRIPT.format(database=database, owner=owner, name=name_of(owner), salary=SALARY)
    done = subprocess.run(argv, input=script.encode(), capture_output=True, timeout=HANGS_SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return _lines(done.stdout.decode().splitlines())


def _lines(output: Sequence[str]) -> list[str]:
    """A line for each row; the columns of a table are rows, and are told in one."""
    answers: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in output:
        if line in SUBJECTS:
            rows = answers.setdefault(line, [])
        else:
            rows.append([_shown(value) for value in line.split("\t")])
    answers["columns"] = [[row[0] for row in answers["columns"]]]
    return [f"{subject}: {', '.join(row)}" for subject, rows in answers.items() for row in rows]


def _shown(value: str) -> str:
    if value.startswith("0x"):
        return HEX + value.removeprefix("0x").lower()
    return "none" if value == "NULL" else value


def at_a_terminal(address: str, user: str, password: str, database: str, typed: str, folder: Path) -> str:
    """What the screen shows of the lines that are typed, from the start to `quit`."""
    controller, terminal = pty.openpty()
    # No colours, and nothing of another's history.
    environment = {**os.environ, "TERM": "dumb", "MYSQL_HISTFILE": "/dev/null", "HOME": str(folder)}
    argv = [*_arguments(address, user, password, folder), database]
    with subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as program:
        os.close(terminal)
        os.write(controller, f"{typed}\nquit\n".encode())
        screen = _until_end(controller)
        assert program.wait(HANGS_SECONDS) == 0, screen
    return screen


def _until_end(controller: int) -> str:
    shown = b""
    try:
        while more := os.read(controller, 4096):
            shown += more
    except OSError:
        # Linux says so when the last who had the terminal is gone.
        pass
    finally:
        os.close(controller)
    return shown.decode(errors="replace").replace("\r", "")
