"""The options that say where a user's own servers are and how they are reached, alike for every command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import click

from costof.errors import CostofError, ErrorText, WarningText
from costof.messages.plan import HostsSettings
from costof.programs.access import Access, Password, check_ca_file, read_password
from costof.programs.password_variable import VARIABLE
from costof.services import Service
from costof.study.commands import COMMAND
from costof.study.load import CommandRate, Load
from costof.study.plan import Plan
from costof.study.schema import Study

FILE = click.Path(path_type=Path)
TARGET = click.option("--target", "url", metavar="URL", help="Ask your own servers instead of a lab.")
PLAIN_TARGET = click.option(
    "--plain-target",
    "plain_url",
    metavar="URL",
    help="Where a target of HTTP takes plain requests; --target is its HTTPS.",
)
TLS_CA = click.option(
    "--tls-ca",
    "ca_file",
    type=FILE,
    help="CA file (PEM) of the target, which is then spoken to only by TLS, as with tls=true.",
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
    "--pooler", "pooler_url", metavar="URL", help="A PgBouncer of your own before the target, for postgres-pooling."
)

Command = Callable[..., Any]


@dataclass(frozen=True)
class TargetArguments:
    """What a command line says of the user's own servers; nothing of it where there is no --target."""

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
            raise CostofError(ErrorText.PLAIN_TARGET_UNUSED)
        for option in self.options:
            raise CostofError(ErrorText.TARGET_OPTION_UNUSED, option=option)
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
        """The options that were given. A password from the environment is none."""
        given = {
            "--target": self.url,
            "--plain-target": self.plain_url,
            "--tls-ca": self.ca_file,
            "a password": self.password and self.password.explicit,
            "--database": self.database,
            "--allow-plain": self.allow_plain,
            "--server-cpu": self.server_cpu,
            "--pooler": self.pooler_url,
        }
        return [option for option, value in given.items() if value]


def target_options(command: Command) -> Command:
    """Add the options of a target; the command gets one `target`."""

    fields = ("url", "plain_url", "ca_file", "allow_plain", "database", "server_cpu", "pooler_url")

    @wraps(command)
    def with_target(password_file: Path | None, ask_password: bool, **values: Any) -> Any:
        given = {name: values.pop(name) for name in fields}
        return command(target=TargetArguments(password=_password(password_file, ask_password), **given), **values)

    way = (TARGET, PLAIN_TARGET, TLS_CA, ALLOW_PLAIN, PASSWORD_FILE, ASK_PASSWORD, DATABASE, SERVER_CPU, POOLER)
    for option in reversed(way):
        with_target = option(with_target)
    return with_target


def server_options(command: Command) -> Command:
    """Add the options to log in to one of the user's servers without measuring; --target is required."""

    @wraps(command)
    def with_access(
        url: str,
        ca_file: Path | None,
        password_file: Path | None,
        ask_password: bool,
        database: str | None,
        **others: Any,
    ) -> Any:
        check_ca_file(ca_file)
        access = Access(url, ca_file, None, _password(password_file, ask_password), database)
        return command(access=access, **others)

    required = click.option(
        "--target", "url", metavar="URL", required=True, help="The server, as mongodb://… or mysql://…"
    )
    only = click.option("--database", metavar="NAME", help="Only this database.")
    for option in reversed((required, TLS_CA, PASSWORD_FILE, ASK_PASSWORD, only)):
        with_access = option(with_access)
    return with_access


def _password(file: Path | None, ask: bool) -> Password | None:
    """The root command holds the password of the environment."""
    return read_password(file, ask, click.get_current_context().find_root().obj)


HOSTS = click.option(
    "--hosts", "address", metavar="auto|ray://…", help="Measure from the hosts of a Ray cluster, as one."
)
WHERE = click.option("--hosts-where", "where", multiple=True, metavar="KEY=VALUE", help="Hosts with this label alone.")
LEAST = click.option(
    "--hosts-least", "least", type=click.IntRange(min=1), metavar="N", help="Go on with so many when others are lost."
)
UNAUTHENTICATED = click.option(
    "--hosts-unauthenticated", "unauthenticated", is_flag=True, help="Take a cluster that anybody may run code on."
)


AUTO, CLIENT_SCHEME = "auto", "ray://"


def hosts_options(command: Command) -> Command:
    """Add the options of hosts; the command gets one `hosts`, None where this machine is to measure."""

    @wraps(command)
    def with_hosts(
        address: str | None, where: tuple[str, ...], least: int | None, unauthenticated: bool, **others: Any
    ) -> Any:
        return command(hosts=hosts_settings(address, where, least, unauthenticated), **others)

    for option in reversed((HOSTS, WHERE, LEAST, UNAUTHENTICATED)):
        with_hosts = option(with_hosts)
    return with_hosts


def hosts_settings(
    address: str | None, where: Sequence[str], least: int | None, unauthenticated: bool
) -> HostsSettings | None:
    """Return the settings; None without an address. Raises `HOSTS_ADDRESS`, `HOSTS_LABEL`, `HOSTS_OPTION_UNUSED`."""
    if address is None:
        said = {"--hosts-where": where, "--hosts-least": least, "--hosts-unauthenticated": unauthenticated}
        for option in (option for option, value in said.items() if value):
            raise CostofError(ErrorText.HOSTS_OPTION_UNUSED, option=option)
        return None
    if address != AUTO and not address.startswith(CLIENT_SCHEME):
        raise CostofError(ErrorText.HOSTS_ADDRESS, text=address)
    labels = []
    for text in where:
        key, assigned, value = text.partition("=")
        if not key or not assigned:
            raise CostofError(ErrorText.HOSTS_LABEL, text=text)
        labels.append((key, value))
    return HostsSettings(address=address, where=tuple(labels), least=least, unauthenticated=unauthenticated)


def check_asked(study: Study, load: Load | None, access: Access | None, hosts: HostsSettings) -> None:
    """Raises `HOSTS_NEED_TARGET` of a study whose servers would be a lab's, and `HOSTS_CANNOT` for a rate that could
    not be divided anew."""
    if access is None and study.service.kind != COMMAND:
        raise CostofError(ErrorText.HOSTS_NEED_TARGET)
    if hosts.least is not None and isinstance(load, CommandRate):
        detail = "each host is told its share once, and it would not be more where others are lost"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="--hosts-least beside '{rate}'", detail=detail)


def check_hosts(plan: Plan, service: Service) -> None:
    """Raise `HOSTS_CANNOT` for what only this machine has, and say what is left out."""
    libraries = dict.fromkeys(arm.settings.tls_library for arm in plan.arms if arm.settings.tls_library)
    if libraries:
        detail = "hosts are sent the engine of the installed TLS library alone"
        raise CostofError(ErrorText.HOSTS_CANNOT, what=f"TLS by {', '.join(libraries)}", detail=detail)
    if plan.client is not None:
        detail = "hosts are sent costof's engine alone"
        raise CostofError(ErrorText.HOSTS_CANNOT, what=f"--client {plan.client}", detail=detail)
    if any(arm.settings.before or arm.settings.after for arm in plan.arms):
        detail = (
            "each would do and undo what all share, one under another's measuring; have both levels stand beside each "
            "other, and name them in the command lines"
        )
        raise CostofError(ErrorText.HOSTS_CANNOT, what="'before' and 'after'", detail=detail)
    if any(each.command and each.command.warmup for each in plan.study.workloads.values()):
        detail = "unmeasured runs end at different times, and hosts measure together"
        raise CostofError(ErrorText.HOSTS_CANNOT, what="--warmup", detail=detail)
    if service.single_machine_reason is not None:
        raise CostofError(ErrorText.HOSTS_CANNOT, what=plan.study.name, detail=service.single_machine_reason)
    if plan.left_out:
        click.echo(WarningText.HOSTS_WITHOUT_APPLICATIONS.text(views="; ".join(plan.left_out)), err=True)
