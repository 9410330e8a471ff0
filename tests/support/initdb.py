"""Makes PostgreSQL servers of this process start from a copy of an initialised data folder.

`initdb` takes a second of CPU time. The folder is in the user's cache, one for each version and way to initialise. All
copies have the same system identifier.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import subprocess
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

from costof.programs.postgres.lab import ADMINISTRATOR, PostgresServer
from costof.programs.postgres.versions import postgres_version

initialise = PostgresServer.initialise
CACHE = user_cache_path("costof") / "test-postgres"


def copy_from_now_on() -> None:
    PostgresServer.initialise = copy_initialised  # type: ignore[method-assign]


def copy_initialised(server: PostgresServer, initdb: Path) -> None:
    """Initialise the server's data folder, or copy one that was initialised earlier and set the new password in it."""
    version = postgres_version(initdb.with_name("postgres"))
    # Identify a build by its version and size, and not by its path, because a downloaded release runs from another copy
    # in each lab.
    build = f"{version} {initdb.stat().st_size} {server.initdb_options()}"
    way = f"{os.geteuid()} {build} {inspect.getsource(initialise)}"
    kept = CACHE / hashlib.sha256(way.encode()).hexdigest()[:16]
    if kept.exists():
        copy(kept, server.data)
        set_password(server, initdb.with_name("postgres"))
        return
    initialise(server, initdb)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        complete = Path(folder) / "data"
        copy(server.data, complete)
        # Another process may have stored the folder in the meantime.
        with contextlib.suppress(OSError):
            complete.rename(kept)


def copy(source: Path, copied: Path) -> None:
    subprocess.run(["cp", "--archive", str(source), str(copied)], check=True)


def set_password(server: PostgresServer, postgres: Path) -> None:
    # In single-user mode, PostgreSQL reads statements from its standard input.
    statement = f"ALTER ROLE {ADMINISTRATOR} PASSWORD '{server._admin_password.get_secret_value()}'\n"
    argv = [*server.os_user.prefix, str(postgres), "--single", "-D", str(server.data), "postgres"]
    subprocess.run(argv, input=statement.encode(), check=True, capture_output=True)
