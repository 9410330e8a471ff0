"""The options that say where a user's own servers are and how they are reached, alike for every command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from costof.errors import CostofError, Problem
from costof.programs.access import Access
from costof.programs.ca_file import check_ca_file
from costof.programs.password import Password, take_password
from costof.programs.password_variable import VARIABLE

FILE = click.Path(path_type=Path)
TARGET = click.option("--target", metavar="URL", help="Ask your own servers instead of a lab.")
PLAIN_TARGET = click.option(
    "--plain-target", metavar="URL", help="Where a target of HTTP takes plain requests; --target is its HTTPS."
)
TLS_CA = click.option(
    "--tls-ca", type=FILE, help="CA file (PEM) of the target, which is then spoken to only by TLS, as with tls=true."
)
ALLOW_PLAIN = click.option(
    "--allow-plain", is_flag=True, help="Measure plain arms though TLS is asked for: their log-ins can be read."
)
PASSWORD_FILE = click.option(
    "--password-file", type=FILE, help=f"The target's password, so that no URL holds it; {VARIABLE} does too."
)
ASK_PASSWORD = click.option("--ask-password", is_flag=True, help="Ask for the target's password.")
DATABASE = click.option(
    "--database", metavar="NAME", help="The database to make on the target (not there, or empty); else a new name."
)
SERVER_CPU = click.option(
    "--server-cpu", metavar="COMMAND", help="Prints the CPU seconds that the target's servers have used, over ssh say."
)

POOLER = click.option(
    "--pooler", metavar="URL", help="A PgBouncer of your own before the target, for postgres-pooling."
)

Command = Callable[..., Any]


def target_options(command: Command) -> Command:
    """All of them; the command gets one `access`, None where there is no target."""

    @wraps(command)
    def with_access(
        target: str | None,
        plain_target: str | None,
        tls_ca: Path | None,
        allow_plain: bool,
        password_file: Path | None,
        ask_password: bool,
        database: str | None,
        server_cpu: str | None,
        pooler: str | None,
        **others: Any,
    ) -> Any:
        password = _password(password_file, ask_password)
        if target is None:
            _check_unused(plain_target, password, database, allow_plain, server_cpu, pooler)
            return command(access=None, **others)
        check_ca_file(tls_ca)
        access = Access(target, tls_ca, plain_target, password, database, allow_plain, server_cpu, pooler)
        return command(access=access, **others)

    way = (TARGET, PLAIN_TARGET, TLS_CA, ALLOW_PLAIN, PASSWORD_FILE, ASK_PASSWORD, DATABASE, SERVER_CPU, POOLER)
    for option in reversed(way):
        with_access = option(with_access)
    return with_access


def server_options(command: Command) -> Command:
    """Those of a command that logs in to one server of the user's and measures nothing; the target must be given."""

    @wraps(command)
    def with_access(
        target: str,
        tls_ca: Path | None,
        password_file: Path | None,
        ask_password: bool,
        database: str | None,
        **others: Any,
    ) -> Any:
        check_ca_file(tls_ca)
        access = Access(target, tls_ca, None, _password(password_file, ask_password), database)
        return command(access=access, **others)

    required = click.option("--target", metavar="URL", required=True, help="The server, as mongodb://… or mysql://…")
    only = click.option("--database", metavar="NAME", help="Only this database.")
    for option in reversed((required, TLS_CA, PASSWORD_FILE, ASK_PASSWORD, only)):
        with_access = option(with_access)
    return with_access


def _password(file: Path | None, ask: bool) -> Password | None:
    """What the environment held is the root command's."""
    return take_password(file, ask, click.get_current_context().find_root().obj)


def _check_unused(
    plain_target: str | None,
    password: Password | None,
    database: str | None,
    plain: bool,
    server_cpu: str | None,
    pooler: str | None,
) -> None:
    """Raises `PLAIN_TARGET_UNUSED`, `TARGET_OPTION_UNUSED` for what says nothing without a target."""
    if plain_target is not None:
        raise CostofError(Problem.PLAIN_TARGET_UNUSED)
    said = {"a password": password and password.said, "--database": database, "--allow-plain": plain}
    said |= {"--server-cpu": server_cpu, "--pooler": pooler}
    for option, value in said.items():
        if value:
            raise CostofError(Problem.TARGET_OPTION_UNUSED, option=option)
