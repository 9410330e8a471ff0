"""What a new MariaDB is told before its first start: the system tables, a database, and who may use it."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from pydantic import SecretStr

from costof.programs.mariadb.binary import system_tables


def bootstrap_statements(binary: Path, database: str, user: str, password: SecretStr) -> str:
    """SQL of `mariadbd --bootstrap`, with the password in it. Raises `PROGRAM_MISSING` without the program's files."""
    tables = "\n".join(file.read_text() for file in system_tables(binary))
    proof = f"PASSWORD({quoted(password.get_secret_value())})"
    return (
        f"CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket={quoted(os_user())};\n{tables}\n"
        # Until then, bootstrapping knows no users.
        "FLUSH PRIVILEGES;\n"
        f"CREATE DATABASE {database};\n"
        f"CREATE USER {user} IDENTIFIED VIA mysql_native_password USING {proof};\n"
        f"GRANT ALL ON {database}.* TO {user};\n"
    )


def os_user() -> str:
    """Of this process: the administrator, whom the server knows by the other end of its Unix socket."""
    return pwd.getpwuid(os.geteuid()).pw_name


def quoted(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
