"""The options that say where a user's own servers are and how they are reached, alike for every command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from costof.errors import CostofError, Problem
from costof.programs.access import Access, Password, check_ca_file, take_password
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


@dataclass(frozen=True)
class GivenTarget:
    """What a command line says of a user's own servers; nothing of it where there is no --target."""

    url: str | None = field(repr=False)
    plain_url: str | None = field(repr=False)
    ca_file: Path | None
    allow_plain: bool
    password: Password | None
    database: str | None
    server_cpu: str | None
    pooler_url: str | None = field(repr=False)

    def access(self) -> Access | None:
        """Raises `TLS_CA_INVALID`; `PLAIN_TARGET_UNUSED`, `TARGET_OPTION_UNUSED` for what needs a target."""
        if self.url is not None:
            check_ca_file(self.ca_file)
            return self.access_at(self.url)
        if self.plain_url is not None:
            raise CostofError(Problem.PLAIN_TARGET_UNUSED)
        for option in self.options:
            raise CostofError(Problem.TARGET_OPTION_UNUSED, option=option)
        return None

    def access_at(self, url: str) -> Access:
        return Access(
            url,
            self.ca_file,
            self.plain_url,
            self.password,
            self.database,
            self.allow_plain,
            self.server_cpu,
            self.pooler_url,
        )

    @property
    def options(self) -> list[str]:
        """The options that were given. A password of the environment is none."""
        given = {
            "--target": self.url,
            "--plain-target": self.plain_url,
            "--tls-ca": self.ca_file,
            "a password": self.password and self.password.said,
            "--database": self.database,
            "--allow-plain": self.allow_plain,
            "--server-cpu": self.server_cpu,
            "--pooler": self.pooler_url,
        }
        return [option for option, value in given.items() if value]


def target_options(command: Command) -> Command:
    """All of them; the command gets one `target`."""

    @wraps(command)
    def with_target(
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
        given = GivenTarget(target, plain_target, tls_ca, allow_plain, password, database, server_cpu, pooler)
        return command(target=given, **others)

    way = (TARGET, PLAIN_TARGET, TLS_CA, ALLOW_PLAIN, PASSWORD_FILE, ASK_PASSWORD, DATABASE, SERVER_CPU, POOLER)
    for option in reversed(way):
        with_target = option(with_target)
    return with_target


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
